"""Workers, their leases, and the legs of the dead."""

from typing import Any

from app.domain.canonical import encode
from app.store.db import Connection, Row, call, row, rows, verdict

# The two-int advisory locks of Perdure: (LEASE, workers.lock) and (JANITOR, 0).
LEASE = 1346720836
JANITOR = 1346720842


async def draw_lock(connection: Connection) -> int:
    found = await row(connection, "select nextval('perdure.worker_locks')::integer as lock")
    assert found is not None
    return int(found["lock"])


async def try_lock(connection: Connection, space: int, number: int) -> bool:
    """A session's lock: it ends with the connection, whatever ends the connection."""
    found = await row(
        connection,
        "select pg_try_advisory_lock(%(space)s, %(number)s) as locked",
        space=space,
        number=number,
    )
    return found is not None and bool(found["locked"])


async def is_janitor(connection: Connection, backend: int) -> bool:
    """Whether that session still holds the janitor's lock."""
    found = await row(
        connection,
        """select from pg_locks where locktype = 'advisory' and granted and pid = %(backend)s
               and classid = %(space)s and objid = 0 and objsubid = 2""",
        backend=backend,
        space=JANITOR,
    )
    return found is not None


async def insert(
    connection: Connection,
    worker: str,
    lock: int,
    version: str,
    agents: list[str],
    identity: dict[str, Any],
    *,
    isolated: bool = False,
) -> None:
    await row(
        connection,
        """insert into perdure.workers
               (id, lock, host, pid, boot_id, pid_namespace, process_started, version, agents,
               isolated)
           values (%(worker)s, %(lock)s, %(host)s, %(pid)s, %(boot_id)s, %(pid_namespace)s,
               %(process_started)s, %(version)s, %(agents)s, %(isolated)s) returning id""",
        worker=worker,
        lock=lock,
        version=version,
        agents=encode(agents),
        isolated=isolated,
        **identity,
    )


async def beat(connection: Connection, worker: str) -> bool:
    """False once the worker has been given up."""
    found = await row(
        connection,
        """update perdure.workers set last_beat_at = clock_timestamp()
           where id = %(worker)s and dead_at is null returning id""",
        worker=worker,
    )
    return found is not None


async def find(connection: Connection, worker: str) -> Row | None:
    return await row(
        connection, "select * from perdure.workers where id = %(worker)s", worker=worker
    )


async def without_lease(connection: Connection) -> list[Row]:
    """Workers that should live and hold no lock; `age`: seconds since the database started."""
    return await rows(
        connection,
        """select w.*,
               extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float as age
           from perdure.workers w
           where w.dead_at is null and w.lock not in (select perdure.leases())""",
    )


async def give_up(connection: Connection, worker: str, death: str) -> None:
    await row(
        connection,
        """update perdure.workers set dead_at = clock_timestamp(), death = %(death)s
           where id = %(worker)s and dead_at is null returning id""",
        worker=worker,
        death=death,
    )


async def leave(connection: Connection, worker: str) -> None:
    """It was told to stop: what it leaves behind is nobody's fault."""
    await row(
        connection,
        "update perdure.workers set leaving = true where id = %(worker)s returning id",
        worker=worker,
    )


async def hang_up(connection: Connection, worker: str) -> None:
    """Ends what a worker that was given up still has open: a frozen one keeps all its locks."""
    await rows(
        connection,
        """select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = right(%(worker)s, 63)""",
        worker=worker,
    )


async def legs_of_the_dead(connection: Connection) -> list[Row]:
    """Legs that DBOS takes for running on a worker that has been given up.

    {workflow, worker, queue}
    """
    return await rows(
        connection,
        """select s.workflow_uuid as workflow, s.executor_id as worker, s.queue_name as queue
           from dbos.workflow_status s left join perdure.workers w on w.id = s.executor_id
           where s.status = 'PENDING' and s.name = 'perdure.leg'
             and (w.id is null or w.dead_at is not null)""",
    )


async def pending_legs(connection: Connection, worker: str) -> dict[str, str]:
    """Legs that DBOS takes for running on this worker, and the queues that they came from."""
    found = await rows(
        connection,
        """select workflow_uuid as workflow, queue_name as queue from dbos.workflow_status
           where status = 'PENDING' and name = 'perdure.leg' and executor_id = %(worker)s""",
        worker=worker,
    )
    return {each["workflow"]: each["queue"] for each in found}


async def has_agent(connection: Connection, agent: str) -> bool:
    """Whether a worker that lives takes runs of the agent."""
    found = await row(
        connection,
        """select from perdure.workers where dead_at is null and not leaving and not isolated
               and agents ? %(agent)s limit 1""",
        agent=agent,
    )
    return found is not None


async def has_to_isolate(connection: Connection, worker: str) -> bool:
    """Whether a leg waits for an isolated process of this worker: the first that has its agent.

    Where nobody has it, the first of all: to end a run, an agent may not be needed.
    """
    found = await row(
        connection,
        """select from dbos.workflow_status s
           join perdure.runs r on r.id = split_part(s.workflow_uuid, ':', 1)
           where s.queue_name = 'suspects' and s.status = 'ENQUEUED' and %(worker)s = (
               select w.id from perdure.workers w
               where w.dead_at is null and not w.isolated and not w.leaving
                 and w.lock in (select perdure.leases())
               order by w.agents ? r.agent desc, w.started_at, w.id limit 1)
           limit 1""",
        worker=worker,
    )
    return found is not None


async def take_over(connection: Connection, run: str, leg: int, worker: str) -> str:
    """'resume', 'isolate', 'drop', or 'gone' where the leg is no longer that worker's."""
    return await verdict(
        connection, "take_over", run=run, leg=leg, isolates=True, **{"from": worker}
    )


async def owned(connection: Connection, worker: str) -> dict[str, tuple[int, bool]]:
    """Runs in this worker's hands: their fence, and whether they are being cancelled."""
    found = await rows(
        connection,
        "select id, fence, status from perdure.runs where owner = %(worker)s",
        worker=worker,
    )
    return {each["id"]: (each["fence"], each["status"] == "cancelling") for each in found}


async def stranded(connection: Connection) -> list[Row]:
    """{run, leg, why}: live runs that nothing carries."""
    return await rows(connection, "select * from perdure.stranded()")


async def forgotten(connection: Connection) -> list[Row]:
    """{run, session, target}: held runs whose holder is gone."""
    return await rows(connection, "select * from perdure.forgotten()")


async def carry_on(
    connection: Connection, run: str, leg: int, why: str, *, is_breach: bool = True
) -> int | None:
    """The leg to enqueue in the same transaction, if any."""
    found = await call(connection, "carry_on", run=run, leg=leg, why=why, is_breach=is_breach)
    leg_after: int | None = found["carry_on"]
    return leg_after
