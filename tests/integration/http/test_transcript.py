from typing import Any

import httpx
import pytest

from app.http.schemas import fleet
from tests.integration.http.rows import Rows, Values
from tests.integration.http.test_runs import get

ENDED = "2020-01-01"


def said(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


async def transcript(http: httpx.AsyncClient, session: str) -> list[dict[str, Any]]:
    shown = await get(http, f"/v1/sessions/{session}/transcript")
    fleet.Transcript.model_validate(shown)
    assert shown["session"] == session
    found: list[dict[str, Any]] = shown["messages"]
    return found


async def speak(rows: Rows, text: str, answer: str, **values: Any) -> str:
    """A run that has answered in one turn."""
    run = await rows.run(input=text, turns=1, **values)
    content = [{"type": "text", "text": answer}]
    await rows.turn(run, content=content, stop_reason="end_turn", finished_at=ENDED)
    return run


async def test_a_conversation_is_told_as_the_model_gets_it(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    done = {"session": "s", "status": "succeeded", "finished_at": ENDED}
    await speak(rows, "Hello.", "Hi.", **done)
    run = await rows.run(session="s", input="Pay A and B.", status="running", turns=1)
    asked = [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"ref": "a"}},
        {"type": "tool_use", "id": "toolu_2", "name": "pay", "input": {"ref": "b"}},
    ]
    await rows.turn(run, content=asked, stop_reason="tool_use", finished_at=ENDED)
    ended: Values = {"arguments": {}, "replay": "at_most_once", "finished_at": ENDED}
    await rows.call(run, 1, 0, state="succeeded", result={"id": 7}, **ended)
    told = {**ended, "told_unknown": True}
    await rows.call(run, 1, 1, state="outcome_unknown", provider_id="toolu_2", **told)
    await rows.message(run, "Hurry.", turn=2)
    await rows.message(run, "Not yet on its way.")

    found = await transcript(http, "s")

    assert found[:3] == [
        said("user", "Hello."),
        said("assistant", "Hi."),
        said("user", "Pay A and B."),
    ]
    assert found[3] == {"role": "assistant", "content": asked}
    first, second, hurry = found[4]["content"]
    assert (found[4]["role"], len(found)) == ("user", 5)
    assert first == {"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"id":7}'}
    assert (second["tool_use_id"], second["is_error"]) == ("toolu_2", True)
    assert "unknown" in second["content"]
    assert hurry == {"type": "text", "text": "Hurry."}


@pytest.mark.parametrize("state", ["proposed", "waiting", "ready", "started"])
async def test_a_call_under_way_has_no_result_yet(
    http: httpx.AsyncClient, rows: Rows, state: str
) -> None:
    run = await rows.run(session="s", status="running", turns=1)
    asked = [
        {"type": "tool_use", "id": f"toolu_{index}", "name": "pay", "input": {}} for index in (0, 1)
    ]
    await rows.turn(run, content=asked, stop_reason="tool_use", finished_at=ENDED)
    begun: Values = {"arguments": {}, "replay": "idempotent", "provider_id": "toolu_0"}
    call = await rows.call(run, 1, 0, state=state, **begun)
    assert (await transcript(http, "s"))[1:] == [{"role": "assistant", "content": asked}]

    ended: Values = {"arguments": {}, "replay": "idempotent", "result": {}, "finished_at": ENDED}
    await rows.call(run, 1, 1, state="succeeded", provider_id="toolu_1", **ended)

    async def told() -> list[str]:
        return [block["tool_use_id"] for block in (await transcript(http, "s"))[2]["content"]]

    assert await told() == ["toolu_1"]
    await rows.execute(
        "update perdure.calls set state = 'failed', finished_at = now() where id = %s", call
    )
    assert await told() == ["toolu_0", "toolu_1"]


async def test_an_unknown_outcome_is_told_once_nobody_is_asked_about_it_any_more(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    run = await rows.run(session="s", status="waiting", turns=1)
    asked = [{"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}}]
    await rows.turn(run, content=asked, stop_reason="tool_use", finished_at=ENDED)
    call = await rows.call(run, state="outcome_unknown", arguments={}, replay="at_most_once")
    assert (await transcript(http, "s"))[1:] == [{"role": "assistant", "content": asked}]

    await rows.execute("update perdure.calls set told_unknown = true where id = %s", call)
    (told,) = (await transcript(http, "s"))[2]["content"]
    assert "unknown" in told["content"]


async def test_what_waits_its_turn_is_not_yet_said(http: httpx.AsyncClient, rows: Rows) -> None:
    active = await speak(rows, "First.", "Working.", session="s", status="running")
    await rows.run(session="s", input="Second.", held=True)
    await rows.run(session="s", input="Never.", status="cancelled", finished_at=ENDED)

    assert await transcript(http, "s") == [said("user", "First."), said("assistant", "Working.")]

    await rows.end(active)
    await rows.execute("update perdure.runs set held = false")
    assert (await transcript(http, "s"))[-1] == said("user", "Second.")


async def test_a_forks_conversation_begins_with_its_sources(
    http: httpx.AsyncClient, rows: Rows
) -> None:
    done = {"status": "succeeded", "finished_at": ENDED}
    await speak(rows, "Before.", "Yes.", session="s", **done)
    source = await speak(rows, "Hello.", "Hi.", session="s", **done)
    await speak(rows, "After.", "No.", session="s", **done)

    forked = await http.post(f"/v1/runs/{source}/fork", json={"turn": 1, "input": "And now?"})

    told = await transcript(http, forked.json()["session"])
    texts = [block["text"] for message in told for block in message["content"]]
    assert texts == ["Before.", "Yes.", "Hello.", "Hi."]
    assert (await transcript(http, "s"))[-1] == said("assistant", "No.")


async def test_a_session_may_be_empty_or_unknown(http: httpx.AsyncClient, rows: Rows) -> None:
    await rows.execute("insert into perdure.sessions (id) values ('empty')")

    assert await transcript(http, "empty") == []
    response = await http.get("/v1/sessions/none/transcript")
    assert (response.status_code, response.json()["type"]) == (404, "/problems/not-found")
