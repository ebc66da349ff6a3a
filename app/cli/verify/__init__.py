"""`perdure verify`: the worker is killed at each commit and each call, and nothing may be lost."""

import asyncio
import fcntl
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from app.cli.verify.campaign import Campaign, Choice
from app.cli.verify.database import Template, server
from app.cli.verify.nursery import Nursery
from app.cli.verify.report import Report, show
from app.cli.verify.scenario import read
from app.cli.verify.seen import Plan
from app.errors import ConfigurationError
from app.settings import PREFIX
from app.tools.registry import load

HOME = Path(".perdure") / "verify"
FOREIGN = ("ANTHROPIC_", PREFIX)
UNSAFE = f"{PREFIX}ALLOW_UNSAFE_DATABASE"
AGENTS = f"{PREFIX}AGENTS"


class CannotRun(Exception):
    """No trial could be made."""


@dataclass(frozen=True)
class Options:
    """`postgres`: a server on which databases may be made; None: an embedded one.

    `source`: a migrated database there to begin with."""

    agent: str
    script: Path
    choice: Choice
    jobs: int = 1
    json: Path | None = None
    postgres: str | None = None
    patience: float = 60.0
    home: Path = HOME
    source: str = "template1"


def run(options: Options, environ: Mapping[str, str]) -> Report:
    """Show what was found, and return it."""
    try:
        return _run(options, environ)
    except psycopg.OperationalError as error:
        raise CannotRun(f"The server for the trials cannot be used: {error}") from error


def _run(options: Options, environ: Mapping[str, str]) -> Report:
    scenario = read(options.script)
    agents = environ.get(AGENTS) or "app.agents"
    agent = load(agents).agent(options.agent)
    if agent is None:
        raise ConfigurationError(
            f"There is no agent {options.agent!r} in {agents}.", hint=f"Set {AGENTS}."
        )
    tables = _read_tables(options.script, scenario.tables)
    environment = _environment(environ, agents)
    with (
        _alone(options.home),
        Nursery(environment) as nursery,
        server(options.postgres, options.home) as url,
    ):
        template = Template(url, nursery, environment, tables, options.source)
        plan = Plan(
            options.agent,
            scenario,
            environment,
            options.home,
            template.writers,
            options.patience,
            nursery,
        )
        campaign = Campaign(plan, template, agent, options.choice, options.jobs)
        try:
            _carry_out(campaign)
        finally:
            template.close()
            _tell(campaign.report, options.json)
    return campaign.report


def _carry_out(campaign: Campaign) -> None:
    try:
        asyncio.run(_until_told(campaign))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise CannotRun("Interrupted; only the trials of the table were made.") from None


async def _until_told(campaign: Campaign) -> None:
    """SIGTERM ends it as Ctrl-C does: nothing is left behind."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await campaign.run()


def _tell(report: Report, file: Path | None) -> None:
    if report.rows:
        show(report)
    if file is not None:
        file.write_text(report.to_json())


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold this directory; the kernel lets go of it however the holder ends."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRun("`perdure verify` is already running in this directory.") from None
        yield


def _environment(environ: Mapping[str, str], agents: str) -> dict[str, str]:
    """Without the settings of another deployment, keys, and proxies for the internet."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(FOREIGN) or name == UNSAFE
        if not name.lower().endswith("_proxy")
    }
    return {**kept, AGENTS: agents}


def _read_tables(script: Path, tables: str | None) -> str | None:
    """Beside the script."""
    if tables is None:
        return None
    try:
        return (script.parent / tables).read_text()
    except OSError as error:
        raise ConfigurationError(f"The tables cannot be read: {error}.") from error
