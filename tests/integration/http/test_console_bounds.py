"""Pages of what is long: what they leave out, and that nobody waits for them."""

import asyncio
import re
import threading
from typing import Any

import httpx
import pytest

from app.http import routing
from app.http.console import pages, rendering
from app.services import views_story
from app.services.context import Services
from app.services.views_story import CALLS, MESSAGES, MOST_SHOWN
from app.store import views_console
from app.store.db import Connection, Row
from tests.integration.http.hostile import Elements
from tests.integration.http.questions import BEGUN, DONE, ask, working
from tests.integration.http.rows import Rows
from tests.integration.http.test_console import look
from tests.support.polling import in_time

LONG = {"rows": ["x" * 100] * 500, "end": "the-end"}


async def test_a_long_value_is_cut_and_leads_to_the_whole(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, turns=1)
    content = [{"type": "tool_use", "name": "pay"}] * 2
    await rows.turn(run, content=content, finished_at="2026-01-01")
    done = DONE | {"state": "succeeded", "replay": "read_only", "arguments": LONG}
    paths = [
        f"/calls/{await rows.call(run, index=0, result=LONG, **done)}",
        f"/calls/{await rows.call(run, index=1, result='y' * 60_000 + 'the-end', **done)}",
    ]

    page = await look(http, f"/runs/{run}")

    assert "the-end" not in page
    assert len(page) < 12 * MOST_SHOWN
    for path in paths:
        assert page.count(f'href="{path}"') == 2
        assert "the-end" in (await http.get(path)).text


async def test_a_long_block_of_a_long_run_leads_to_its_turn(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, turns=3)
    for number in (1, 2, 3):
        content = [{"type": "odd", "number": number, **LONG}]
        await rows.turn(run, number, content=content, finished_at="2026-01-01")

    links = re.findall(r'href="([^"]*/turns[^"]*)"', await look(http, f"/runs/{run}"))

    answers = [(await http.get(link.replace("&amp;", "&"))).json()["data"] for link in links]
    assert [[turn["number"] for turn in turns] for turns in answers] == [[1], [2], [3]]
    assert [turns[0]["content"][0]["end"] for turns in answers] == ["the-end"] * 3


async def test_of_a_long_value_no_more_is_read_than_a_page_shows(
    http: httpx.AsyncClient, services: Services, rows: Rows
) -> None:
    run = await working(rows, turns=1)
    await rows.turn(run)
    done = DONE | {"state": "succeeded", "replay": "read_only"}
    call = await rows.call(run, **done | {"arguments": LONG}, result=LONG)
    shown = {"arguments": LONG, "evidence": LONG, "resolution": {"result": LONG}}
    over = {"state": "resolved", "resolved_at": "2026-01-01", "resolved_by": "ann"}
    await rows.wait(run, call=call, kind="external", **shown, **over)
    await rows.call(run, index=1, proposed=LONG, result="\u044f" * (6 * MOST_SHOWN))

    story = await views_story.get_story(services, run, None)

    assert len(repr(story.calls)) < 5 * MOST_SHOWN
    assert len(repr(story.waits)) < MOST_SHOWN
    assert "<strong>Answered</strong> by ann" in await look(http, f"/runs/{run}")


async def test_letters_of_any_alphabet_are_as_long_as_they_look(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, turns=1)
    await rows.turn(run, content=[{"type": "tool_use", "name": "pay"}], finished_at="2026-01-01")
    text = "\u044f" * (MOST_SHOWN - 100)
    await rows.call(run, result=text, state="succeeded", replay="read_only", **DONE)

    assert text in await look(http, f"/runs/{run}")


async def test_what_a_person_decides_on_is_shown_whole(http: httpx.AsyncClient, rows: Rows) -> None:
    asked = await ask(rows, arguments=LONG)
    assert "the-end" in await look(http, f"/waits/{asked.wait}")


