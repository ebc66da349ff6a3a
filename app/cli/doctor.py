"""`perdure doctor`: whether a deployment can be trusted, one line for each thing looked at."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import psycopg
import typer

from app.cli.dev import HOME, URL
from app.errors import ConfigurationError
from app.settings import Settings
from app.store.audit import audit
from app.store.checks import check_database
from app.store.db import Connection, row
from app.tools.registry import load

CONNECT_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `advice` says what to do about one that is not well."""

    text: str
    advice: str = ""


def locate(environ: Mapping[str, str]) -> dict[str, str]:
    """The URL of the database of a `perdure dev` in this directory, unless another is named."""
    if environ.get(URL) or not (HOME / "postgres").exists():
        return {}
    from app.cli.embedded import Cluster

    cluster = Cluster(HOME / "postgres")
    return {URL: cluster.url()} if cluster.pid else {}


def run(settings: Settings) -> bool:
    """Print the findings; true if all is well."""
    return asyncio.run(_report(settings))


async def _report(settings: Settings) -> bool:
    well = True
    async for finding in _examine(settings):
        if finding.advice:
            well = False
            typer.secho(f"✗ {finding.text}\n  {finding.advice}", fg="red")
        else:
            typer.echo(f"✓ {finding.text}")
    return well


async def _examine(settings: Settings) -> AsyncIterator[Finding]:
    yield _examine_agents(settings)
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
            yield await _examine_workers(connection)
            yield await _examine_runs(connection)


def _examine_agents(settings: Settings) -> Finding:
    try:
        registry = load(",".join(settings.agents))
    except ConfigurationError as error:
        return Finding(f"Agents cannot be loaded: {error}", "Correct the module it names.")
    return Finding(f"Agents: {', '.join(sorted(registry.agents))}")


async def _examine_database(connection: Connection, settings: Settings) -> Finding:
    problems = await check_database(connection, allow_unsafe=settings.allow_unsafe_database)
    version = connection.info.server_version // 10_000
    if problems:
        return Finding(f"PostgreSQL {version} cannot be used as it is.", "\n  ".join(problems))
    return Finding(f"PostgreSQL {version} keeps what it commits, and has this version's schema")


async def _examine_workers(connection: Connection) -> Finding:
    live = await row(
        connection,
        "select count(*) as number from perdure.workers where dead_at is null and not isolated",
    )
    number = live["number"] if live else 0
    if not number:
        return Finding("No worker is alive: runs wait", "Start one with `perdure worker`.")
    return Finding(f"Workers alive: {number}")


async def _examine_runs(connection: Connection) -> Finding:
    breaches = await audit(connection)
    if breaches:
        return Finding(
            f"{len(breaches)} invariants are broken:\n  " + "\n  ".join(breaches[:20]),
            "Workers mend what they can within seconds. What stays is a fault: please report it.",
        )
    return Finding("Every run keeps the invariants")
