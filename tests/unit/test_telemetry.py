import io
import json
import logging
from collections.abc import Iterator

import pytest

from app import telemetry


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    raises = logging.raiseExceptions
    yield
    root.handlers[:], root.level = before[0], before[1]
    logging.raiseExceptions = raises


def test_each_record_is_one_json_line_that_names_its_run() -> None:
    stream = io.StringIO()
    telemetry.configure("INFO", stream)

    with telemetry.place(run="run_1"), telemetry.place(leg=2):
        logging.getLogger("app.leg").info("taken\nby %s", "me")
    logging.getLogger("app.leg").info("idle")

    taken, idle = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert taken["message"] == "taken\nby me"
    assert (taken["level"], taken["logger"]) == ("INFO", "app.leg")
    assert (taken["run"], taken["leg"]) == ("run_1", 2)
    assert "run" not in idle


def test_what_cannot_be_logged_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool may close the streams of its process."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    telemetry.configure("INFO", stream)
    stream.close()

    logging.getLogger("app.leg").info("taken")


def test_a_traceback_stays_in_its_records_line() -> None:
    stream = io.StringIO()
    telemetry.configure("INFO", stream)

    try:
        raise RuntimeError("boom \ud800")
    except RuntimeError:
        logging.getLogger("app").exception("failed")

    (line,) = stream.getvalue().splitlines()
    assert "RuntimeError: boom" in json.loads(line)["traceback"]


def test_a_terminal_gets_plain_text() -> None:
    stream = Terminal()
    telemetry.configure("INFO", stream)

    with telemetry.place(run="run_1"):
        logging.getLogger("app").warning("slow")

    assert stream.getvalue().endswith("WARNING app: slow run=run_1\n")


def test_the_level_is_a_floor_and_chatty_libraries_stay_quiet() -> None:
    stream = io.StringIO()
    telemetry.configure("DEBUG", stream)

    logging.getLogger("app").debug("seen")
    logging.getLogger("httpx").debug("headers with a key")
    logging.getLogger("dbos").info("an invitation")
    logging.getLogger("dbos").warning("a reason")

    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [
        "seen",
        "a reason",
    ]
