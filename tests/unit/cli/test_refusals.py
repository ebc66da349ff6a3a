"""What a command says of what it, or the service, does not take."""

from datetime import UTC, datetime, timedelta

import pytest

from app.cli.remote.calling import in_commands
from app.client.models import Json
from tests.unit.cli.service import Served, run, serve
from tests.unit.client.service import RUN

AGENT: Json = {
    "name": "refund-desk",
    "version": "v",
    "model": "m",
    "instructions": "",
    "tools": [],
    "limits": {},
    "worker_count": 1,
}
WAIT: Json = {
    "id": "wait_1",
    "run": "run_1",
    "kind": "approval",
    "state": "open",
    "tool": "refund",
    "arguments": {},
    "created_at": "2026-11-30T00:00:00Z",
}


def resolved(decision: str, **more: Json) -> Json:
    moment = datetime.now(UTC) - timedelta(seconds=82)  # noqa: TID251 - as a service says it
    by = {"resolved_by": "local", "on_behalf_of": "mara", "resolved_at": moment.isoformat()}
    return WAIT | by | {"state": "resolved", "resolution": {"decision": decision}} | more


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    return serve(monkeypatch)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("runs", "show", "wait_1"), "That is a wait: perdure waits show wait_1\n"),
        (("waits", "show", "run_1"), "That is a run: perdure runs show run_1\n"),
        (("waits", "settle", "run_1", "skip"), "That is a run: perdure runs show run_1\n"),
        (("runs", "cancel", "ses_1"), "That is a session: perdure runs list --session ses_1\n"),
        (("waits", "allow", "call_1"), "That is a call: perdure runs show RUN lists"),
    ],
)
def test_an_id_of_another_kind_is_told_without_asking(
    served: Served, command: tuple[str, ...], told: str
) -> None:
    done = run(*command)
    assert (done.exit_code, done.stdout, served.asked) == (2, "", [])
    assert done.stderr.startswith(told)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("runs", "submit", "desk", ""), "must not be empty"),
        (("runs", "send", "run_1", " "), "must not be empty"),
        (("runs", "submit", "desk", "x", "--limit", "foo=1"), "foo: unknown limit"),
        (("runs", "submit", "desk", "x", "--limit", "foo=1"), "cost_usd"),
        (("runs", "submit", "desk", "x", "--limit", "turns=x"), "turns: must be a whole number"),
        (("runs", "resume", "run_1", "--limit", "turns=none"), "turns: must be a whole number"),
        (("runs", "resume", "run_1", "--limit", "cost_usd=much"), "cost_usd: must be a decimal"),
        (("runs", "list", "--status", "bogus"), "'bogus' is not one of"),
    ],
)
def test_what_a_command_does_not_take_is_told_in_plain_words(
    served: Served, command: tuple[str, ...], told: str
) -> None:
    done = run(*command)
    assert (done.exit_code, done.stdout, served.asked) == (2, "", [])
    assert told in done.stderr
    assert "JSON" not in done.stderr
    assert "Value error" not in done.stderr


def test_json_that_is_nested_too_deep_to_be_read_is_no_json(served: Served) -> None:
    done = run("waits", "result", "wait_1", "[" * 100_000)
    assert (done.exit_code, done.stdout, served.asked) == (2, "", [])
    assert "is not JSON" in done.stderr


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_is_in_no_calendar_is_refused(served: Served, text: str) -> None:
    done = run("runs", "submit", "desk", "x", "--deadline", text)
    assert (done.exit_code, done.stdout, served.asked) == (2, "", [])
    assert "must be a time" in done.stderr


def test_advice_for_http_is_told_as_a_command_where_there_is_one() -> None:
    assert in_commands("No run x; GET /v1/runs lists them.") == (
        "No run x; `perdure runs list` lists them."
    )
    other = "No rule x; GET /v1/rules lists them."
    assert in_commands(other) == other


def test_a_misspelt_agent_is_guessed(served: Served) -> None:
    detail = "There is no agent 'refund-deks'; GET /v1/agents lists those there are."
    served.refuse(422, "agent-not-found", detail)
    served.say(200, {"data": [AGENT], "next": None})
    done = run("runs", "submit", "refund-deks", "Hi")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "There is no agent 'refund-deks'; `perdure agents` lists those there are.",
        "Did you mean refund-desk?",
    ]


def test_a_wait_of_another_kind_is_told_with_the_command_for_it(served: Served) -> None:
    served.refuse(422, "invalid-request", "Correct `decision`: must be given.")
    served.say(200, WAIT)
    done = run("waits", "answer", "wait_1", "yes")
    assert (done.exit_code, done.stderr) == (
        1,
        "This is an approval; use perdure waits allow or deny.\n",
    )


def test_who_comes_too_late_is_told_who_decided_what_and_when(served: Served) -> None:
    allowed = resolved("allow")
    served.say(200, allowed)
    served.refuse(409, "already-resolved", wait=allowed)
    denied = run("waits", "deny", "wait_1")
    assert (denied.exit_code, denied.stdout) == (1, "")
    assert denied.stderr == "mara allowed it 82 s ago (local); the first one holds.\n"

    for _ in range(2):
        served.say(200, resolved("allow", on_behalf_of=None, resolved_via="rule"))
    again = run("waits", "allow", "wait_1")
    assert again.exit_code == 0
    assert again.stdout.startswith("Already allowed by local 82 s ago (by a rule).\n")


def test_who_decides_first_is_not_told_that_somebody_had(served: Served) -> None:
    served.say(200, WAIT)
    served.say(200, resolved("allow"))
    assert "Already" not in run("waits", "allow", "wait_1").stdout


@pytest.mark.parametrize(("status", "follows"), [("cancelled", False), ("cancelling", True)])
def test_only_a_run_that_goes_on_is_followed(served: Served, status: str, follows: bool) -> None:
    served.say(202, RUN | {"status": status})
    told = run("runs", "cancel", "run_1").stdout
    assert told.startswith(f"run_1 is {status}.")
    assert ("Follow it" in told) is follows
