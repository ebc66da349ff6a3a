"""`perdure runs`: submitting, following and steering runs."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.remote.calling import service
from app.cli.remote.exits import Exit, fail
from app.cli.remote.naming import a_run
from app.cli.remote.options import (
    Json,
    Limits,
    Timeout,
    read_limits,
    read_moment,
    read_pairs,
    read_text,
)
from app.domain.states import OnBusy, Status

if TYPE_CHECKING:
    from app.client import Run

runs = typer.Typer(help="Submit runs, look at them, steer them.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="RUN", help="Its id, run_….", callback=a_run)]
# Where a run that may have been made is to be seen.
LIST = "perdure runs list"


@runs.command("submit", epilog="Example: perdure runs submit refund-desk 'Refund 1001.' --wait")
def submit(
    agent: Annotated[str, typer.Argument(help="One of `perdure agents`.")],
    input: Annotated[str, typer.Argument(help="The task; `-` reads it from standard input.")],
    session: Annotated[str | None, typer.Option(help="Go on in this session.")] = None,
    target: Annotated[str | None, typer.Option(help="What is worked on, such as an order.")] = None,
    on_busy: Annotated[OnBusy, typer.Option(help="If another run is active.")] = "queue",
    limit: Limits = None,
    priority: Annotated[int | None, typer.Option(help="Lower goes first.")] = None,
    queue_key: Annotated[str | None, typer.Option(help="Whose share of the workers it is.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Its end: 2030-01-31T12:00:00Z.")] = None,
    callback: Annotated[str | None, typer.Option(help="A URL for webhooks.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="An idempotency key: the same again starts nothing.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it ends or needs somebody.")] = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Submit a run."""
    text = read_text(input, "INPUT")
    with service(as_json=as_json, look=LIST, agent=agent) as client:
        run = client.runs.submit(
            agent,
            text,
            session=session,
            target=target,
            on_busy=on_busy,
            limits=read_limits(limit),
            priority=priority,
            queue_key=queue_key,
            deadline=read_moment(deadline, "--deadline"),
            callback=callback,
            metadata=read_pairs(metadata, "--metadata"),
            idempotency_key=key,
        )
        _finish(run, timeout, wait=wait, as_json=as_json)


@runs.command("list", epilog="Example: perdure runs list --status waiting")
def list_runs(
    status: Annotated[Status | None, typer.Option(help="Only these.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    target: Annotated[str | None, typer.Option(help="Only on this target.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 50,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = client.runs.list(status=status, agent=agent, session=session, target=target)
        some = list(islice(found, limit))
    if as_json:
        screen.print_json(screen.raw(some))
    else:
        showing.print_runs(some)


@runs.command("show", epilog="Example: perdure runs show run_…")
def show(run: Id, as_json: Json = False) -> None:
    """Show a run: what it was asked, did, waits for and answered."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = client.runs.get(run)
        calls = [] if as_json else list(found.calls())
    if as_json:
        screen.print_json(found.raw)
    else:
        showing.print_run(found, calls)


@runs.command("wait", epilog="Example: perdure runs wait run_… --timeout 60")
def wait(run: Id, timeout: Timeout = None, as_json: Json = False) -> None:
    """Wait until a run ends or needs somebody; the exit code says which."""
    with service(as_json=as_json) as client:
        _wait(client.runs.get(run), timeout, as_json=as_json)


@runs.command("watch", epilog="Example: perdure runs watch run_…")
def watch(
    run: Id,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line per event.")] = False,
) -> None:
    """Follow a run to its end. Ctrl-C ends the watching, not the run."""
    from app.cli.remote import watching

    with service(as_json=as_json) as client:
        found = client.runs.get(run)
    with service(as_json=as_json, patience=watching.PATIENCE_SECONDS) as client:
        watching.watch(client, found.id, after, as_json=as_json)


@runs.command("cancel", epilog="Example: perdure runs cancel run_… --reason 'no longer needed'")
def cancel(
    run: Id,
    reason: Annotated[str | None, typer.Option(help="Why; kept with the run.")] = None,
    compensate: Annotated[
        bool, typer.Option("--compensate", help="Undo what can be undone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask a run to stop."""
    with service(as_json=as_json, look=f"perdure runs show {run}") as client:
        _told(client.runs.cancel(run, reason, compensate=compensate), as_json=as_json)


@runs.command("resume", epilog="Example: perdure runs resume run_… --limit turns=100")
def resume(run: Id, limit: Limits = None, as_json: Json = False) -> None:
    """Go on with a dead letter, or after a limit or a model error."""
    with service(as_json=as_json, look=f"perdure runs show {run}") as client:
        _told(client.runs.resume(run, read_limits(limit)), as_json=as_json)


@runs.command("fork", epilog="Example: perdure runs fork run_… --turn 2 --input 'Only half.'")
def fork(
    run: Id,
    turn: Annotated[int, typer.Option(min=1, help="The last turn that is shared.")],
    input: Annotated[str | None, typer.Option(help="What to say then; `-` reads it.")] = None,
    as_json: Json = False,
) -> None:
    """Start a new run that shares the first turns of another."""
    text = None if input is None else read_text(input, "--input")
    with service(as_json=as_json, look=LIST) as client:
        _told(client.runs.fork(run, turn, text), as_json=as_json)


@runs.command("send", epilog="Example: perdure runs send run_… 'Use the other account.'")
def send(
    run: Id,
    text: Annotated[str, typer.Argument(help="What to say; `-` reads it.")],
    as_json: Json = False,
) -> None:
    """Say something to a run; the model hears it with its next turn."""
    from app.cli.remote import screen

    said = read_text(text, "TEXT")
    with service(as_json=as_json, look=f"perdure runs watch {run}") as client:
        message = client.runs.send(run, said)
    if as_json:
        screen.print_json(message.raw)
    else:
        screen.print_line(f"{message.id} is {message.state}.")


def _finish(run: "Run", timeout: float | None, *, wait: bool, as_json: bool) -> None:
    if wait:
        from app.cli.remote import screen

        # Whatever becomes of the waiting, the run is there.
        screen.say_aside(f"{run.id} is submitted.")
        _wait(run, timeout, as_json=as_json)
    else:
        _told(run, as_json=as_json)


def _told(run: "Run", *, as_json: bool) -> None:
    from app.cli.remote import screen

    if as_json:
        screen.print_json(run.raw)
    else:
        follow = "" if run.has_ended else f" Follow it: perdure runs watch {run.id}"
        screen.print_line(f"{run.id} is {run.status}.{follow}")


def _wait(run: "Run", timeout: float | None, *, as_json: bool) -> None:
    from app.cli.remote import screen, showing

    try:
        with screen.progress(f"Waiting for {run.id}"):
            found = run.wait(timeout, until="asked")
    except KeyboardInterrupt:
        again = f"perdure runs wait {run.id}"
        fail(Exit.INTERRUPTED, f"Stopped waiting; the run goes on. Wait on with: {again}")
    if as_json:
        screen.print_json(found.raw)
    else:
        showing.print_run(found, [])
    raise typer.Exit(ending(found))


def ending(run: "Run") -> Exit:
    if not run.has_ended:
        return Exit.ASKS
    return Exit.OK if run.status == "succeeded" else Exit.UNSUCCESSFUL
