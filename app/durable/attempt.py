"""One attempt of a call: from the intent to the outcome, by the tool's replay policy."""

import time
from dataclasses import dataclass

from app.domain.replay import (
    Attempts,
    End,
    Finding,
    Verdict,
    after_end,
    after_reconcile,
    writes_intent,
)
from app.durable import asking, ledger
from app.durable.body import Ended, run_body
from app.durable.execution import bench
from app.durable.ledger import Call
from app.durable.reconcile import ask_world
from app.durable.transactional import run_transactional
from app.store.calls import Hold, Intent
from app.tools.declare import Tool

NOT_CALLED = "not_called"
NO_MORE = Attempts(failed=1, allowed=0)


@dataclass(frozen=True)
class Attempt:
    call: Call
    tool: Tool
    intent: Intent
    number: int

    @classmethod
    def next(cls, call: Call, tool: Tool, intent: Intent) -> "Attempt":
        return cls(call.with_arguments(intent.arguments), tool, intent, call.attempt + 1)

    @classmethod
    def last(cls, call: Call, tool: Tool) -> "Attempt":
        """The one that was begun by an execution that is gone."""
        return cls(call, tool, call.intent(tool), call.attempt)

    async def run(self) -> bool:
        """True once the call has succeeded; else the ledger says what comes next."""
        if self.tool.waits is not None:
            await asking.ask(self.call, self.tool, self.intent, self.number)
            return False
        policy = self.call.policy(self.tool)
        if writes_intent(policy) and not await self._commit_intent():
            return False
        if policy == "transactional":
            ended = await run_transactional(self.call, self.tool, self.intent, self.number)
        else:
            ended = await self._run_and_finish()
        if ended is not None:
            await self._settle(ended)
        return ended is None

    async def _commit_intent(self) -> bool:
        """No intent, no effect: whether the tool may be called, now that `started` is committed."""
        asked = time.monotonic()
        if await ledger.start(self.call, self.intent, self.number) != "ok":
            return False
        await bench().may_begin()
        if self.tool.timeout is None or time.monotonic() - asked <= self.tool.timeout:
            return True
        await self._again(0.0, NOT_CALLED)
        return False

    async def _run_and_finish(self) -> Ended | None:
        ended = await run_body(self.call, self.tool, self.number)
        if isinstance(ended, Ended):
            return ended
        await self._finish("succeeded", ended.result, "succeeded", ended.took)
        return None

    async def _settle(self, ended: Ended) -> None:
        failed = ended.how in (End.RAISED, End.TIMED_OUT, End.STILL_RUNNING)
        attempts = self.call.attempts(self.tool, this_one=failed)
        match after_end(self.call.policy(self.tool), ended.how, attempts):
            case Verdict.FAIL:
                result = {"error": ended.how, "detail": ended.detail}
                await self._finish("failed", result, ended.how, ended.took)
            case Verdict.CANCEL:
                await self._finish("cancelled", None, ended.how, ended.took)
            case Verdict.AGAIN:
                await self._again(pause(attempts), ended.how, ended.took)
            case Verdict.RECONCILE:
                cancelling = ended.how is End.CANCELLED
                await self.reconcile(ended, attempts, cancelling=cancelling)
            case other:
                raise AssertionError(f"no body ends in {other}")

    async def interrupted(self, *, over: bool) -> None:
        """Begun by an execution that is gone; `over`: and that can act no more."""
        ended = Ended(End.INTERRUPTED, "The worker that ran it is gone.", over)
        await self.reconcile(ended, self.call.attempts(self.tool))

    async def give_up(self, *, over: bool) -> None:
        """Its tool takes the recorded arguments no more, so that it cannot be run again."""
        detail = f"{self.tool.name} no longer takes its arguments."
        await self.reconcile(Ended(End.INTERRUPTED, detail, over), NO_MORE)

    async def reconcile(self, end: Ended, attempts: Attempts, *, cancelling: bool = False) -> None:
        """Asks the outside world what became of an attempt that ended without an outcome."""
        cancelling = cancelling or self.call.cancelling
        finding, result = await ask_world(self.call, self.tool, self.number)
        absent = finding is Finding.DID_NOT_HAPPEN and end.over
        ended: str = finding if absent else end.how
        match after_reconcile(finding, attempts, over=end.over, cancelling=cancelling):
            case Verdict.SUCCEED:
                await self._finish("succeeded", result, "reconciled")
            case Verdict.UNKNOWN:
                await self._leave_unknown(end, ask=not cancelling)
            case Verdict.AGAIN:
                await self._again(pause(attempts), ended)
            case Verdict.FAIL:
                detail = f"{self.tool.name} failed; it had no effect."
                await self._finish("failed", {"error": ended, "detail": detail}, ended)
            case Verdict.CANCEL:
                await self._finish("cancelled", None, ended)
            case other:
                raise AssertionError(f"no finding leads to {other}")

    async def _leave_unknown(self, end: Ended, *, ask: bool) -> None:
        """Said, not guessed: to the model, or first to a person."""
        if not ask or self.tool.on_unknown != "ask":
            await finish_unknown(self.call, self.intent, self.number, end.how)
            return
        question = (
            f"Did {self.tool.name} happen? "
            f"Its attempt {self.number} ended without an outcome: {end.detail}"
        )
        wait = Hold("outcome_unknown", "outcome", question, attempt_ended=end.how)
        await ledger.hold(self.call, self.intent, wait, self.number)

    async def _finish(self, state: str, result: object, ended: str, took: float = 0.0) -> None:
        await ledger.finish(
            self.call,
            state,
            result,
            intent=self.intent,
            attempt=self.number,
            ended=ended,
            took=took,
        )

    async def _again(self, seconds: float, ended: str, took: float = 0.0) -> None:
        question = "when to run the next attempt"
        wait = Hold("ready", "timer", question, seconds=seconds, attempt_ended=ended, took=took)
        await ledger.hold(self.call, self.intent, wait, self.number)


async def finish_unknown(call: Call, intent: Intent, attempt: int, ended: str) -> None:
    result = {"error": "outcome_unknown", "detail": ended}
    await ledger.finish(
        call, "outcome_unknown", result, intent=intent, attempt=attempt, ended=ended
    )


def pause(attempts: Attempts) -> float:
    """0.5 s doubling to 30 s."""
    return float(min(0.5 * 2 ** max(attempts.failed - 1, 0), 30.0))
