"""Tools whose effect and outcome are one commit in our Postgres: both happen, or neither."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from functools import partial

import psycopg
import sqlalchemy
from sqlalchemy import event

from app.domain.replay import End
from app.durable.body import Ended, Returned, Watch, run_body
from app.durable.context import context_for
from app.durable.execution import bench, execution, insist
from app.durable.ledger import Call
from app.errors import Fenced
from app.store import calls
from app.store.calls import Intent, Outcome, Place
from app.store.db import allow_idle, calling
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.errors import ToolAborted
from app.tools.threads import run_in_thread

log = logging.getLogger(__name__)

# Beyond the tool's own time-out, for what we do in its transaction.
MARGIN_SECONDS = 10.0


class RolledBack(Exception):
    """Nothing was committed."""

    def __init__(self, ended: Ended) -> None:
        super().__init__()
        self.ended = ended


async def run_transactional(call: Call, tool: Tool, intent: Intent, attempt: int) -> Ended | None:
    """None once effect and outcome are committed.

    Until the body has begun, a database that is away is waited for. Afterwards whatever goes wrong
    ends the attempt, a lost answer to COMMIT too: what the ledger then says decides.
    """
    once = _once if tool.is_async else _once_in_thread
    begun = threading.Event()

    async def try_once() -> Ended | None:
        try:
            await once(call, tool, intent, attempt, begun)
        except RolledBack as rolled_back:
            return rolled_back.ended
        except Exception as error:
            if not begun.is_set():
                raise
            log.warning("the outcome of %s was not committed: %s", tool.name, type(error).__name__)
            return Ended(End.RAISED, f"{tool.name} failed with {type(error).__name__}.")
        return None

    return await insist(try_once)


async def _once(
    call: Call, tool: Tool, intent: Intent, attempt: int, begun: threading.Event
) -> None:
    async with bench().tools_database.transaction() as transaction:
        await transaction.sqlalchemy.execute(allow_idle(_idle(tool)))
        begun.set()
        with _kept_open(transaction.sqlalchemy.sync_connection):
            ended = await run_body(call, tool, attempt, transaction.sqlalchemy)
        if isinstance(ended, Ended):
            raise RolledBack(ended)
        place = call.place(attempt)
        _check(await calls.finish(transaction.connection, place, intent, _succeeded(ended)))


async def _once_in_thread(
    call: Call, tool: Tool, intent: Intent, attempt: int, begun: threading.Event
) -> None:
    """Whoever takes `decision` first decides: the thread to commit, the time-out against it."""
    me = execution()
    decision, cancelled = threading.Lock(), threading.Event()
    place = call.place(attempt)
    work = partial(_in_thread, call, tool, intent, place, begun, cancelled, decision)
    thread = asyncio.ensure_future(run_in_thread(work))

    async def wait() -> None:
        await asyncio.wait({thread}, timeout=tool.timeout)
        if not thread.done() and decision.acquire(blocking=False):
            cancelled.set()
            detail = f"{tool.name} did not end within {tool.timeout:g} s; nothing was committed."
            raise RolledBack(Ended(End.STILL_RUNNING, detail, over=False))
        await thread

    await bench().bodies.run(
        me.run, me.fence, wait(), cancelled=cancelled, stoppable=False, undoes=call.undoes
    )


def _in_thread(
    call: Call,
    tool: Tool,
    intent: Intent,
    place: Place,
    begun: threading.Event,
    cancelled: threading.Event,
    decision: threading.Lock,
) -> None:
    with bench().tools_database.sync_engine.begin() as connection:
        connection.execute(allow_idle(_idle(tool)))
        begun.set()
        ctx = context_for(call, tool, place.attempt, connection=connection, cancelled=cancelled)
        with _kept_open(connection):
            ended = _call(tool, ctx, call)
        if isinstance(ended, Ended):
            raise RolledBack(ended)
        if not decision.acquire(blocking=False):
            raise RolledBack(Ended(End.STILL_RUNNING, f"{tool.name} ended too late."))
        _check(_finish(connection, place, intent, ended))


def _call(tool: Tool, ctx: ToolContext, call: Call) -> Returned | Ended:
    watch = Watch(tool, ctx)
    try:
        return watch.returned(tool.bind(ctx, call.arguments)())
    except Exception as error:  # noqa: BLE001 - it is the tool's, and becomes its outcome
        return watch.ended(error)
    except BaseException as error:  # noqa: BLE001 - it would end the worker, not the call
        return watch.ended(ToolAborted(f"raised {type(error).__name__}"))


@contextlib.contextmanager
def _kept_open(connection: sqlalchemy.Connection | None) -> Iterator[None]:
    """A commit by the tool would part its effect from the outcome."""
    assert connection is not None

    def refuse(_: sqlalchemy.Connection) -> None:
        raise RuntimeError("a transactional tool neither commits nor rolls back; Perdure does")

    for name in ("commit", "rollback"):
        event.listen(connection, name, refuse)
    try:
        yield
    finally:
        for name in ("commit", "rollback"):
            event.remove(connection, name, refuse)


def _idle(tool: Tool) -> float:
    return 0.0 if tool.timeout is None else tool.timeout + MARGIN_SECONDS


def _finish(
    connection: sqlalchemy.Connection, place: Place, intent: Intent, returned: Returned
) -> str:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    values = calls.finish_values(place, intent, _succeeded(returned))
    found = driver.execute(calling("finish_call", values), values).fetchone()
    assert found is not None
    return str(found[0])


def _succeeded(returned: Returned) -> Outcome:
    return Outcome(
        "succeeded", returned.result, is_error=False, attempt_ended="succeeded", took=returned.took
    )


def _check(verdict: str) -> None:
    """Only an outcome recorded here and now is committed together with its effect."""
    if verdict == "fenced":
        raise Fenced("another execution has taken this call over")
    if verdict != "ok":
        raise RolledBack(Ended(End.RAISED, f"The outcome was refused: {verdict}."))
