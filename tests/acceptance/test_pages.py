"""The manual's commands, page by page, against a service that `perdure dev` has started."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.support.audit import breaches
from tests.support.database import Cluster
from tests.support.environment import ROOT, WEBHOOK_SECRET, inherited
from tests.support.pages import Block, Reader, all_blocks, blocks_of
from tests.support.polling import eventually, in_time
from tests.support.processes import free_port

RUN = {"sh", "sql"}
# What a page takes for granted in the reader's own database.
FOREIGN = """
    create table public.orders (id integer primary key, state text not null);
    do $$ begin create role shop; exception when duplicate_object then null; end $$;
"""
START_SECONDS = 60


def is_run(block: Block) -> bool:
    if block.said("not run") is not None:
        return False
    return block.language in RUN or block.is_live


PAGES = sorted({block.page for block in all_blocks() if is_run(block)})


def files() -> dict[str, str]:
    """What a reader saves: from the pages, and the README's one agent."""
    (readme,) = (b.code for b in blocks_of(ROOT / "README.md") if b.language == "python")
    saved = {block.said("file"): block.code for block in all_blocks()}
    return {"agents.py": readme} | {name: code for name, code in saved.items() if name}


def replaced(ports: dict[str, int]) -> dict[str, str]:
    return {":8000": f":{ports['api']}", ":8081": f":{ports['provider']}"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Path:
    """Where the reader is: the files of all pages, and `perdure` as it is called there."""
    place = tmp_path_factory.mktemp("reader")
    command = place / "bin" / "perdure"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.cli "$@"\n')
    command.chmod(0o755)
    for name, code in files().items():
        for written, meant in replaced(ports).items():
            code = code.replace(written, meant)
        (place / name).write_text(code)
    return place


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {"api": free_port(), "provider": free_port()}


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    found = cluster.clone()
    with psycopg.connect(found) as connection:
        connection.execute(FOREIGN)
    yield found
    cluster.drop(found)


@pytest.fixture(scope="module")
def env(directory: Path, ports: dict[str, int], url: str) -> dict[str, str]:
    return inherited() | {
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PERDURE_DATABASE_URL": url,
        "PERDURE_PORT": str(ports["api"]),
        "PERDURE_URL": f"http://127.0.0.1:{ports['api']}",
        "PERDURE_AGENTS": ",".join(["app.agents", *files()]),
        "PERDURE_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "PAYMENTS_URL": f"http://127.0.0.1:{ports['provider']}",
    }


@pytest.fixture(scope="module", autouse=True)
def service(directory: Path, env: dict[str, str], ports: dict[str, int]) -> Iterator[None]:
    with started(directory, env, f":{ports['api']}/health/ready", "dev"):
        yield


@pytest.fixture(scope="module", autouse=True)
def provider(directory: Path, env: dict[str, str], ports: dict[str, int]) -> Iterator[None]:
    """One ledger for all pages: none may spoil what another says."""
    port = ports["provider"]
    with started(directory, env, f":{port}/ledger", "simulate", "provider", str(port)):
        yield


@contextmanager
def started(directory: Path, env: dict[str, str], ready: str, *command: str) -> Iterator[None]:
    """Until the block ends, once its URL is answered."""
    log = directory / f"{command[0]}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *command],
            cwd=directory,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    async def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                return (await http.get(f"http://127.0.0.1{ready}")).is_success
        except httpx.TransportError:
            return False

    try:
        asyncio.run(eventually(answers, f"{command[0]} is ready", in_time(START_SECONDS)))
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(in_time(START_SECONDS))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_is_so(
    page: str, directory: Path, env: dict[str, str], ports: dict[str, int], url: str
) -> None:
    reader = Reader(directory, env, replaced(ports))
    for block in blocks_of(ROOT / "docs" / page):
        if block.note == "answer":
            reader.compare(block)
        elif not is_run(block):
            continue
        elif block.language == "sh":
            reader.type(block)
            expect_no_problem(block, reader)
        elif block.is_live:
            reader.run_python(block)
        else:
            query(url, block)
    assert asyncio.run(breaches(url)) == []


def expect_no_problem(block: Block, reader: Reader) -> None:
    """A page that shows a refusal says so."""
    refused = [answer for answer in reader.answers if "/problems/" in str(answer.get("type"))]
    assert block.note == "refused" or not refused, f"{block}: {refused}"
    assert block.note != "refused" or refused, f"{block}: nothing was refused"


def query(url: str, block: Block) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(block.code.encode())
