"""The embedded Postgres in a directory of its own: made, kept, joined, stopped."""

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from app.cli.embedded import Cluster
from app.errors import ConfigurationError
from tests.integration.embedded.processes import (
    begin_start,
    kill_group,
    kill_server,
    query,
    read_url,
)


def test_data_is_kept_from_one_start_to_the_next(embedded: Cluster) -> None:
    url = embedded.start()
    query(url, "CREATE TABLE note AS SELECT 'kept' AS text")

    embedded.stop()
    with pytest.raises(psycopg.OperationalError):
        query(url, "SELECT 1")

    assert query(embedded.start(), "SELECT text FROM note") == "kept"


def test_it_is_durable_and_reached_over_a_private_socket_only(embedded: Cluster) -> None:
    url = embedded.start()

    assert query(url, "SHOW fsync") == "on"
    assert query(url, "SHOW synchronous_commit") == "on"
    assert query(url, "SHOW full_page_writes") == "on"
    assert query(url, "SHOW listen_addresses") == ""
    assert query(url, "SHOW server_encoding") == "UTF8"
    sockets = Path(str(query(url, "SHOW unix_socket_directories")))
    assert sockets.stat().st_mode & 0o077 == 0


def test_settings_of_the_caller_hold(embedded: Cluster) -> None:
    url = replace(embedded, settings={"fsync": "off", "application_name": "it's"}).start()

    assert query(url, "SHOW fsync") == "off"
    assert query(url, "SHOW application_name") == "it's"


def test_a_second_start_joins_the_running_server(embedded: Cluster) -> None:
    url = embedded.start()
    first = embedded.pid

    assert Cluster(embedded.directory).start() == url
    assert embedded.pid == first


def test_two_processes_that_start_at_once_share_one_server(embedded: Cluster) -> None:
    starters = [begin_start(embedded.directory) for _ in range(2)]
    urls = {read_url(starter) for starter in starters}

    assert urls == {embedded.url()}
    assert query(embedded.url(), "SELECT 1") == 1
    for starter in starters:
        kill_group(starter)


def test_the_server_outlives_a_killed_starter_and_is_reused(embedded: Cluster) -> None:
    starter = begin_start(embedded.directory)
    url = read_url(starter)
    query(url, "CREATE TABLE note AS SELECT 'kept' AS text")
    server = embedded.pid

    kill_group(starter)

    assert embedded.start() == url
    assert embedded.pid == server
    assert query(url, "SELECT text FROM note") == "kept"


def test_a_killed_server_starts_again_with_what_was_committed(embedded: Cluster) -> None:
    url = embedded.start()
    query(url, "CREATE TABLE note AS SELECT 'kept' AS text")
    server = embedded.pid
    assert server is not None

    # A backend that computes does not notice at once that its server is gone.
    busy = psycopg.connect(url)
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 20000000)")
    kill_server(server)
    url = embedded.start()
    busy.close()

    assert embedded.pid != server
    assert query(url, "SELECT text FROM note") == "kept"


def test_a_start_after_a_killed_initdb_makes_the_cluster_anew(embedded: Cluster) -> None:
    half_made = embedded.directory.with_name("postgres.new")
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")

    assert query(embedded.start(), "SELECT 1") == 1
    assert not half_made.exists()


def test_variables_meant_for_other_servers_do_not_mislead(
    embedded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "6000", "PGDATA": "/nowhere", "PGHOST": "elsewhere"}.items():
        monkeypatch.setenv(name, value)

    assert query(embedded.start(), "SELECT current_database()") == "perdure"


def test_a_stop_without_a_server_does_nothing(embedded: Cluster) -> None:
    embedded.stop()
    embedded.start()
    embedded.stop()
    embedded.stop()

    assert embedded.pid is None


def test_destroy_leaves_nothing_behind(embedded: Cluster) -> None:
    embedded.start()

    embedded.destroy()

    assert list(embedded.directory.parent.iterdir()) == []


def test_a_server_that_cannot_start_shows_the_end_of_its_log(embedded: Cluster) -> None:
    embedded.start()
    embedded.stop()
    with (embedded.directory / "postgresql.conf").open("a") as file:
        file.write("max_connections = many\n")

    with pytest.raises(ConfigurationError) as refused:
        embedded.start()

    assert "did not start" in str(refused.value)
    assert 'invalid value for parameter "max_connections": "many"' in str(refused.value)
    assert "server.log" in str(refused.value)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError) as refused:
        Cluster(tmp_path / "file" / "postgres").start()

    assert str(tmp_path / "file" / "postgres") in str(refused.value)
    assert "PERDURE_DATABASE_URL" in str(refused.value)
