"""`perdure doctor`: whether a deployment can be trusted, one line for each thing looked at."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from app.cli.dev import HOME, URL
from app.cli.remote import screen
from app.errors import ConfigurationError
from app.llm.anthropic import AnthropicModel
from app.settings import Settings
from app.store.audit import audit
from app.store.checks import check_database
from app.store.db import Connection, row, rows
from app.store.views_fleet import live_agents
from app.tools.registry import load

CONNECT_SECONDS = 5
MODEL_SECONDS = 10.0
MOST_SECONDS_APART = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `advice` says what to do about one that is not well."""

    text: str
    advice: str = ""

    @property
    def is_well(self) -> bool:
        return not self.advice


def locate(environ: Mapping[str, str]) -> dict[str, str]:
    """The URL of the database of a `perdure dev` in this directory, unless another is named."""
    if environ.get(URL) or not (HOME / "postgres").exists():
        return {}
    from app.cli.embedded import Cluster

    cluster = Cluster(HOME / "postgres")
    return {URL: cluster.url()} if cluster.pid else {}


def run(settings: Settings, *, is_dev: bool = False, as_json: bool = False) -> bool:
    """Print the findings; true if all is well. `is_dev`: the model may be the scripted one."""
    found = asyncio.run(_report(settings, is_dev=is_dev, as_json=as_json))
    if as_json:
        _print_json(found)
    return all(finding.is_well for finding in found)


def refuse(error: ConfigurationError) -> None:
    """What is wrong with the settings, as the one finding of a document."""
    text = "\n".join([error.summary, *error.problems])
    _print_json([Finding(text, "Every setting is described in docs/settings.md.")])


async def _report(settings: Settings, *, is_dev: bool, as_json: bool) -> list[Finding]:
    """A person sees each finding as it is made."""
    found = []
    async for finding in _examine(settings, is_dev=is_dev):
        found.append(finding)
        if not as_json:
            _print(finding)
    return found


def _print(finding: Finding) -> None:
    if finding.is_well:
        screen.print_line(f"✓ {finding.text}")
    else:
        screen.print_line(f"✗ {finding.text}\n  {finding.advice}", "red")


def _print_json(found: Sequence[Finding]) -> None:
    findings = [
        {"ok": finding.is_well, "text": finding.text, "advice": finding.advice or None}
        for finding in found
    ]
    screen.print_json({"ok": all(finding.is_well for finding in found), "findings": findings})


async def _examine(settings: Settings, *, is_dev: bool) -> AsyncIterator[Finding]:
    yield _examine_agents(settings)
    yield await _examine_model(is_dev=is_dev)
    url = settings.database_url.get_secret_value()
    try:
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS
        )
    except psycopg.OperationalError as error:
        yield Finding(
            f"The database cannot be reached: {error}", "Start it, or correct PERDURE_DATABASE_URL."
        )
        return
    async with connection:
        database = await _examine_database(connection, settings)
        yield database
        if not database.advice:
            yield await _examine_clock(connection)
            yield await _examine_workers(connection)
            async for finding in _examine_unserved(connection):
                yield finding
            yield await _examine_runs(connection)


def _examine_agents(settings: Settings) -> Finding:
    try:
        registry = load(",".join(settings.agents))
    except ConfigurationError as error:
        return Finding(f"Agents cannot be loaded: {error}", "Correct the module it names.")
    names = ", ".join(sorted(registry.agents))
    return Finding(f"Agents: {names} (of this shell's PERDURE_AGENTS)")


async def _examine_database(connection: Connection, settings: Settings) -> Finding:
    problems = await check_database(connection, allow_unsafe=settings.allow_unsafe_database)
    version = connection.info.server_version // 10_000
    if problems:
        return Finding(f"PostgreSQL {version} cannot be used as it is.", "\n  ".join(problems))
    return Finding(f"PostgreSQL {version} keeps what it commits, and has this version's schema")


async def _examine_model(*, is_dev: bool) -> Finding:
    model = AnthropicModel(read_seconds=MODEL_SECONDS)
    try:
        trouble = await model.find_trouble()
    finally:
        await model.close()
    if trouble is None:
        return Finding(f"The model's provider {model.provider} answers")
    if is_dev and not model.has_credentials:
        return Finding("The model is scripted, because ANTHROPIC_API_KEY is not set")
    return Finding(
        f"The model's provider {model.provider}: {trouble}",
        "Correct ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL, for the workers too.",
    )


async def _examine_clock(connection: Connection) -> Finding:
    found = await row(connection, "select clock_timestamp() as now")
    assert found is not None
    here = datetime.now(UTC)  # noqa: TID251 - compared with the database's, stored nowhere
    apart = abs((found["now"] - here).total_seconds())
    if apart > MOST_SECONDS_APART:
        return Finding(
            f"The clock here and the database's are {apart:.0f} s apart",
            "Synchronise both. Deadlines are kept by the database's, whatever is shown here.",
        )
    return Finding("The clock here and the database's agree")


async def _examine_workers(connection: Connection) -> Finding:
    live = await live_agents(connection)
    if not live:
        return Finding("No worker is alive: runs wait", "Start one with `perdure worker`.")
    carried = ", ".join(sorted(set().union(*live)))
    return Finding(f"Workers alive: {len(live)}, for the agents {carried}")


async def _examine_unserved(connection: Connection) -> AsyncIterator[Finding]:
    """Agents with runs to carry on that no worker has, while there are workers."""
    live = await live_agents(connection)
    unfinished = await rows(
        connection,
        """
        select agent, count(*) as number from perdure.runs
        where status in ('queued', 'running', 'waiting', 'cancelling')
        group by agent order by agent
        """,
    )
    for found in unfinished:
        if live and not any(found["agent"] in agents for agents in live):
            number = found["number"]
            runs = "1 unfinished run" if number == 1 else f"{number} unfinished runs"
            yield Finding(
                f"{runs} of {found['agent']}: no worker has that agent",
                "Start a worker whose PERDURE_AGENTS defines it.",
            )


async def _examine_runs(connection: Connection) -> Finding:
    breaches = await audit(connection)
    if breaches:
        return Finding(
            f"{len(breaches)} invariants are broken:\n  " + "\n  ".join(breaches[:20]),
            "Workers mend what they can within seconds. What stays is a fault: please report it.",
        )
    return Finding("Every run keeps the invariants")
