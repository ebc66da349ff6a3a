"""The console's pages as they leave the service: what they show, and that they do no harm."""

import json
import re
from typing import Any

import httpx
import pytest

from tests.integration.http.hostile import HOSTILE, Elements, harm
from tests.integration.http.questions import ARGUMENTS, BEGUN, DONE, ask, working
from tests.integration.http.rows import Rows

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = ("/", "/inbox", "/workers", "/agents", "/rules")


async def look(http: httpx.AsyncClient, path: str, status: int = 200) -> str:
    response = await http.get(path, headers=BROWSER)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response.text


def number(page: str, label: str) -> str:
    found = re.search(rf'class="number">([^<]*)</span> <span class="label">{label}<', page)
    assert found, label
    return found[1]


async def hostile_run(rows: Rows) -> str:
    """Every text that comes from outside is hostile, in all places that a page shows."""
    output = {"text": HOSTILE, "content": [], "data": {HOSTILE: HOSTILE}}
    fields = {"metadata": {HOSTILE: HOSTILE}, "error": {"type": HOSTILE, "detail": HOSTILE}}
    said = {"input": HOSTILE, "target": HOSTILE, "output": output}
    run = await working(rows, status="waiting", turns=1, **said, **fields)
    await hostile_turn(rows, run)
    await rows.message(run, HOSTILE)
    await rows.execute(
        "insert into perdure.events (run, seq, type, data) values (%s, 1, 'run.taken_over', %s)",
        run,
        json.dumps({"from_worker": HOSTILE, "worker": HOSTILE, "why": HOSTILE}),
    )
    await rows.execute("update perdure.runs set seq = 1 where id = %s", run)
    return run


async def hostile_turn(rows: Rows, run: str) -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": HOSTILE},
        {"type": "text", "text": HOSTILE},
        {"type": "tool_use", "id": "t", "name": HOSTILE, "input": {HOSTILE: HOSTILE}},
        {"type": HOSTILE, HOSTILE: HOSTILE},
        HOSTILE,
    ]
    history = [BEGUN["history"][0] | {"worker": HOSTILE, "outcome": HOSTILE}]
    await rows.turn(
        run, model=HOSTILE, stop_reason=HOSTILE, content=content, finished_at="2026-01-01"
    )
    call = await rows.call(
        run,
        tool=HOSTILE,
        state="outcome_unknown",
        proposed={HOSTILE: HOSTILE},
        arguments={HOSTILE: [HOSTILE, {HOSTILE: 1}]},
        replay="at_most_once",
        result={HOSTILE: HOSTILE},
        started_at="2026-01-01",
        history=history,
        attempts=1,
    )
    shown = {"arguments": {HOSTILE: HOSTILE, "n": 3}, "evidence": {HOSTILE: HOSTILE}}
    await rows.wait(run, question=HOSTILE, kind="input")
    await rows.wait(run, question=HOSTILE, call=call, arguments_hash=HOSTILE, **shown)
    said = {"decision": "deny", "reason": HOSTILE}
    done = {"state": "resolved", "resolved_at": "2026-01-01", "resolved_via": HOSTILE}
    await rows.wait(
        run, call=call, resolution=said, resolved_by=HOSTILE, on_behalf_of=HOSTILE, **done, **shown
    )


