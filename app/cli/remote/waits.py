"""`perdure waits`: what people and clients are asked, and what they answer."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.remote.calling import service
from app.cli.remote.deciding import DECIDING_SECONDS, already, deciding
from app.cli.remote.naming import a_wait, a_wait_or_call
from app.cli.remote.options import Behalf, Json, Reason, read_json, read_text
from app.domain.states import Outcome, WaitKind, WaitState

if TYPE_CHECKING:
    from app.client.models import Wait

waits = typer.Typer(help="Approve, answer and settle what runs wait for.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="WAIT", help="Its id, wait_….", callback=a_wait)]


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
    with deciding(wait, "approval", as_json=as_json) as client:
        shown = client.waits.get(wait)
        decided = client.approvals.allow(
            shown,
            reason=reason,
            rule=given,
            arguments_hash=arguments_hash,
            on_behalf_of=on_behalf_of,
        )
        _tell(decided, as_json=as_json, before=shown)


@waits.command("deny", epilog="Example: perdure waits deny wait_… --reason 'not this customer'")
def deny(
    wait: Id, reason: Reason = None, on_behalf_of: Behalf = None, as_json: Json = False
) -> None:
    """Deny a call; the model is told so, with the reason."""
    with deciding(wait, "approval", as_json=as_json) as client:
        shown = client.waits.get(wait)
        decided = client.approvals.deny(shown, reason=reason, on_behalf_of=on_behalf_of)
        _tell(decided, as_json=as_json, before=shown)


@waits.command("answer", epilog="Example: perdure waits answer wait_… 'The blue one.'")
def answer(
    wait: Id,
    text: Annotated[str, typer.Argument(help="What to say; `-` reads it.")],
    on_behalf_of: Behalf = None,
    as_json: Json = False,
) -> None:
    """Answer a question of the agent."""
    said = read_text(text, "TEXT")
    with deciding(wait, "input", as_json=as_json) as client:
        answered = client.waits.answer(wait, said, on_behalf_of=on_behalf_of)
        _tell(answered, as_json=as_json)


@waits.command("settle", epilog="Example: perdure waits settle wait_… happened --result '{}'")
def settle(
    wait: Annotated[
        str,
        typer.Argument(
            metavar="WAIT", help="Its id; or that of a call, call_….", callback=a_wait_or_call
        ),
    ],
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
    if not wait.startswith("call_"):
        with deciding(wait, "outcome", as_json=as_json) as client:
            settled = client.waits.settle(wait, outcome, result=given, reason=reason)
            _tell(settled, as_json=as_json)
        return
    look = "perdure waits unknown"
    with service(as_json=as_json, patience=DECIDING_SECONDS, look=look) as client:
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
    with deciding(wait, "external", as_json=as_json) as client:
        _tell(client.waits.post_result(wait, given, is_error=is_error), as_json=as_json)


def _tell(wait: "Wait", *, as_json: bool, before: "Wait | None" = None) -> None:
    """`before`: as it was before the command."""
    from app.cli.remote import screen, showing

    if before is not None and before.state == "resolved" and not as_json:
        screen.print_line(already(before))
    if as_json:
        screen.print_json(wait.raw)
    else:
        showing.print_wait(wait)
