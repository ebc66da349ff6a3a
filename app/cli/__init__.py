"""The `perdure` command. Each subcommand imports what it runs, so that `--help` is quick."""

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.remote import fleet
from app.cli.remote.options import Json
from app.cli.remote.runs import runs
from app.cli.remote.waits import waits
from app.errors import ConfigurationError, PerdureError

if TYPE_CHECKING:
    from app.cli.verify.trap import Fault
    from app.settings import Settings


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of typer, which does not export it
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # Said by the library that checks choices, and no help.
            error.message = error.message.removeprefix("Value error, ")
            raise


application = typer.Typer(
    cls=Commands,
    help="A durable agent service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

USING = "Use a service"
SERVING = "Run a service"
CHECKING = "See that it holds"
BESIDES = "Stand-ins, and cleaning up"

Lifeline = Annotated[
    int | None, typer.Option(hidden=True, help="Stop when this descriptor is closed.")
]

Isolated = Annotated[
    bool, typer.Option("--isolated", hidden=True, help="Serve runs that workers have died of.")
]


class Part(StrEnum):
    """What `perdure dev` stands in for, where the real one is not there."""

    MODEL = "model"
    PROVIDER = "provider"


class Faults(StrEnum):
    """Which faults `perdure verify` tries at a window."""

    KILL = "kill"
    CUT = "cut"
    BOTH = "both"

    @property
    def each(self) -> tuple["Fault", ...]:
        match self:
            case Faults.KILL:
                return ("kill",)
            case Faults.CUT:
                return ("cut",)
            case Faults.BOTH:
                return ("kill", "cut")


def main() -> None:
    try:
        application(prog_name="perdure")
    except ConfigurationError as error:
        _refuse(str(error))
    except PerdureError as error:
        _refuse("\n".join(part for part in (error.detail, error.hint) if part))


application.add_typer(runs, name="runs", rich_help_panel=USING)
application.add_typer(waits, name="waits", rich_help_panel=USING)
for _command in (fleet.workers, fleet.agents, fleet.tools):
    application.command(_command.__name__, rich_help_panel=USING)(_command)


@application.command("dev", rich_help_panel=SERVING)
def run_dev() -> None:
    """Run everything on this machine: database, API and worker, on 127.0.0.1:8000."""
    from app.cli.dev import run

    run(os.environ)


@application.command("demo", rich_help_panel=CHECKING)
def run_demo() -> None:
    """Show a run that survives kill -9; ends by itself."""
    from app.cli.demo import run

    run()


@application.command("api", rich_help_panel=SERVING)
def run_api(lifeline: Lifeline = None) -> None:
    """Serve the HTTP API."""
    settings = _prepare(lifeline)
    from app.main import serve

    serve(settings)


@application.command("worker", rich_help_panel=SERVING)
def run_worker(lifeline: Lifeline = None, isolated: Isolated = False) -> None:
    """Carry out runs."""
    settings = _prepare(lifeline)
    from app.worker import serve

    serve(settings, isolated=isolated)


@application.command("migrate", rich_help_panel=SERVING)
def run_migrate() -> None:
    """Bring the database to this version; safe to repeat."""
    settings = _prepare(None)
    from app.worker import migrate

    migrate(settings)
    typer.echo("The database is up to date.")


@application.command("doctor", rich_help_panel=CHECKING)
def run_doctor(as_json: Json = False) -> None:
    """Check the settings, the database and what must always be true of its runs."""
    from app.cli.doctor import locate, refuse, run
    from app.settings import load

    found = locate(os.environ)
    try:
        settings = load({**os.environ, **found})
    except ConfigurationError as error:
        if not as_json:
            raise
        refuse(error)
        raise typer.Exit(1) from error
    if not run(settings, is_dev=bool(found), as_json=as_json):
        raise typer.Exit(1)


@application.command("verify", rich_help_panel=CHECKING)
def run_verify(
    agent: str,
    script: Annotated[Path, typer.Option(help="What is submitted and answered; JSON.")],
    fault: Annotated[Faults, typer.Option(help="What happens at each window.")] = Faults.KILL,
    stride: Annotated[int, typer.Option(min=1, help="Only each n-th trial.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 1,
    only: Annotated[
        str | None, typer.Option(help="Only trials of this name, as in the table; * and ?.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write a report to this file.")] = None,
    postgres: Annotated[
        str | None, typer.Option(help="A server to make databases on, instead of an embedded one.")
    ] = None,
    patience: Annotated[float, typer.Option(help="Seconds within which all runs must end.")] = 60.0,
) -> None:
    """Kill an agent's worker at each commit and call, and check that nothing is lost or doubled."""
    from app.cli.verify import CannotRun, Options, run
    from app.cli.verify.campaign import Choice

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    choice = Choice(fault.each, stride, only)
    options = Options(agent, script, choice, jobs, json, postgres, patience)
    try:
        report = run(options, os.environ)
    except (ConfigurationError, CannotRun) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if not report.is_sound:
        raise typer.Exit(1)


@application.command("clear", rich_help_panel=BESIDES)
def run_clear() -> None:
    """Delete the embedded databases of this directory."""
    from app.cli.dev import clear

    clear()


@application.command("simulate", rich_help_panel=BESIDES)
def run_simulated(
    part: Part,
    port: Annotated[int, typer.Argument(min=0, max=65_535)],
    ledger: str = ":memory:",
    lifeline: Lifeline = None,
) -> None:
    """Serve the scripted model or the pretend payment provider, with its ledger in a file."""
    from app.cli.lifeline import hold
    from app.cli.simulated import serve

    hold(lifeline)
    serve(part, port, ledger, quiet=lifeline is not None)


def _prepare(lifeline: int | None) -> "Settings":
    from app import telemetry
    from app.cli.lifeline import hold
    from app.settings import load

    settings = load(os.environ)
    telemetry.configure(settings.log_level)
    hold(lifeline)
    return settings


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    sys.exit(1)
