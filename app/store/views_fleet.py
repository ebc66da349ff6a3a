"""The workers with their leases, and the agents they declared."""

from app.store.db import Connection, Row, rows


async def live_agents(connection: Connection) -> list[set[str]]:
    """For each worker that holds its lease, the names of its agents."""
    found = await rows(
        connection,
        """
        select agents from perdure.workers
        where dead_at is null and not isolated and lock in (select perdure.leases())
        """,
    )
    return [set(worker["agents"]) for worker in found]


async def workers(connection: Connection) -> list[Row]:
    """The living, and the dead of the last hour."""
    return await rows(
        connection,
        """
        select worker.*,
            worker.dead_at is null and worker.lock in (select perdure.leases()) as holds_lease,
            (
                select json_agg(json_build_object('run', run.id, 'leg', run.leg) order by run.place)
                from perdure.runs run
                where run.owner = worker.id and run.status in ('running', 'cancelling')
            ) as legs
        from perdure.workers worker
        where worker.dead_at is null or worker.dead_at > now() - interval '1 hour'
        order by worker.id
        """,
    )


async def agents(connection: Connection) -> list[Row]:
    """Each agent with the definition that new runs get."""
    return await rows(
        connection,
        """
        select agent.name, agent.version, declared.definition
        from perdure.agents agent
        join perdure.agent_versions declared
            on declared.agent = agent.name and declared.version = agent.version
        order by agent.name
        """,
    )
