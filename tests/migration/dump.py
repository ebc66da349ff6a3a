"""Makes the fixture of a release: its own service, killed with -9 in all that it had in hand.

    python -m tests.migration.dump > tests/migration/fixtures/NNNN.sql

Run in a checkout of the release, so that the next one can be tried on what it left behind.
"""

import asyncio
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from app.cli import account
from app.llm.scripted import Scripted
from app.store.migrate import head
from tests.support.client import Client
from tests.support.database import open_cluster
from tests.support.deployment import Deployment
from tests.support.polling import eventually
from tests.support.scripts import Step, say, use
from tests.support.world import World

HEADER = """\
-- A database at revision {revision}: made by that release's own API and worker, which was killed
-- with -9 in all that it had in hand, dumped with pg_dump --schema=perdure --schema=dbos --inserts.
-- The bodies of our functions are left out, as every upgrade replaces them; the host has another
-- name. Inputs begin with the run's name:
--
--   <ended>           has succeeded after one payment
--   <parked>          has counted, and waits for a person to allow its refund
--   <model>           has counted, and is in its second model call
--   <read_only>, <idempotent>, <at_most_once>, <reconciled>, <transactional>
--                     have counted, and are in a call of such a tool; the payments have been made
"""
PAYING = {"idempotent": "pay_idem", "at_most_once": "pay_once", "reconciled": "pay_once_r"}
BOOT = "00000000-0000-4000-8000-000000000000"


async def leave_behind(deployment: Deployment) -> None:
    """Everything is in its place, and the worker dies."""
    world = deployment.world
    with psycopg.connect(deployment.database_url) as held:
        async with Client(deployment.url) as client:
            done = await _submit(client, "ended", use("pay_idem", ref="ended"), say("ended"))
            await client.succeeded(done)
            parked = await _counted(client, "parked", use("refund", ref="parked"))
            await client.open_wait(parked)
            gates = [world.gate("pay:after", span=len(PAYING)), world.gate("doc:after")]
            await _counted(client, "read_only", use("doc_read", name="d"))
            for name, tool in PAYING.items():
                await _counted(client, name, use(tool, ref=name))
            for gate, holding in zip(gates, (len(PAYING), 1), strict=True):
                await gate.reached(holding=holding)
            model = world.gate("llm:1")
            await _submit(client, "model", use("count", name="model"), say("answered"))
            await model.reached()
            held.execute("lock table notes")
            await _counted(client, "transactional", use("note_tx", text="noted"))
            await eventually(
                lambda: _is_waited_for(deployment.database_url), "its lock is waited for"
            )
        deployment.kill_all()


async def _is_waited_for(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select from pg_locks where relation = 'notes'::regclass and not granted"
        ).fetchone()
    return found is not None


async def _counted(client: Client, name: str, then: Step) -> str:
    return await _submit(client, name, use("count", name=name), then, say("done"))


async def _submit(client: Client, name: str, *steps: Step) -> str:
    run = await client.submit(*steps, preface=f"<{name}>")
    return str(run["id"])


def dump(url: str) -> str:
    schemas = ("--schema=perdure", "--schema=dbos")
    options = ("--inserts", "--no-owner", "--no-privileges", "--no-comments")
    program = account.programs(None) / "pg_dump"
    made = subprocess.run(
        [program, *schemas, *options, url], capture_output=True, text=True, check=True
    )
    return made.stdout


def compact(text: str) -> str:
    """Without bodies of our functions, settings, comments, and anything of this machine."""
    ours = r"(CREATE FUNCTION perdure\.(?:(?!;\n\n).)*?AS )(\$[_a-z]*\$).*?\2;"
    text = re.sub(ours, r"\1$$ -- $$;", text, flags=re.DOTALL)
    text = text.replace(socket.gethostname(), "box")
    text = text.replace(Path("/proc/sys/kernel/random/boot_id").read_text().strip(), BOOT)
    left_out = ("--", "SET ", "\\", "SELECT pg_catalog.set_config")
    others = re.compile(r"INSERT INTO perdure\.agent\w* VALUES \('(?!desk')")
    lines = [
        line
        for line in text.splitlines()
        if line and not line.startswith(left_out) and not others.match(line)
    ]
    return "\n".join(lines) + "\n"


async def main() -> None:
    with open_cluster() as cluster, tempfile.TemporaryDirectory() as logs:
        url = cluster.clone()
        world = World(Scripted())
        world.start()
        deployment = Deployment(url, world, Path(logs))
        try:
            await deployment.start()
            await leave_behind(deployment)
        finally:
            deployment.kill_all()
            world.stop()
        sys.stdout.write(HEADER.format(revision=head()) + compact(dump(url)))


if __name__ == "__main__":
    asyncio.run(main())
