"""`perdure workers`: which live, for how long each is up, and its last sign of life."""

from datetime import UTC, datetime, timedelta

import pytest

from app.client.models import Json
from tests.unit.cli.service import run, serve


def worker(lease: str, *, started: int, beat: int) -> Json:
    now = datetime.now(UTC)  # noqa: TID251 - as a service says it
    moments = {"started_at": started, "last_beat_at": beat}
    told = {name: (now - timedelta(minutes=age)).isoformat() for name, age in moments.items()}
    return told | {
        "id": lease,
        "host": "h",
        "pid": 1,
        "version": "v",
        "agents": [],
        "lease": lease,
    }


def test_a_lost_worker_was_up_until_its_last_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [worker("held", started=60, beat=3), worker("lost", started=60, beat=50)]
    serve(monkeypatch).say(200, {"data": found, "next": None})
    head, *rows = (line.split("\t") for line in run("workers").stdout.splitlines())
    assert head[2:4] == ["UP", "LAST BEAT"]
    assert [row[2:4] for row in rows] == [["60 min", "3 min"], ["10 min", "50 min"]]


def test_a_worker_that_was_told_to_stop_is_told_from_one_that_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it is leaving it still holds its lease."""
    told_to_stop = {"leaving": True}
    held, lost = worker("held", started=60, beat=3), worker("lost", started=60, beat=50)
    found = [held | told_to_stop, lost | told_to_stop, lost]
    serve(monkeypatch).say(200, {"data": found, "next": None})
    rows = [line.split("\t") for line in run("workers").stdout.splitlines()[1:]]
    assert [row[1] for row in rows] == ["held", "left", "lost"]