async def test_hostile_text_is_only_text(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await hostile_run(rows)
    await rows.worker(HOSTILE, HOSTILE, host=HOSTILE, version=HOSTILE)
    waits = [row[0] for row in await rows.execute("select id from perdure.waits")]

    paths = ["/", f"/runs/{run}", *(f"/waits/{wait}" for wait in waits), *PAGES[1:]]
    for path in paths:
        page = await look(http, path)
        assert harm(page) == [], path
        assert "alert(1)" in page or path in ("/agents", "/rules"), path
        assert "\u202e" not in Elements(page).text


async def test_hostile_text_in_an_address_is_only_text(http: httpx.AsyncClient) -> None:
    for name in ("agent", "session", "target", "status", "after", HOSTILE):
        response = await http.get("/", params={name: HOSTILE}, headers=BROWSER)
        assert response.status_code in (200, 422)
        assert harm(response.text) == []


async def test_a_page_lets_nothing_in_from_elsewhere(http: httpx.AsyncClient) -> None:
    for path in (*PAGES, "/sign-in", "/nowhere", "/static/console.js", "/static/console.css"):
        headers = (await http.get(path, headers=BROWSER)).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


async def test_every_file_that_a_page_names_is_there(http: httpx.AsyncClient) -> None:
    elements = Elements(await look(http, "/"))
    named = [each["href"] for each in elements.of("link")] + [
        each["src"] for each in elements.of("script") + elements.of("img")
    ]
    assert len(named) >= 3
    for path in named:
        response = await http.get(str(path))
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
    assert (await http.get("/static/..%2fpages.py")).status_code == 404


async def test_numbers_at_the_top_are_those_of_the_runs(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.run(status="running", cost_usd="1.25")
    await rows.run(status="cancelling", cost_usd="0.50")
    await rows.run(status="queued")
    await rows.run(status="dead_letter", finished_at="2026-01-01")
    await rows.run(cost_usd="7", created_at="2020-01-01")
    await ask(rows)
    unknown = await rows.run(status="failed", finished_at="2026-01-01")
    lost = {"state": "outcome_unknown", "replay": "at_most_once", **DONE}
    await rows.call(unknown, **lost)
    await rows.call(unknown, index=1, skipped=True, **lost)

    page = await look(http, "/")

    assert number(page, "running") == "2"
    assert "2 queued" in page
    assert number(page, "waiting for a person") == "1"
    assert number(page, "unknown outcomes") == "1"
    assert number(page, "dead letters") == "1"
    assert number(page, "today&#39;s runs cost") == "$1.75"


async def test_runs_are_filtered_and_paged(http: httpx.AsyncClient, rows: Rows) -> None:
    for n in range(60):
        await rows.run(f"run_{n:03}", input=f"task {n}", agent="desk" if n else "other")

    first = await look(http, "/")
    following = next(a["href"] for a in Elements(first).of("a") if a.get("rel") == "next")
    second = await look(http, str(following))
    other = await look(http, "/?agent=other&status=&session=&target=")

    shown = [len(re.findall(r'<tr id="run_', page)) for page in (first, second, other)]
    assert shown == [50, 10, 1]
    assert "task 0<" in other
    none = await look(http, "/?status=dead_letter&agent=desk")
    assert "No run fits" in none
    assert "<summary>Filtered by dead letter, desk<" in none


async def test_a_run_is_shown_as_it_was_lived(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows, tool="refund", evidence={"left": 5})
    content = [{"type": "text", "text": "Let me refund."}, {"type": "tool_use", "name": "refund"}]
    lost = BEGUN["history"][0] | {"outcome": "interrupted"}
    history = [lost, lost | {"attempt": 2, "worker": "w2", "outcome": "answered"}]
    await rows.turn(
        asked.run, content=content, attempts=2, history=history, finished_at="2020-01-02"
    )
    await rows.message(asked.run, "and hurry")
    await rows.events(asked.run, "run.queued", "run.taken_over")

    page = await look(http, f"/runs/{asked.run}")

    order = ["hello", "Let me refund.", f'id="{asked.call}"', "and hurry"]
    places = [page.index(text, page.index('id="conversation"')) for text in order]
    assert places == sorted(places)
    assert 'class="bar lost"' in page
    assert "attempt 2 on w2: answered" in page
    assert "taken over" in page
    assert f'data-send="/v1/waits/{asked.wait}/resolve"' in page
    assert 'value="allow"' in page
    assert "Evidence" in page
    assert 'data-seq="2"' in page


async def test_the_inbox_holds_what_a_person_can_settle(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    approval = await ask(rows, evidence={"left": 5})
    outcome = await ask(rows, "pay", kind="outcome")
    external = await ask(rows, "look_up", kind="external")
    question = await ask(rows, "ask_user", kind="input", question="March or April?")
    timer = await ask(rows, kind="timer")
    told = await rows.run(status="succeeded", finished_at="2026-01-01")
    lost = {"state": "outcome_unknown", "replay": "at_most_once", **DONE}
    call = await rows.call(told, told_unknown=True, **lost)

    page = await look(http, "/inbox")

    asks = [each["id"] for each in Elements(page).of("article")]
    expected = [approval.wait, outcome.wait, external.wait, question.wait, f"unknown-{call}"]
    assert asks == expected
    assert '<span class="count">5<' in page
    assert "<title>Inbox (5) " in page
    assert timer.wait not in page
    assert "March or April?" in page
    assert f'data-send="/v1/calls/{call}/settle"' in page
    for argument, value in ARGUMENTS.items():
        assert f"{argument}</dt><dd><code>" in page
        assert json.dumps(value).replace('"', "&#34;") in page


async def test_a_wait_that_is_settled_says_by_whom(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(
        rows,
        state="resolved",
        resolution={"decision": "deny", "reason": "too much"},
        resolved_by="default",
        on_behalf_of="ann",
        resolved_via="http",
        resolved_at="2026-01-01",
    )

    page = await look(http, f"/waits/{asked.wait}")

    assert "<strong>Denied</strong> by default on behalf of ann" in page
    assert "too much" in page
    assert "data-send" not in page


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404),
        ("/runs/run_none", 404),
        ("/waits/wait_none", 404),
        ("/runs/a%20b", 404),
        ("/?status=odd", 422),
        ("/?after=odd", 422),
        ("/?unknown=x", 422),
        ("/runs/run_none?from=0", 422),
    ],
)
async def test_a_problem_is_a_page_in_a_browser_with_the_same_status(
    http: httpx.AsyncClient, path: str, status: int
) -> None:
    page = await look(http, path, status)
    assert f'class="status">{status}<' in page
    plain = await http.get(path)
    assert plain.status_code == status
    assert plain.headers["content-type"] == "application/problem+json"


async def test_a_bad_place_in_either_list_of_the_inbox_is_named(http: httpx.AsyncClient) -> None:
    for name in ("after", "unknown"):
        problem = (await http.get("/inbox", params={name: "x"})).json()
        assert problem["detail"].startswith(f"`{name}` is no cursor")
        assert [error["field"] for error in problem["errors"]] == [name]


async def test_a_program_gets_documents_also_from_a_browser(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/runs/run_none", headers=BROWSER)
    assert response.headers["content-type"] == "application/problem+json"


async def test_a_page_changes_nothing(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows)
    before = await rows.execute("select * from perdure.waits")
    for path in (*PAGES, f"/runs/{asked.run}", f"/waits/{asked.wait}"):
        for query in ("", "?decision=allow"):
            await http.get(path + query, headers=BROWSER)
        assert (await http.post(path, json={"decision": "allow"})).status_code == 405
    assert await rows.execute("select * from perdure.waits") == before


async def test_half_characters_and_nul_do_not_break_a_page(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, turns=1, status="running")
    odd = "half \ud83d and nul \x00 end"
    content = [{"type": "text", "text": odd}, {"type": "odd", "value": odd}]
    await rows.turn(run, content=content, finished_at="2026-01-01")

    page = await look(http, f"/runs/{run}")

    assert "half \ufffd and nul \ufffd end" in page
    assert "half \\ud83d and nul \\u0000 end" in page
