"""A run, moved by hand through the transitions that a worker's leg would make."""

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

from app.domain.canonical import canonical_json, digest, encode
from app.domain.ids import call_id, new_run_id, new_session_id
from app.domain.limits import Limits
from app.store import calls, events, runs, sessions, turns, waits, workers
from app.store.calls import Hold, Intent, Outcome, Place
from app.store.db import Connection, Row, row, rows

ASKED = turns.Asked(
    model="claude-test", parameters={}, prompt_hash="p", tools_hash="t", provider="nobody"
)
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 2, "cache_write_tokens": 1}
PRICE = Decimal("0.001")
ARGUMENTS = {"ref": "a", "amount": 1}
ALLOW = canonical_json({"decision": "allow"})
DENY = canonical_json({"decision": "deny", "reason": "Too much."})
HAPPENED = canonical_json({"outcome": "happened", "result": {"id": 7}})
DID_NOT_HAPPEN = canonical_json({"outcome": "did_not_happen"})
SKIP = canonical_json({"outcome": "skip"})


def intent(replay: str = "at_most_once", approval: str = "never") -> Intent:
    return Intent(ARGUMENTS, digest(ARGUMENTS), replay, approval)


class Stage:
    """Every write goes over one autocommit connection, as a worker's do."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.executions = itertools.count(1)

    async def submit(self, *, held: bool = False, **values: Any) -> str:
        run = str(values.get("id") or new_run_id())
        session = values.get("session") or new_session_id()
        target = values.get("target")
        await sessions.make(self.connection, session, target)
        made = {
            "id": run,
            "agent": values.get("agent", "desk"),
            "agent_version": "v1",
            "session": session,
            "target": target,
            "input": encode("hello"),
            "metadata": "{}",
            "limits": encode(Limits().to_json() | values.get("limits", {})),
            "priority": values.get("priority", 0),
            "queue_key": values.get("queue_key", "local"),
            "deadline": values.get("deadline"),
            "callback": values.get("callback"),
            "trace_id": "0" * 32,
        }
        await runs.insert(self.connection, made, held=held)
        await events.tell(self.connection, run, "run.queued", held=held)
        return run

    async def worker(self, worker: str, **identity: Any) -> str:
        if await workers.find(self.connection, worker) is not None:
            return worker
        known = {
            "host": "box",
            "pid": 1,
            "boot_id": "b",
            "pid_namespace": "n",
            "process_started": "1",
        }
        lock = await workers.draw_lock(self.connection)
        await workers.insert(self.connection, worker, lock, "1", ["desk"], known | identity)
        return worker

    async def take(self, run: str, worker: str = "w1") -> int:
        """Begins an execution of the run's leg; answers its fence."""
        await self.worker(worker)
        leg = (await self.run(run))["leg"]
        name = f"{worker}/{next(self.executions)}"
        verdict, fence = await runs.take(self.connection, run, leg, worker, name)
        assert verdict == "taken"
        return fence

    async def begin(
        self,
        run: str,
        fence: int,
        turn: int = 1,
        *,
        take_messages: bool = True,
        provider: str = "nobody",
        cap: int | None = None,
    ) -> str:
        asked = replace(ASKED, provider=provider)
        return await turns.begin(
            self.connection, run, fence, turn, "w1", asked, take_messages=take_messages, cap=cap
        )

    async def answer(
        self, run: str, fence: int, turn: int, *tools: str, stop_reason: str | None = None
    ) -> str:
        """The model's answer, which asks for these tools."""
        asked = [
            {"type": "tool_use", "id": f"toolu_{turn}_{index}", "name": tool, "input": ARGUMENTS}
            for index, tool in enumerate(tools)
        ]
        return await turns.finish(
            self.connection,
            run,
            fence,
            turn,
            model="claude-test",
            stop_reason=stop_reason or ("tool_use" if tools else "end_turn"),
            content=asked or [{"type": "text", "text": "Done."}],
            usage=USAGE,
            cost=PRICE,
            asked_for=asked,
        )

    async def fail(
        self,
        run: str,
        fence: int,
        turn: int = 1,
        *,
        retry: float | None = 60.0,
        told: float | None = None,
    ) -> str:
        return await turns.fail(
            self.connection,
            run,
            fence,
            turn,
            outcome="overloaded_error",
            detail="Overloaded.",
            maybe_paid=True,
            retry_seconds=retry,
            told=told,
        )

    async def turn(self, run: str, fence: int, number: int, *tools: str) -> list[str]:
        """A whole turn; answers the ids of its calls."""
        assert await self.begin(run, fence, number) == "call"
        assert await self.answer(run, fence, number, *tools) == "ok"
        return [call_id(run, number, index) for index in range(len(tools))]

    async def calling(self, *tools: str, worker: str = "w1", **values: Any) -> tuple[str, int, str]:
        """A run whose first turn asks for tools: the run, its fence, the first call."""
        run = await self.submit(**values)
        fence = await self.take(run, worker)
        made = await self.turn(run, fence, 1, *(tools or ("pay",)))
        return run, fence, made[0]

    def place(self, run: str, fence: int, call: str, attempt: int = 1, worker: str = "w1") -> Place:
        return Place(run, fence, call, worker, attempt)

    async def start(self, at: Place, what: Intent | None = None) -> str:
        return await calls.start(self.connection, at, what or intent())

    async def finish(
        self, at: Place, state: str = "succeeded", what: Intent | None = None, **ended: Any
    ) -> str:
        outcome = Outcome(
            state,
            ended.get("result", {"id": 7}),
            is_error=state != "succeeded",
            attempt_ended=ended.get("outcome", state),
        )
        return await calls.finish(self.connection, at, what or intent(), outcome)

    async def hold(self, at: Place, kind: str, what: Intent | None = None, **more: Any) -> str:
        """`state`: of the call; a timer also holds one that is to run again."""
        states = {"timer": "ready", "outcome": "outcome_unknown"}
        state = more.pop("state", states.get(kind, "waiting"))
        made = what or intent(approval="always" if kind == "approval" else "never")
        return await calls.hold(self.connection, at, made, Hold(state, kind, "?", **more))

    async def ask(self, run: str, fence: int, call: str, **more: Any) -> str:
        """Opens an approval; answers the wait."""
        assert await self.hold(self.place(run, fence, call, 0), "approval", **more) == "held"
        return await self.open_wait(call)

    async def lose(self, run: str, fence: int, call: str, *, ask: bool = False) -> None:
        """An attempt that begins and ends in `outcome_unknown`."""
        at = self.place(run, fence, call)
        assert await self.start(at) == "ok"
        if ask:
            assert await self.hold(at, "outcome", attempt_ended="interrupted") == "held"
        else:
            assert await self.finish(at, "outcome_unknown", outcome="interrupted") == "ok"

    async def park(self, run: str, fence: int) -> str:
        return await runs.park(self.connection, run, fence, (await self.run(run))["leg"])

    async def end(self, run: str, fence: int | None, status: str, **more: Any) -> str:
        return await runs.end(self.connection, run, fence, status, **more)

    async def cancel(self, run: str, fence: int | None) -> str:
        """As a leg ends it that was asked to; without a fence, as the request does."""
        if fence is not None:
            await self.ask_cancel(run)
        return await self.end(run, fence, "cancelled")

    async def ask_cancel(self, run: str, *, compensate: bool = False) -> None:
        await runs.ask_cancel(
            self.connection, run, compensate=compensate, by="ann", reason="wrong order"
        )

    async def resolve(
        self, wait: str, resolution: str, arguments_hash: str | None = None, by: str = "ann"
    ) -> Row:
        return await waits.resolve(
            self.connection,
            wait,
            resolution,
            arguments_hash=arguments_hash,
            by=by,
            on_behalf_of=None,
            via="http",
        )

    async def journal(
        self,
        run: str,
        status: str,
        worker: str | None = None,
        leg: int = 0,
        queue: str = "agents",
    ) -> None:
        """What DBOS says of a leg, of the run's own one unless told otherwise."""
        await self.do(
            """insert into dbos.workflow_status
                   (workflow_uuid, status, name, executor_id, queue_name)
               select id || ':' || case when %(leg)s = 0 then leg else %(leg)s end,
                   %(status)s, 'perdure.leg', %(worker)s, %(queue)s
               from perdure.runs where id = %(run)s
               on conflict (workflow_uuid) do update
                   set status = excluded.status, executor_id = excluded.executor_id""",
            run=run,
            status=status,
            worker=worker,
            leg=leg,
            queue=queue,
        )

    async def legs(self, run: str) -> list[int]:
        """Those that have been enqueued."""
        query = """select split_part(workflow_uuid, ':', 2)::integer as leg
            from dbos.workflow_status where workflow_uuid like %(run)s || ':%%' order by 1"""
        return [each["leg"] for each in await rows(self.connection, query, run=run)]

    async def run(self, run: str) -> Row:
        return await self.one("select * from perdure.runs where id = %(id)s", id=run)

    async def call(self, call: str) -> Row:
        return await self.one("select * from perdure.calls where id = %(id)s", id=call)

    async def wait(self, wait: str) -> Row:
        return await self.one("select * from perdure.waits where id = %(id)s", id=wait)

    async def open_wait(self, call: str) -> str:
        query = "select id from perdure.waits where call = %(call)s and state = 'open'"
        return str((await self.one(query, call=call))["id"])

    async def told(self, run: str) -> list[str]:
        """The types of the run's events; their numbers are gapless."""
        query = "select seq, type from perdure.events where run = %(run)s order by seq"
        found = await rows(self.connection, query, run=run)
        assert [each["seq"] for each in found] == list(range(1, len(found) + 1))
        assert (await self.run(run))["seq"] == len(found)
        return [each["type"] for each in found]

    async def one(self, query: Any, **values: object) -> Row:  # noqa: ANN401 - a literal
        found = await row(self.connection, query, **values)
        assert found is not None
        return found

    async def do(self, statement: Any, **values: object) -> None:  # noqa: ANN401 - a literal
        await self.connection.execute(statement, values)
