-- Workers, takeover, and the invariants that a live run must keep.

-- A worker's lease is the advisory lock (1346720836, workers.lock), held by its session.
create or replace function perdure.leases() returns setof integer language sql stable as $$
    select objid::integer from pg_locks
    where locktype = 'advisory' and classid = 1346720836 and objsubid = 2 and granted
      and database = (select oid from pg_database where datname = current_database())
$$;

-- Whether its worker may have died of the run: a tool's code, or the check of its output, was in hand or about to
-- be. A model call runs no code of a user's.
create or replace function perdure.may_be_poison(r perdure.runs) returns boolean language sql stable as $$
    select (r.status = 'cancelling' or not exists (
        select from perdure.turns where run = r.id and finished_at is null)) and (
        exists (select from perdure.calls c where c.run = r.id and c.turn >= r.turns
            and c.state in ('proposed', 'ready', 'started')
            and not exists (select from perdure.waits w where w.call = c.id and w.state = 'open'))
        or exists (select from perdure.turns where run = r.id and number = r.turns
            and stop_reason in ('end_turn', 'stop_sequence')))
$$;

-- Takes a dead worker's leg from it. Answers whether DBOS should run the leg again ('resume'), drop it ('drop'),
-- or that the leg is no longer that worker's ('gone'). Who owns the run says nothing: a worker may die between
-- claiming a leg and taking the run.
-- 'isolate': workers keep dying in this run's hands. Two losses without progress take it to a process of its own,
-- two more there to its end; see `carry_on`. A worker that was told to stop is no loss, and an execution counts once.
-- The fence rises, so whatever the dead worker still sends is refused.
-- `p_isolates`: whether the caller knows what to do then; a worker of the release before does not.
create or replace function perdure.take_over(
    p_run text, p_leg integer, p_from text, p_isolates boolean default false
) returns text language plpgsql as $$
declare
    r perdure.runs;
    worker perdure.workers;
    queue text;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.id is null or r.finished_at is not null or r.leg <> p_leg then
        return 'drop';
    end if;
    select s.queue_name into queue from dbos.workflow_status s
        where s.workflow_uuid = p_run || ':' || p_leg and s.status = 'PENDING' and s.executor_id = p_from;
    if not found then
        return 'gone';
    end if;
    select * into worker from perdure.workers where id = p_from;
    if r.owner = p_from and r.execution is not null and worker.dead_at is not null and not worker.leaving
            and perdure.may_be_poison(r) then
        r.losses := r.losses + 1;
    end if;
    -- The time between the worker's last sign of life and the next execution is not the run's.
    update perdure.runs set fence = r.fence + 1, losses = r.losses, execution = null, active_since = null,
        active_seconds = r.active_seconds
            + coalesce(greatest(extract(epoch from worker.last_beat_at - r.active_since), 0), 0)
    where id = p_run;
    return case when p_isolates and r.losses >= case when queue = 'suspects' then 4 else 2 end
        then 'isolate' else 'resume' end;
end $$;

-- Goes on with the next leg from our tables, because DBOS no longer carries this one, or is not to. The third
-- breach without progress, or the fourth loss, dead-letters the run. Answers the leg to enqueue, or null.
create or replace function perdure.carry_on(
    p_run text, p_leg integer, p_why text, p_is_breach boolean default true
) returns integer language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.finished_at is not null or r.leg <> p_leg or r.held then
        return null;
    elsif r.losses >= 4 or p_is_breach and r.breaches >= 2 then
        for c in update perdure.calls set state = 'outcome_unknown', is_error = true, finished_at = now(),
                history = perdure.close_attempt(history, 'interrupted'),
                result = json_build_object('error', 'outcome_unknown', 'detail', 'interrupted')
                where run = p_run and state = 'started' returning * loop
            perform perdure.tell(p_run, array[perdure.call_event(c, 'outcome_unknown')],
                array[perdure.call_facts(c, c.attempts, c.worker)]);
        end loop;
        perform perdure.end_run(p_run, null, 'dead_letter', 'internal', null,
            json_build_object('type', 'internal', 'detail', p_why));
        return null;
    end if;
    update perdure.runs set breaches = r.breaches + p_is_breach::integer, leg = r.leg + 1, fence = r.fence + 1,
        owner = null, parked = false, active_seconds = perdure.active_seconds(r), active_since = null,
        status = case when status = 'cancelling' then status else 'queued' end
    where id = p_run;
    perform perdure.tell(p_run, array['run.handed_off'], array[json_build_object('leg', p_leg, 'why', p_why)]);
    return r.leg + 1;
end $$;

-- Live runs that nothing carries: their leg is unknown to DBOS or over there, or they wait for nothing.
create or replace function perdure.stranded() returns table (run text, leg integer, why text) language plpgsql stable as $$
begin
    return query
    select r.id, r.leg, coalesce('its leg is ' || s.status || ' in the journal', 'its leg is not in the journal')
    from perdure.runs r left join dbos.workflow_status s on s.workflow_uuid = r.id || ':' || r.leg
    where r.status in ('queued', 'running', 'cancelling') and not r.held and not r.parked
      and (s.status is null or s.status not in ('ENQUEUED', 'DELAYED', 'PENDING'))
    union all
    select r.id, r.leg, 'it waits for nothing' from perdure.runs r
    where r.parked and r.finished_at is null
      and not exists (select from perdure.waits w where w.run = r.id and w.state = 'open');
end $$;

-- Held runs whose holder has ended without letting them go.
create or replace function perdure.forgotten() returns table (run text, session text, target text) language sql stable as $$
    select x.id, x.session, x.target from perdure.runs x
    where x.held and x.finished_at is null and not exists (
        select from perdure.runs y
        where y.finished_at is null and y.place < x.place and (y.session = x.session or y.target = x.target))
$$;
