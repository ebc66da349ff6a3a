# ruff: noqa: ANN401 - what is replaced here has signatures of its own
"""Faults in the engine itself, planted in the processes that PERDURE_TEST_FAULT names one to."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from app.domain import transcript
from app.durable import attempt, ledger, model_step, transactional
from app.durable.body import Ended, run_body
from app.durable.execution import bench
from app.services import views_waits, waits
from app.store import calls, turns
from app.store.calls import Outcome
from tests.support.faults.sound import desk

__all__ = ["desk"]

HERE: set[str] = set()
NOTHING = [{"type": "text", "text": "(nothing)"}]
TELL = """
    insert into perdure.events (run, seq, type, data)
    select %(run)s, seq, 'call.succeeded', json_build_object('call', %(call)s::text, 'apart', true)
    from perdure.runs where id = %(run)s
"""


def replace(owner: Any, name: str, made: Any) -> None:
    setattr(owner, name, made)


def effect_before_intent() -> None:
    async def no_intent(self: attempt.Attempt) -> bool:
        return True

    async def body_then_intent(self: attempt.Attempt) -> Ended | None:
        ended = await run_body(self.call, self.tool, self.number)
        assert not isinstance(ended, Ended)
        await ledger.start(self.call, self.intent, self.number)
        await self._finish("succeeded", ended.result, "succeeded")
        return None

    replace(attempt.Attempt, "_commit_intent", no_intent)
    replace(attempt.Attempt, "_run_and_finish", body_then_intent)


def transaction_and_record_apart() -> None:
    async def once(call: Any, tool: Any, intent: Any, number: int, begun: Any) -> None:
        async with bench().tools_database.transaction() as transaction:
            begun.set()
            ended = await run_body(call, tool, number, transaction.sqlalchemy)
        assert not isinstance(ended, Ended)
        place = call.place(number)
        outcome = Outcome("succeeded", ended.result, is_error=False, attempt_ended="succeeded")
        await bench().store(lambda c: calls.finish(c, place, intent, outcome))

    replace(transactional, "_once", once)


def model_call_paid_again() -> None:
    begin = turns.begin

    async def ask_anyway(*arguments: Any, **named: Any) -> str:
        verdict = await begin(*arguments, **named)
        return "call" if verdict == "answered" else verdict

    replace(turns, "begin", ask_anyway)


def result_dropped() -> None:
    """What another process has finished is not told to the model."""
    conversation, finish = transcript.conversation, ledger.finish

    async def finish_here(call: Any, *arguments: Any, **named: Any) -> None:
        HERE.add(call.row["provider_id"])
        await finish(call, *arguments, **named)

    def drop(history: Any) -> Any:
        messages = conversation(history)
        return [
            {**message, "content": [*filter(_is_here, message["content"])] or NOTHING}
            if isinstance(message["content"], list)
            else message
            for message in messages
        ]

    replace(ledger, "finish", finish_here)
    replace(model_step, "conversation", drop)


def _is_here(block: Any) -> bool:
    return block["type"] != "tool_result" or block["tool_use_id"] in HERE


def event_apart() -> None:
    """With the trigger of `event_apart.sql`, which drops it from the transaction."""
    finish = calls.finish

    async def finish_and_tell(connection: Any, at: Any, intent: Any, end: Any) -> str:
        verdict = await finish(connection, at, intent, end)
        if end.state == "succeeded":
            await connection.execute(TELL, {"run": at.run, "call": at.call})
        return verdict

    replace(calls, "finish", finish_and_tell)


def decision_answered_first() -> None:
    """In the API: what a person says is stored when there is time for it."""
    resolve = waits.resolve
    later: dict[str, Any] = {}

    async def answer_first(services: Any, wait: str, said: Any, *who: Any) -> Any:
        if wait not in later:
            later[wait] = asyncio.ensure_future(_soon(resolve, services, wait, said, *who))
        return await views_waits.get_wait(services, wait)

    replace(waits, "resolve", answer_first)


async def _soon(resolve: Callable[..., Any], *arguments: Any) -> None:
    await asyncio.sleep(0.5)
    await resolve(*arguments)


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        effect_before_intent,
        transaction_and_record_apart,
        model_call_paid_again,
        result_dropped,
        event_apart,
        decision_answered_first,
    )
}

if os.environ.get("PERDURE_TEST_FAULT") in FAULTS:
    FAULTS[os.environ["PERDURE_TEST_FAULT"]]()
