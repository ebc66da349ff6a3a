-- Facts for clients, and the small things that every transition needs.

create or replace function perdure.stamp() returns text language sql stable as $$
    select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create or replace function perdure.stamp_before(p_seconds double precision) returns text language sql stable as $$
    select to_char((clock_timestamp() - make_interval(secs => p_seconds)) at time zone 'utc',
        'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create or replace function perdure.new_id(p_prefix text) returns text language sql volatile as $$
    select p_prefix || '_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 26)
$$;

-- Appends events to a run whose row the caller has locked.
create or replace function perdure.tell(p_run text, p_types text[], p_data json[]) returns void language plpgsql as $$
declare
    last bigint;
    is_called_back boolean;
begin
    update perdure.runs set seq = seq + cardinality(p_types) where id = p_run
        returning seq, callback is not null into last, is_called_back;
    insert into perdure.events (run, seq, type, data)
    select p_run, last - cardinality(p_types) + n, type, data
    from unnest(p_types, p_data) with ordinality as told (type, data, n);
    if is_called_back then
        perform perdure.announce(p_run, last - cardinality(p_types));
    end if;
end $$;

-- Writes down which of a run's events after `p_after` its callback is to hear of. Of a child only what it needs
-- from a person or client; of the clock and of children nothing; of going on where it has heard of a stop.
create or replace function perdure.announce(p_run text, p_after bigint) returns void language sql volatile as $$
    insert into perdure.deliveries (id, run, seq, type)
    select 'hook_' || substr(e.run, 5) || '_' || e.seq, e.run, e.seq, e.type
    from perdure.events e join perdure.runs r on r.id = e.run
    where e.run = p_run and e.seq > p_after and case e.type
        when 'wait.reminder' then true
        when 'run.waiting' then exists (
            select from json_array_elements(e.data -> 'waits') w where w ->> 'kind' not in ('timer', 'child'))
        when 'run.resumed' then r.parent is null and (
            select d.type not in ('run.queued', 'run.resumed') from perdure.deliveries d
            where d.run = e.run and d.type <> 'wait.reminder' order by d.seq desc limit 1)
        else r.parent is null and e.type in (
            'run.queued', 'run.succeeded', 'run.failed', 'run.cancelled', 'run.dead_letter')
    end
$$;

-- Attempts of a turn or a call: {attempt, worker, fence, started_at, ended_at, outcome}.
create or replace function perdure.open_attempt(p_history jsonb, p_attempt integer, p_worker text, p_fence bigint)
returns jsonb language sql stable as $$
    select p_history || jsonb_build_object(
        'attempt', p_attempt, 'worker', p_worker, 'fence', p_fence,
        'started_at', perdure.stamp(), 'ended_at', null, 'outcome', null)
$$;

-- Writes down what was found out about the last attempt.
create or replace function perdure.correct_attempt(p_history jsonb, p_outcome text) returns jsonb language sql stable as $$
    select (p_history - -1) || ((p_history -> -1) || jsonb_build_object('outcome', p_outcome))
$$;

-- Whether an attempt that ended without an outcome may have had its effect, and nobody has found out since.
create or replace function perdure.may_have_happened(p_replay text, p_history jsonb) returns boolean language sql immutable as $$
    select p_replay in ('idempotent', 'at_most_once') and coalesce(
        max(n) filter (where attempt ->> 'outcome' in (
            'raised', 'timed_out', 'still_running', 'cancelled', 'interrupted'))
        > coalesce(max(n) filter (where attempt ->> 'outcome' = 'did_not_happen'), 0), false)
    from jsonb_array_elements(p_history) with ordinality as attempts (attempt, n)
$$;

create or replace function perdure.close_attempt(p_history jsonb, p_outcome text) returns jsonb language sql stable as $$
    select case when jsonb_array_length(p_history) = 0 or p_history #>> '{-1,ended_at}' is not null
        then p_history
        else (p_history - -1) || ((p_history -> -1)
            || jsonb_build_object('ended_at', perdure.stamp(), 'outcome', p_outcome))
    end
$$;
