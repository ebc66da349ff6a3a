from pathlib import Path

import psycopg
import pytest

from app.cli.doctor import locate, run
from app.cli.embedded import Cluster
from app.settings import Settings, load


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
    assert "✓ Agents: refund-desk" in told
    assert "✓ Every run keeps the invariants" in told
    assert [line for line in told if line.startswith("✗")] == ["✗ No worker is alive: runs wait"]


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