async def test_a_rule_can_bound_an_argument_whatever_its_name(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    names = ["\u202eredro", "\x01order", "⟨U+202E⟩redro", "a>b"]
    asked = await ask(rows, arguments=dict.fromkeys(names, 1))

    page = Elements(await look(http, f"/waits/{asked.wait}"))

    bound = [each["data-condition"] for each in page.of("div") if "data-condition" in each]
    assert bound == names
    assert not {"\u202e", "\x01"} & set(page.text)


async def test_a_question_is_not_hidden_by_timers_before_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    asked = await ask(rows)
    await rows.execute(
        """insert into perdure.waits (id, run, kind, question, created_at)
           select 'wait_t' || n, %s, 'timer', 'later', '2020-01-01'
           from generate_series(1, 600) n""",
        asked.run,
    )
    page = await look(http, f"/runs/{asked.run}")
    assert f'data-send="/v1/waits/{asked.wait}/resolve"' in page


async def test_of_many_messages_and_calls_the_last_are_shown(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, turns=1, status="running")
    await rows.turn(run)
    await rows.execute(
        """insert into perdure.messages (id, run, text)
           select 'msg_' || n, %s, 'said ' || n || '.' from generate_series(1, %s) n order by n""",
        run,
        MESSAGES + 1,
    )
    first = await rows.call(run, index=0)
    await rows.execute(
        """insert into perdure.calls
               (id, run, turn, index, root, session, provider_id, tool, proposed)
           select 'call_' || n, run, turn, n, root, session, provider_id, tool, proposed
           from perdure.calls, generate_series(1, %s) n""",
        CALLS,
    )
    page = await look(http, f"/runs/{run}")

    assert "said 1." not in page
    assert "said 2." in page
    assert f"said {MESSAGES + 1}." in page
    assert f'id="{first}"' not in page
    assert f'id="call_{CALLS}"' in page
    assert page.index('id="call_1"') < page.index(f'id="call_{CALLS}"')


async def test_of_a_turn_with_too_many_calls_each_stands_where_it_was_asked_for(
    http: httpx.AsyncClient, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_story, "CALLS", 1)
    run = await working(rows, turns=1, status="running")
    use = {"type": "tool_use", "name": "pay"}
    said = [{"type": "text", "text": text} for text in ("the first", "the second")]
    await rows.turn(run, content=[said[0], use, said[1], use], finished_at="2026-01-01")
    await rows.call(run, index=0)
    shown = await rows.call(run, index=1)

    page = await look(http, f"/runs/{run}")

    places = [page.index(text) for text in ("the first", "the second", f'id="{shown}"')]
    assert places == sorted(places)


async def test_unknown_outcomes_are_paged(http: httpx.AsyncClient, rows: Rows) -> None:
    run = await rows.run(status="succeeded", finished_at="2026-01-01")
    lost = BEGUN | {"state": "outcome_unknown", "replay": "at_most_once", "arguments": {}}
    for index in range(5):
        await rows.call(run, index=index, **lost)
    path, shown, asked = "/inbox?limit=2", [], 0
    while path:
        page = await look(http, path)
        shown += re.findall(r'id="unknown-(call_\w+)"', page)
        following = re.search(r'rel="next" href="([^"]*)#unknown"', page)
        path = following[1].replace("&amp;", "&") if following else ""
        asked += 1

    assert asked == 3
    assert len(shown) == len(set(shown)) == 5


@pytest.mark.parametrize("skipped", [False, True])
async def test_an_unknown_outcome_leads_to_where_it_is_settled_unless_it_was_left_so(
    http: httpx.AsyncClient, rows: Rows, skipped: bool
) -> None:
    run = await working(rows, status="succeeded", finished_at="2026-01-01", turns=1)
    await rows.turn(run, content=[{"type": "tool_use", "name": "pay"}], finished_at="2026-01-01")
    lost = BEGUN | {"state": "outcome_unknown", "replay": "at_most_once", "skipped": skipped}
    call = await rows.call(run, arguments={}, **lost)

    younger = await rows.call(run, index=1, arguments={}, **lost | {"skipped": False})

    page = await look(http, f"/runs/{run}")
    assert "Nobody knows whether this happened" in page
    path = f"/inbox?call={call}"
    assert (f'href="{path}#unknown-{call}"' in page) == (not skipped)
    inbox = await look(http, f"{path}&limit=1")
    assert (f'id="unknown-{call}"' in inbox) == (not skipped)
    assert younger not in inbox


async def test_nobody_waits_for_a_page_that_takes_long(
    http: httpx.AsyncClient, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answered = threading.Event(), threading.Event()

    def slow(template: str, context: dict[str, Any]) -> rendering.Page:
        begun.set()
        assert answered.wait(in_time(5)), "nothing else was answered"
        return rendering.Page(template, context)

    monkeypatch.setattr(pages, "Page", slow)
    page = asyncio.create_task(look(http, "/rules"))
    await asyncio.to_thread(begun.wait)
    assert (await http.get("/health/live")).status_code == 200
    answered.set()
    assert "Standing rules" in await page


async def test_a_page_that_is_long_in_the_making_is_no_trouble_of_the_database(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await look(http, "/rules")
    monkeypatch.setattr(routing, "PATIENCE_SECONDS", 1.0)

    def slow(template: str, context: dict[str, Any]) -> rendering.Page:
        threading.Event().wait(1.2)
        return rendering.Page(template, context)

    monkeypatch.setattr(pages, "Page", slow)
    assert "Standing rules" in await look(http, "/rules")


async def test_many_who_look_at_once_are_told_by_one_count(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    async def counts(connection: Connection) -> Row:
        counted.append(connection)
        return await count(connection)

    count = views_console.counts
    monkeypatch.setattr(views_console, "counts", counts)
    await asyncio.gather(*(look(http, "/rules") for _ in range(3)))

    assert len(counted) == 1


async def test_effects_are_those_of_calls_that_can_have_one(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await working(rows, status="running", turns=1)
    look_up = await rows.call(run, tool="look_up", state="succeeded", replay="read_only", **DONE)
    pay = await rows.call(run, index=1, state="succeeded", replay="idempotent", **DONE)

    page = await look(http, f"/runs/{run}")

    effects = page[page.index('id="effects"') : page.index('id="events"')]
    assert f'href="#{pay}"' in effects
    assert look_up not in effects
