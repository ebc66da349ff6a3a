"""What `perdure verify` says of who was asked, and of what is broken."""

import io
import json

from rich.console import Console

from app.cli.verify.judge import Breach
from app.cli.verify.recorder import Request
from app.cli.verify.report import Report, Row, show_broken, warn
from app.cli.verify.seen import Seen
from app.cli.verify.statements import Place
from app.cli.verify.testimony import Caller
from app.cli.verify.trial import in_earnest

CALLER = Caller("body", "refund", Place("", 1, 0), 1, 7)


def request(url: str, caller: Caller | None = CALLER) -> Request:
    return Request("POST", url, "/refunds", {}, b"", caller)


def test_hosts_that_the_script_names_nowhere_are_asked_in_earnest() -> None:
    asked = [
        request("http://127.0.0.1:9/refunds"),
        request("https://api.example.com/refunds"),
        request("http://other.example:80/", caller=None),
    ]

    found = in_earnest(asked, ["http://127.0.0.1:9", "http://127.0.0.1:10/base"])

    assert found == {("refund", "api.example.com"), ("somebody", "other.example:80")}


def test_who_is_asked_in_earnest_is_warned_of_and_reported() -> None:
    out = io.StringIO()
    report = Report("desk", [])
    seen = Seen(None, in_earnest={("refund", "api.example.com")})
    report.add(0, Row(None, "OK", (), None, {}), seen)

    warn(report.in_earnest, Console(file=out, width=200))

    assert "WARNING  refund asks api.example.com in earnest" in out.getvalue()
    assert json.loads(report.to_json())["in_earnest"] == [
        {"tool": "refund", "host": "api.example.com"}
    ]


def test_what_is_broken_is_told_with_whom_it_is_blamed_on() -> None:
    out = io.StringIO()
    breach = Breach("rows exactly once", "refund", "tools.py:7", "2 rows")

    show_broken(Row(None, "BROKEN", (breach,), None, {}), Console(file=out, width=200))

    assert "blamed: refund tools.py:7" in out.getvalue()
