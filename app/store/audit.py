"""What must always be true of the content: each query finds the breaches of one rule."""

from typing import LiteralString

from app.store.db import Connection, rows

RULES: dict[str, LiteralString] = {
    "a live run has an open leg, or waits for something": """
        select run || ': ' || why from perdure.stranded()""",
    "a held run has an active holder": "select run from perdure.forgotten()",
    "a leg under way has a worker that lives": """
        select s.workflow_uuid from dbos.workflow_status s
        left join perdure.workers w on w.id = s.executor_id
        where s.status = 'PENDING' and s.name = 'perdure.leg'
          and (w.id is null or w.lock not in (select perdure.leases()))""",
    "a run that has ended has no live leg": """
        select r.id from perdure.runs r
        join dbos.workflow_status s on s.workflow_uuid = r.id || ':' || r.leg
        where r.finished_at is not null""",
    "no outcome without an intent": """
        select c.id from perdure.calls c
        where c.replay in ('idempotent', 'at_most_once')
          and c.state in ('succeeded', 'outcome_unknown')
          and not exists (
              select from perdure.events e
              where e.run = c.run and e.type = 'call.started' and e.data ->> 'call' = c.id)""",
    "each tool_use of a turn has one call": """
        select t.run || '/' || t.number from perdure.turns t
        where t.stop_reason = 'tool_use' and position('\\u0000' in t.content::text) = 0 and (
            select count(*) from json_array_elements(t.content) block
            where block ->> 'type' = 'tool_use'
        ) <> (
            select count(*) from perdure.calls c where c.run = t.run and c.turn = t.number)""",
    "a turn follows only calls that have ended": """
        select c.id from perdure.calls c
        join perdure.turns t on t.run = c.run and t.number = c.turn + 1
        where c.state in ('proposed', 'waiting', 'ready', 'started')""",
    "events are numbered without gaps": """
        select r.id from perdure.runs r left join perdure.events e on e.run = r.id
        group by r.id, r.seq having count(e.seq) <> r.seq or coalesce(max(e.seq), 0) <> r.seq""",
    "each ending has one terminal event": """
        select r.id from perdure.runs r left join perdure.events e on e.run = r.id
        group by r.id, r.finished_at
        having count(*) filter (where e.type in (
                   'run.succeeded', 'run.failed', 'run.cancelled', 'run.dead_letter'))
               - count(*) filter (where e.type = 'run.resumed' and (e.data ->> 'reopened')::boolean)
            <> (r.finished_at is not null)::integer""",
    "a run that has ended waits for nothing": """
        select w.id from perdure.waits w join perdure.runs r on r.id = w.run
        where w.state = 'open' and r.finished_at is not null""",
    "a run that has ended has no call under way": """
        select c.id from perdure.calls c join perdure.runs r on r.id = c.run
        where r.finished_at is not null
          and c.state in ('proposed', 'waiting', 'ready', 'started')""",
    "a session or target has one active run": """
        select x.id from perdure.runs x
        join perdure.runs y on y.place < x.place
            and (y.session = x.session or y.target = x.target)
        where x.finished_at is null and y.finished_at is null and not x.held and not y.held""",
}


async def audit(connection: Connection) -> list[str]:
    """The breaches, as text; empty when all rules hold."""
    breaches = []
    for rule, query in RULES.items():
        for found in await rows(connection, query):
            breaches.append(f"{rule}: {next(iter(found.values()))}")
    return breaches
