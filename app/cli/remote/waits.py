"""`perdure waits`: what people and clients are asked, and what they answer."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.remote.calling import service
from app.cli.remote.options import Behalf, Json, Reason, read_json, read_text
from app.domain.states import Outcome, WaitKind, WaitState

if TYPE_CHECKING:
    from app.client.models import Wait

# A decision that was made is not lost to an API that starts again.
DECIDING_SECONDS = 30.0

waits = typer.Typer(help="Approve, answer and settle what runs wait for.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="WAIT", help="Its id, wait_….")]


@waits.command("list", epilog="Example: perdure waits list --kind approval")
def list_waits(
    run: Annotated[str | None, typer.Option(help="Only of this run and its children.")] = None,
    kind: Annotated[WaitKind | None, typer.Option(help="Only of this kind.")] = None,
    state: Annotated[Literal[WaitState, "all"], typer.Option(help="Only in this state.")] = "open",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """List what runs wait for; the open ones, unless told otherwise."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = client.waits.list(
            run=run,
            kind=kind,
            state=None if state == "all" else state,
        )
        some = list(islice(found, limit))
    if as_json:
        screen.print_json(screen.raw(some))
    else:
        showing.print_waits(some)


@waits.command("show", epilog="Example: perdure waits show wait_…")
def show(wait: Id, as_json: Json = False) -> None:
    """Show what is asked, with all that is known, or how it was resolved."""
    with service(as_json=as_json) as client:
        _tell(client.waits.get(wait), as_json=as_json)


@waits.command("allow", epilog="Example: perdure waits allow wait_… --reason 'within the limit'")
def allow(
    wait: Id,
    reason: Reason = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Allow its like as well: {"scope":"session","when":{"amount":{"max":10}}}.',
        ),
    ] = None,
    arguments_hash: Annotated[
        str | None, typer.Option("--hash", help="Only if it is still about these arguments.")
    ] = None,
    on_behalf_of: Behalf = None,
    as_json: Json = False,
) -> None:
    """Allow a call, with the arguments that the wait shows."""
    given = None if rule is None else read_json(rule, "--rule")
    with service(
        as_json=as_json, patience=DECIDING_SECONDS, look=f"perdure waits show {wait}"
    ) as client:
        decided = client.approvals.allow(
            wait,
            reason=reason,
            rule=given,
            arguments_hash=arguments_hash,
            on_behalf_of=on_behalf_of,
        )
        _tell(decided, as_json=as_json)


@waits.command("deny", epilog="Example: perdure waits deny wait_… --reason 'not this customer'")
def deny(
    wait: Id, reason: Reason = None, on_behalf_of: Behalf = None, as_json: Json = False
) -> None:
    """Deny a call; the model is told so, with the reason."""
    with service(
        as_json=as_json, patience=DECIDING_SECONDS, look=f"perdure waits show {wait}"
    ) as client:
        decided = client.approvals.deny(wait, reason=reason, on_behalf_of=on_behalf_of)
        _tell(decided, as_json=as_json)


@waits.command("answer", epilog="Example: perdure waits answer wait_… 'The blue one.'")
def answer(
    wait: Id,
    text: Annotated[str, typer.Argument(help="What to say; `-` reads it.")],
    on_behalf_of: Behalf = None,
    as_json: Json = False,
) -> None:
    """Answer a question of the agent."""
    with service(
        as_json=as_json, patience=DECIDING_SECONDS, look=f"perdure waits show {wait}"
    ) as client:
        answered = client.waits.answer(wait, read_text(text), on_behalf_of=on_behalf_of)
        _tell(answered, as_json=as_json)


@waits.command("settle", epilog="Example: perdure waits settle wait_… happened --result '{}'")
def settle(
    wait: Annotated[str, typer.Argument(metavar="WAIT", help="Its id; or that of a call, call_….")],
    outcome: Annotated[Outcome, typer.Argument(help="What became of the call.")],
    result: Annotated[
        str | None, typer.Option(metavar="JSON", help="What it gave, if it happened.")
    ] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Say what became of a call whose outcome nobody knows."""
    from app.cli.remote import screen

    given = None if result is None else read_json(result, "--result")
    with service(as_json=as_json, patience=DECIDING_SECONDS, look=_place(wait)) as client:
        if not wait.startswith("call_"):
            settled = client.waits.settle(wait, outcome, result=given, reason=reason)
            _tell(settled, as_json=as_json)
            return
        call = client.calls.settle(wait, outcome, result=given, reason=reason)
    if as_json:
        screen.print_json(call.raw)
    else:
        screen.print_line(f"{call.id} is {call.state}.")


@waits.command("unknown", epilog="Example: perdure waits unknown --tool refund")
def list_unknown(
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only of this tool.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """List the calls whose outcome nobody knows; `perdure waits settle` takes their ids."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        some = list(islice(client.calls.list_unknown(run=run, tool=tool), limit))
    if as_json:
        screen.print_json(screen.raw(some))
    else:
        showing.print_calls(some)


@waits.command("result", epilog="Example: perdure waits result wait_… '{\"signed\": true}'")
def post_result(
    wait: Id,
    result: Annotated[
        str, typer.Argument(metavar="JSON", help="What the tool gave; `-` reads it.")
    ],
    is_error: Annotated[
        bool, typer.Option("--error", help="It failed, and this says how.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give the result of a tool that runs on the client's side."""
    given = read_json(result, "RESULT")
    with service(
        as_json=as_json, patience=DECIDING_SECONDS, look=f"perdure waits show {wait}"
    ) as client:
        _tell(client.waits.post_result(wait, given, is_error=is_error), as_json=as_json)


def _place(asked: str) -> str:
    """The command that shows whether it is settled."""
    is_call = asked.startswith("call_")
    return "perdure waits unknown" if is_call else f"perdure waits show {asked}"


def _tell(wait: "Wait", *, as_json: bool) -> None:
    from app.cli.remote import screen, showing

    if as_json:
        screen.print_json(wait.raw)
    else:
        showing.print_wait(wait)
