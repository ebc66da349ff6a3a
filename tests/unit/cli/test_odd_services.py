"""Whatever is at PERDURE_URL, a command ends with a code that docs/cli.md lists, and says why."""

import json

import httpx
import pytest

from tests.unit.cli.service import Served, run, serve

SEND = ("runs", "send", "run_1", "Hi")
CHANGES = [
    (SEND, "runs watch run_1"),
    (("runs", "resume", "run_1"), "runs show run_1"),
    (("waits", "answer", "wait_1", "Yes"), "waits show wait_1"),
    (("waits", "settle", "call_1", "skip"), "waits unknown"),
    (("runs", "submit", "desk", "Hi"), "runs list"),
    (("runs", "fork", "run_1", "--turn", "1"), "runs list"),
]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Response]:
    """What is answered, once each."""
    return serve(monkeypatch).answers


@pytest.mark.parametrize("body", [[], None, "x", {"data": []}, {"data": [5], "next": None}])
@pytest.mark.parametrize("command", [("runs", "list"), ("agents",), ("runs", "show", "run_1")])
def test_an_address_of_something_else_is_told_as_that(
    served: list[httpx.Response], command: tuple[str, ...], body: object
) -> None:
    served.append(httpx.Response(200, json=body))
    done = run(*command)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "address of a Perdure service" in done.stderr


@pytest.mark.parametrize(("command", "look"), CHANGES)
def test_what_may_have_been_done_has_a_code_of_its_own_and_says_where_to_look(
    served: list[httpx.Response], command: tuple[str, ...], look: str
) -> None:
    served += [httpx.Response(504, headers={"retry-after": "60"}), httpx.Response(202, json=[])]
    for _ in range(2):
        done = run(*command)
        assert (done.exit_code, done.stdout) == (7, "")
        assert "may have been done" in done.stderr
        assert f"Look with `perdure {look}`" in done.stderr

    served.append(httpx.Response(504, headers={"retry-after": "60"}))
    done = run(*command, "--json")
    told = json.loads(done.stderr)
    assert (done.exit_code, told["title"], look in told["hint"]) == (7, "Uncertain", True)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        *(
            (command, f"It may have been done.\nLook with `perdure {look}` before you repeat it.")
            for command, look in CHANGES
        ),
        (("runs", "show", "run_1"), ""),
    ],
)
def test_who_interrupts_a_change_is_told_that_it_may_have_been_made(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], told: str
) -> None:
    def interrupt(served: Served, request: httpx.Request) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Served, "answer", interrupt)
    serve(monkeypatch)
    done = run(*command)

    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.strip() == f"Stopped. {told}".strip()
