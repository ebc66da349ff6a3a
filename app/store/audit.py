"""What must always be true of the content: each query finds the breaches of one rule."""

from typing import LiteralString

from app.store.db import Connection, rows

# Answers with NUL or surrogates, escaped in the text as received, are passed over: Postgres cannot
# look into such JSON.
RULES: dict[str, LiteralString] = {
    "a live run has an open leg, or waits for something": """
        select run || ': ' || why from perdure.stranded()""",
    "a held run has an active holder": "select run from perdure.forgotten()",
    "a parked run has no leg": """
        select r.id from perdure.runs r
        join dbos.workflow_status s on s.workflow_uuid = r.id || ':' || r.leg
        where r.parked""",
    "a run that is being cancelled waits only for a child or an undo": """
        select r.id from perdure.runs r
        where r.parked and r.status = 'cancelling'
          and not perdure.has_live_child(r.id) and not perdure.has_held_compensation(r.id)""",
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
          and c.state in ('succeeded', 'outcome_unknown') and c.origin is null
          and not exists (
              select from perdure.events e
              where e.run = c.run and e.type in ('call.started', 'compensation.started')
                and e.data ->> 'call' = c.id)""",
    "each tool_use of a turn has one call": """
        select t.run || '/' || t.number from perdure.turns t
        where t.stop_reason = 'tool_use'
          and case when t.content::text ~* '\\\\u(0000|d[89a-f])' then false else (
            select count(*) from json_array_elements(t.content) block
            where block ->> 'type' = 'tool_use'
        ) <> (
            select count(*) from perdure.calls c
            where c.run = t.run and c.turn = t.number and c.compensates is null) end""",
    "a turn follows only calls that have ended": """
        select c.id from perdure.calls c
        join perdure.turns t on t.run = c.run and t.number = c.turn + 1
        where c.state in ('proposed', 'waiting', 'ready', 'started')""",
    "a call that waits for an answer has an open wait": """
        select c.id from perdure.calls c join perdure.runs r on r.id = c.run
        where c.state = 'waiting' and r.status <> 'cancelling'
          and not exists (select from perdure.waits w where w.call = c.id and w.state = 'open')""",
    "an open wait holds a call that has not ended": """
        select w.id from perdure.waits w join perdure.calls c on c.id = w.call
        where w.state = 'open' and c.finished_at is not null""",
    "a run waits for a child that lives": """
        select w.id from perdure.waits w
        where w.kind = 'child' and w.state = 'open' and not exists (
            select from perdure.runs c where c.delegated_by = w.call and c.finished_at is null)""",
    "a child that lives is waited for": """
        select c.id from perdure.runs c join perdure.runs p on p.id = c.parent
        where c.finished_at is null and p.finished_at is null and not exists (
            select from perdure.waits w
            where w.call = c.delegated_by and w.kind = 'child' and w.state = 'open')""",
    "a child ends before its parent": """
        select c.id from perdure.runs c join perdure.runs p on p.id = c.parent
        where c.finished_at is null and p.finished_at is not null and p.status <> 'dead_letter'""",
    "a child stands below the call that asked for it": """
        select r.id from perdure.runs r join perdure.runs p on p.id = r.parent
        join perdure.calls c on c.id = r.delegated_by
        where c.run <> p.id or r.root <> p.root or r.depth <> p.depth + 1""",
    "a call is undone at most once": """
        select compensates from perdure.calls where compensates is not null
        group by compensates having count(*) > 1""",
    "only what a run has done itself is undone": """
        select c.id from perdure.calls undo join perdure.calls c on c.id = undo.compensates
        where c.state <> 'succeeded' or c.run <> undo.run
           or c.compensates is not null or c.origin is not null""",
    # What is found out about a call after the end is not undone any more.
    "a run that is to undo what it did ends after that": """
        select r.id from perdure.runs r
        where r.status = 'cancelled' and r.compensate and exists (
            select from perdure.undoable(r.id) c where c.settlement is null)""",
    "a rule allows what it is for": """
        select w.id from perdure.waits w
        join perdure.calls c on c.id = w.call join perdure.runs r on r.id = w.run
        where w.resolved_via = 'rule' and not exists (
            select from perdure.rules x
            where x.id = w.resolution ->> 'rule' and x.agent = r.agent and x.tool = c.tool
              and (x.scope <> 'run' or x.run = r.id)
              and (x.scope <> 'session' or x.session = r.session)
              and (x.expires_at is null or x.expires_at > w.resolved_at))""",
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
    # As `announce` in migrations/functions/events.sql says.
    "a callback hears of what it is to hear of": """
        select e.run || '/' || e.seq || ' ' || e.type
        from perdure.events e join perdure.runs r on r.id = e.run
        where r.callback is not null
          and not exists (select from perdure.deliveries d
                          where d.run = e.run and d.seq = e.seq and d.type = e.type)
          and case e.type
            when 'wait.reminder' then true
            when 'run.waiting' then exists (select from json_array_elements(e.data -> 'waits') w
                                            where w ->> 'kind' not in ('timer', 'child'))
            when 'run.resumed' then r.parent is null and (
                select d.type not in ('run.queued', 'run.resumed') from perdure.deliveries d
                where d.run = e.run and d.seq < e.seq and d.type <> 'wait.reminder'
                order by d.seq desc limit 1)
            else r.parent is null and e.type in ('run.queued', 'run.succeeded', 'run.failed',
                                                 'run.cancelled', 'run.dead_letter') end""",
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
