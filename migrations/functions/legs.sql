-- Legs: taking a run, and letting go of it while it goes on.
--
-- Each transition, here and in the files beside, is one function, so one round trip and one commit. It locks the
-- run row first and checks in later statements: a single statement would keep its first snapshot and lose
-- wake-ups. Lock order: session and target, ancestor run, run, waits, calls.
-- `fence` numbers the executions of a run's legs; a write under an older fence is answered 'fenced'. A statement
-- whose answer got lost is sent again, so each transition knows its own earlier commit.

create or replace function perdure.active_seconds(r perdure.runs) returns double precision language sql stable as $$
    select r.active_seconds + coalesce(extract(epoch from clock_timestamp() - r.active_since), 0)
$$;

-- A process of the release before cancels a parked run without waking it: nothing keeps such a run parked.
create or replace function perdure.must_stay_parked(r perdure.runs) returns boolean language sql stable as $$
    select r.parked and (r.status = 'waiting'
        or perdure.has_live_child(r.id) or perdure.has_held_compensation(r.id))
$$;

-- Begins an execution of a leg, which `p_execution` names. Answers 'taken' with the new fence; 'moved' when the
-- run is past this leg; 'dead' when this worker has been given up.
create or replace function perdure.take_run(
    p_run text, p_leg integer, p_worker text, p_execution text, out verdict text, out fence bigint
) language plpgsql as $$
declare
    r perdure.runs;
    again boolean;
    replayed bigint := 0;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.id is null or r.leg <> p_leg or r.held or r.finished_at is not null or perdure.must_stay_parked(r) then
        verdict := 'moved';
        return;
    end if;
    if not exists (select from perdure.workers where id = p_worker and dead_at is null) then
        verdict := 'dead';
        return;
    elsif r.owner = p_worker and r.execution = p_execution then
        verdict := 'taken';
        fence := r.fence;
        return;
    end if;
    again := r.legs_started = p_leg;
    update perdure.runs set
        status = case when status = 'queued' then 'running' else status end, parked = false,
        owner = p_worker, execution = p_execution, fence = r.fence + 1, legs_started = p_leg,
        attempt = case when again then r.attempt + 1 else 1 end,
        started_at = coalesce(started_at, now()), active_since = coalesce(active_since, now())
    where id = p_run;
    if again then
        select count(*) into replayed from dbos.operation_outputs where workflow_uuid = p_run || ':' || p_leg;
        if r.owner is distinct from p_worker then
            perform perdure.tell(p_run, array['run.taken_over'], array[json_build_object(
                'leg', p_leg, 'attempt', r.attempt + 1, 'worker', p_worker, 'from_worker', r.owner)]);
        end if;
    end if;
    perform perdure.tell(p_run, array[case when r.started_at is null then 'run.started' else 'run.resumed' end],
        array[json_build_object('leg', p_leg, 'worker', p_worker, 'replayed_steps', replayed)]);
    verdict := 'taken';
    fence := r.fence + 1;
end $$;

-- Ends the leg because everything left to do is being waited for. 'again' when that is not so (any more).
create or replace function perdure.park_run(p_run text, p_fence bigint, p_leg integer) returns text language plpgsql as $$
declare
    r perdure.runs;
    open_waits json;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.leg > p_leg then
        return 'over';
    elsif r.fence <> p_fence then
        return 'fenced';
    end if;
    if r.status = 'cancelling' then
        if not perdure.has_live_child(p_run) and not perdure.has_held_compensation(p_run) then
            return 'again';
        end if;
    elsif exists (select from perdure.calls c where c.run = p_run and c.turn = r.turns
               and c.state in ('proposed', 'ready', 'started')
               and not exists (select from perdure.waits w where w.call = c.id and w.state = 'open')) then
        return 'again';
    end if;
    select json_agg(json_build_object('id', id, 'kind', kind, 'call', call) order by created_at, id)
        into open_waits from perdure.waits where run = p_run and state = 'open';
    if open_waits is null then
        return 'again';
    end if;
    update perdure.runs set parked = true, leg = p_leg + 1, owner = null, fence = r.fence + 1,
        status = case when status = 'cancelling' then status else 'waiting' end,
        active_seconds = perdure.active_seconds(r), active_since = null, breaches = 0
    where id = p_run;
    if r.status <> 'cancelling' then
        perform perdure.tell(p_run, array['run.waiting'],
            array[json_build_object('leg', p_leg, 'waits', open_waits)]);
    end if;
    return 'parked';
end $$;

-- Ends the leg at a turn's border; the caller enqueues the next one in the same transaction.
create or replace function perdure.hand_off_run(p_run text, p_fence bigint, p_leg integer, p_why text)
returns text language plpgsql as $$
declare
    r perdure.runs;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.leg > p_leg then
        return 'over';
    elsif r.fence <> p_fence then
        return 'fenced';
    end if;
    update perdure.runs set leg = p_leg + 1, fence = r.fence + 1, owner = null, breaches = 0,
        status = case when status = 'running' then 'queued' else status end,
        active_seconds = perdure.active_seconds(r), active_since = null
    where id = p_run;
    perform perdure.tell(p_run, array['run.handed_off'], array[json_build_object('leg', p_leg, 'why', p_why)]);
    return 'handed_off';
end $$;

-- Wakes a parked run. Answers the leg to enqueue in the same transaction, or null if it is not parked.
create or replace function perdure.wake_run(p_run text) returns integer language sql volatile as $$
    update perdure.runs set parked = false, status = case when status = 'waiting' then 'queued' else status end
    where id = p_run and parked returning leg
$$;
