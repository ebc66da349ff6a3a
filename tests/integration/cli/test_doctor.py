import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from app.cli import application, doctor
from app.cli.doctor import locate, run
from app.cli.embedded import Cluster
from app.llm.anthropic import AnthropicModel
from app.llm.scripted import Scripted
from app.settings import Settings, load
from tests.integration.http.rows import Rows
from tests.support.commands import COMMAND, Commands
from tests.support.processes import free_port
from tests.support.world import World


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Takes any key, and knows nothing of models."""
    world = World(Scripted())
    world.start()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", world.url)
    yield world
    world.stop()


def point_at(url: str, **more: str) -> Settings:
    return load({"PERDURE_DATABASE_URL": url, **more})


def test_a_database_without_the_schema_is_sent_to_migrate(
    empty_database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(point_at(empty_database_url)) is False
    assert "run `perdure migrate`" in capsys.readouterr().out


def test_a_migrated_database_without_a_worker_is_well_but_idle(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(point_at(database_url)) is False

    told = capsys.readouterr().out.splitlines()
    assert "✓ Agents: refund-desk (of this shell's PERDURE_AGENTS)" in told
    assert "✓ Every run keeps the invariants" in told
    assert "✓ The clock here and the database's agree" in told
    assert any(line.startswith("✓ The model's provider 127.0.0.1") for line in told)
    assert [line for line in told if line.startswith("✗")] == ["✗ No worker is alive: runs wait"]


def test_a_program_gets_all_findings_as_one_document(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(point_at(database_url), as_json=True) is False

    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["ok"] is False
    agents = "Agents: refund-desk (of this shell's PERDURE_AGENTS)"
    assert {"ok": True, "text": agents, "advice": None} in told["findings"]
    assert [finding for finding in told["findings"] if not finding["ok"]] == [
        {
            "ok": False,
            "text": "No worker is alive: runs wait",
            "advice": "Start one with `perdure worker`.",
        }
    ]


def test_a_program_gets_what_is_wrong_with_the_settings_as_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"PERDURE_DATABASE_URL": "mysql://host/db", "PERDURE_HOOST": "x"}
    done = CliRunner().invoke(application, ["doctor", "--json"], env=settings)

    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["ok"] is False
    assert "PERDURE_HOOST" in told["findings"][0]["text"]
    assert "docs/settings.md" in told["findings"][0]["advice"]


def test_the_provider_is_asked_over_a_connection_that_is_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Model(AnthropicModel):
        async def close(self) -> None:
            closed.append(self.provider)
            await super().close()

    monkeypatch.setattr(doctor, "AnthropicModel", Model)
    run(point_at(database_url))
    assert len(closed) == 1


@pytest.mark.parametrize(("colours", "number"), [({}, 1), ({"NO_COLOR": "1"}, 0)])
def test_no_color_turns_colours_off(colours: dict[str, str], number: int, tmp_path: Path) -> None:
    url = f"postgresql://u@127.0.0.1:{free_port()}/db"
    shown = show_on_a_terminal(tmp_path, PERDURE_DATABASE_URL=url, **colours)
    assert "The database cannot be reached" in shown
    assert len(re.findall(r"\x1b\[31m✗ The database", shown)) == number
    assert (re.search(r"\x1b\[[0-9;]*3[0-7]", shown) is not None) == bool(number)


def show_on_a_terminal(place: Path, **env: str) -> str:
    ours, theirs = os.openpty()
    environment = {**Commands("").environment(), "TERM": "xterm", **env}
    subprocess.run(
        [*COMMAND, "doctor"], env=environment, stdin=theirs, stdout=theirs, stderr=theirs, cwd=place
    )
    os.close(theirs)
    shown = b""
    with open(ours, "rb", buffering=0) as terminal, suppress(OSError):
        while part := terminal.read(65536):
            shown += part
    return shown.decode()


def test_a_database_that_is_away_is_told_without_its_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(point_at("postgresql://u:hunter2@127.0.0.1:1/db")) is False

    told = capsys.readouterr().out
    assert "The database cannot be reached" in told
    assert "hunter2" not in told


def test_an_unsafe_database_is_refused(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off'.encode())

    assert run(point_at(database_url)) is False
    assert "synchronous_commit is off" in capsys.readouterr().out


def test_agents_that_cannot_be_loaded_are_named(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(point_at(database_url, PERDURE_AGENTS="no_such_module")) is False
    assert "✗ Agents cannot be loaded: " in capsys.readouterr().out


def test_the_database_of_a_dev_in_this_directory_is_found(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = Cluster(Path(".perdure") / "postgres")
    try:
        assert locate({}) == {}
        url = cluster.start()

        assert locate({}) == {"PERDURE_DATABASE_URL": url}
        assert locate({"PERDURE_DATABASE_URL": database_url}) == {}
        cluster.stop()
        assert locate({}) == {}
    finally:
        cluster.destroy()


@pytest.mark.parametrize("is_dev", [False, True])
def test_a_model_without_credentials_is_told(
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_dev: bool,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    run(point_at(database_url), is_dev=is_dev)

    told = capsys.readouterr().out
    assert ("✓ The model is scripted" in told) == is_dev
    assert ("ANTHROPIC_API_KEY is not set.\n  Correct" in told) == (not is_dev)


def test_a_provider_that_is_away_is_told(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{free_port()}")
    run(point_at(database_url))
    assert "It cannot be reached" in capsys.readouterr().out


async def test_runs_whose_agent_no_worker_has_are_told(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with await Rows.connect(database_url) as rows:
        for _ in range(2):
            await rows.run(agent="lost", status="queued")
        await rows.worker("w1", "refund-desk")
        assert await asyncio.to_thread(run, point_at(database_url)) is False

    told = capsys.readouterr().out
    assert "✓ Workers alive: 1, for the agents refund-desk" in told
    assert "✗ 2 unfinished runs of lost: no worker has that agent" in told
