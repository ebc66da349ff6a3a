"""Tools whose effect and outcome are one commit in our Postgres: both happen, or neither."""

import asyncio
import threading
from functools import partial

import psycopg
from sqlalchemy import Connection as SyncConnection

from app.domain.replay import End
from app.durable.attempt import Ended, Returned, Watch, run_body
from app.durable.context import context_for
from app.durable.execution import bench, execution, insist
from app.durable.ledger import Call, load
from app.errors import Fenced
from app.store import calls
from app.store.calls import Intent, Outcome, Place
from app.store.db import calling
from app.store.db_errors import is_lost_connection
from app.tools.declare import Tool
from app.tools.threads import run_in_thread


class RolledBack(Exception):
    """Nothing was committed; `ended` says why, None that an earlier commit of this call stands."""

    def __init__(self, ended: Ended | None) -> None:
        super().__init__()
        self.ended = ended


async def run_transactional(call: Call, tool: Tool, intent: Intent, attempt: int) -> Ended | None:
    """None: the outcome stands in the ledger."""
    once = _once if tool.is_async else _once_in_thread

    async def try_once() -> Ended | None:
        # A commit whose answer got lost may stand: the call is looked at before each try.
        row = call.row
        if (await load(row["run"], row["turn"], row["index"])).state not in ("proposed", "ready"):
            return None
        try:
            await once(call, tool, intent, attempt)
        except RolledBack as rolled_back:
            ended = rolled_back.ended
            if ended and ended.error and is_lost_connection(ended.error):
                raise ended.error from None
            return ended
        return None

    return await insist(try_once)


async def _once(call: Call, tool: Tool, intent: Intent, attempt: int) -> None:
    async with bench().database.transaction() as transaction:
        ended = await run_body(call, tool, attempt, transaction.sqlalchemy)
        if isinstance(ended, Ended):
            raise RolledBack(ended)
        verdict = await calls.finish(
            transaction.connection, call.place(attempt), intent, _succeeded(ended)
        )
        _check(verdict)


async def _once_in_thread(call: Call, tool: Tool, intent: Intent, attempt: int) -> None:
    """Whoever takes `decision` first decides: the thread to commit, the time-out against it."""
    me = execution()
    decision = threading.Lock()
    cancelled = threading.Event()
    work = partial(_in_thread, call, tool, intent, call.place(attempt), cancelled, decision)
    in_thread = asyncio.ensure_future(run_in_thread(work))

    async def wait() -> None:
        await asyncio.wait({in_thread}, timeout=tool.timeout)
        if not in_thread.done() and decision.acquire(blocking=False):
            cancelled.set()
            detail = f"{tool.name} did not end within {tool.timeout:g} s; nothing was committed."
            raise RolledBack(Ended(End.STILL_RUNNING, detail))
        await in_thread

    await bench().bodies.run(me.run, me.fence, wait(), cancelled=cancelled, stoppable=False)


def _in_thread(
    call: Call,
    tool: Tool,
    intent: Intent,
    place: Place,
    cancelled: threading.Event,
    decision: threading.Lock,
) -> None:
    with bench().database.sync_engine.begin() as connection:
        ctx = context_for(call, tool, place.attempt, connection=connection, cancelled=cancelled)
        watch = Watch(tool, ctx, cancelled)
        try:
            ended = watch.returned(tool.bind(ctx, call.arguments)())
        except Exception as error:  # noqa: BLE001 - it is the tool's, and becomes its outcome
            ended = watch.ended(error)
        if isinstance(ended, Ended):
            raise RolledBack(ended)
        if not decision.acquire(blocking=False):
            raise RolledBack(None)
        _check(_finish(connection, place, intent, ended))


def _finish(connection: SyncConnection, place: Place, intent: Intent, returned: Returned) -> str:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    values = calls.finish_values(place, intent, _succeeded(returned))
    found = driver.execute(calling("finish_call", values), values).fetchone()
    assert found is not None
    return str(found[0])


def _succeeded(returned: Returned) -> Outcome:
    return Outcome("succeeded", returned.result, is_error=False, attempt_ended="succeeded")


def _check(verdict: str) -> None:
    """Only an outcome recorded here and now is committed together with its effect."""
    if verdict == "fenced":
        raise Fenced("another execution has taken this call over")
    if verdict != "ok":
        raise RolledBack(None)
