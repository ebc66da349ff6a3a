-- Each transition is one function, so one round trip and one commit.
--
-- A transition locks the run row first and checks in later statements: a single statement would keep
-- its first snapshot and lose wake-ups. Lock order: session and target, run, waits, calls.
-- `fence` numbers the executions of a run's legs; a write under an older fence is answered 'fenced'.
-- A statement whose answer got lost is sent again, so each transition knows its own earlier commit.

create function perdure.stamp() returns text language sql stable as $$
    select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create function perdure.new_id(p_prefix text) returns text language sql volatile as $$
    select p_prefix || '_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 26)
$$;

-- Appends events to a run whose row the caller has locked.
create function perdure.tell(p_run text, p_types text[], p_data json[]) returns void language plpgsql as $$
declare
    last bigint;
begin
    update perdure.runs set seq = seq + cardinality(p_types) where id = p_run returning seq into last;
    insert into perdure.events (run, seq, type, data)
    select p_run, last - cardinality(p_types) + n, type, data
    from unnest(p_types, p_data) with ordinality as told (type, data, n);
end $$;

-- Attempts of a turn or a call: {attempt, worker, fence, started_at, ended_at, outcome}.
create function perdure.open_attempt(p_history jsonb, p_attempt integer, p_worker text, p_fence bigint)
returns jsonb language sql stable as $$
    select p_history || jsonb_build_object(
        'attempt', p_attempt, 'worker', p_worker, 'fence', p_fence,
        'started_at', perdure.stamp(), 'ended_at', null, 'outcome', null)
$$;

create function perdure.close_attempt(p_history jsonb, p_outcome text) returns jsonb language sql stable as $$
    select case when jsonb_array_length(p_history) = 0 or p_history #>> '{-1,ended_at}' is not null
        then p_history
        else (p_history - -1) || ((p_history -> -1)
            || jsonb_build_object('ended_at', perdure.stamp(), 'outcome', p_outcome))
    end
$$;

create function perdure.active_seconds(r perdure.runs) returns double precision language sql stable as $$
    select r.active_seconds + coalesce(extract(epoch from clock_timestamp() - r.active_since), 0)
$$;

-- The limit that forbids the run another turn, or null.
create function perdure.limit_reached(r perdure.runs) returns text language sql stable as $$
    select case
        when r.turns >= (r.limits ->> 'turns')::integer then 'limit_turns'
        when r.input_tokens + r.output_tokens >= (r.limits ->> 'tokens')::bigint then 'limit_tokens'
        when r.cost_usd >= (r.limits ->> 'cost_usd')::numeric then 'limit_cost'
        when perdure.active_seconds(r) >= (r.limits ->> 'seconds')::double precision then 'limit_seconds'
        when (r.limits ->> 'calls') is not null and (r.limits ->> 'calls')::bigint
            <= (select count(*) from perdure.calls where run = r.id) then 'limit_calls'
        when r.deadline <= clock_timestamp() then 'deadline'
    end
$$;


-- Legs -------------------------------------------------------------------------------------------

-- Begins an execution of a leg. Answers 'taken' with the new fence; 'moved' when the run is past this
-- leg; 'dead' when this worker has been given up.
create function perdure.take_run(p_run text, p_leg integer, p_worker text, out verdict text, out fence bigint)
language plpgsql as $$
declare
    r perdure.runs;
    again boolean;
    replayed bigint := 0;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.id is null or r.leg <> p_leg or r.held or r.finished_at is not null or r.status = 'waiting' then
        verdict := 'moved';
        return;
    end if;
    if not exists (select from perdure.workers where id = p_worker and dead_at is null) then
        verdict := 'dead';
        return;
    end if;
    again := r.legs_started = p_leg;
    update perdure.runs set
        status = case when status = 'queued' then 'running' else status end,
        owner = p_worker, fence = r.fence + 1, legs_started = p_leg,
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
    perform perdure.tell(p_run, array[case when p_leg = 1 and not again then 'run.started' else 'run.resumed' end],
        array[json_build_object('leg', p_leg, 'worker', p_worker, 'replayed_steps', replayed)]);
    verdict := 'taken';
    fence := r.fence + 1;
end $$;

-- Ends the leg because everything left to do is being waited for. 'again' when that is not so (any more).
create function perdure.park_run(p_run text, p_fence bigint, p_leg integer) returns text language plpgsql as $$
declare
    r perdure.runs;
    open_waits json;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.leg > p_leg then
        return 'over';
    elsif r.fence <> p_fence then
        return 'fenced';
    elsif r.status = 'cancelling' then
        return 'again';
    end if;
    if exists (select from perdure.calls c where c.run = p_run and c.turn = r.turns
               and c.state in ('proposed', 'ready', 'started')
               and not exists (select from perdure.waits w where w.call = c.id and w.state = 'open')) then
        return 'again';
    end if;
    select json_agg(json_build_object('id', id, 'kind', kind, 'call', call) order by created_at, id)
        into open_waits from perdure.waits where run = p_run and state = 'open';
    if open_waits is null then
        return 'again';
    end if;
    update perdure.runs set status = 'waiting', leg = p_leg + 1, owner = null, fence = r.fence + 1,
        active_seconds = perdure.active_seconds(r), active_since = null, breaches = 0
    where id = p_run;
    perform perdure.tell(p_run, array['run.waiting'], array[json_build_object('leg', p_leg, 'waits', open_waits)]);
    return 'parked';
end $$;

-- Ends the leg at a turn's border; the caller enqueues the next one in the same transaction.
create function perdure.hand_off_run(p_run text, p_fence bigint, p_leg integer, p_why text)
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

-- Ends the run. Without a fence it is a request that ends it, which may not be while a call could be acting.
-- The caller holds the session's and the target's row.
create function perdure.end_run(
    p_run text, p_fence bigint, p_status text, p_reason text, p_output json, p_error json
) returns text language plpgsql as $$
declare
    r perdure.runs;
    types text[] := '{}';
    data json[] := '{}';
    item record;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.finished_at is not null then
        return 'over';
    elsif r.fence <> p_fence then
        return 'fenced';
    elsif r.status = 'cancelling' and p_status not in ('cancelled', 'dead_letter') then
        return 'cancel';
    elsif p_status = 'succeeded' and exists (
            select from perdure.messages where run = p_run and state = 'queued') then
        return 'messages';
    elsif exists (select from perdure.calls where run = p_run and state = 'started') then
        return 'acting';
    end if;
    for item in update perdure.waits set state = 'cancelled', resolved_at = now()
            where run = p_run and state = 'open' returning id, kind, call loop
        types := types || 'wait.cancelled'::text;
        data := data || json_build_object('wait', item.id, 'kind', item.kind, 'call', item.call);
    end loop;
    -- An idempotent attempt that raised may have had its effect first; no further one will bring it about.
    for item in update perdure.calls set state = 'outcome_unknown', is_error = true, finished_at = now(),
            result = json_build_object('error', 'outcome_unknown', 'detail', history #>> '{-1,outcome}')
            where run = p_run and state = 'ready' and replay = 'idempotent' and exists (
                select from jsonb_array_elements(history) attempt
                where attempt ->> 'outcome' in ('raised', 'timed_out', 'still_running'))
            returning id, tool loop
        types := types || 'call.outcome_unknown'::text;
        data := data || json_build_object('call', item.id, 'tool', item.tool);
    end loop;
    for item in update perdure.calls set state = 'cancelled', finished_at = now()
            where run = p_run and state in ('proposed', 'waiting', 'ready') returning id, tool loop
        types := types || 'call.cancelled'::text;
        data := data || json_build_object('call', item.id, 'tool', item.tool);
    end loop;
    for item in update perdure.messages set state = 'undelivered', turn = null
            where run = p_run and state = 'queued' returning id loop
        types := types || 'message.undelivered'::text;
        data := data || json_build_object('message', item.id);
    end loop;
    if p_reason like 'limit%' or p_reason = 'deadline' then
        types := types || 'limit.reached'::text;
        data := data || json_build_object('reason', p_reason);
    end if;
    update perdure.runs set status = p_status, reason = p_reason, output = p_output, error = p_error,
        finished_at = now(), leg = r.leg + 1, fence = r.fence + 1, owner = null, held = false,
        active_seconds = perdure.active_seconds(r), active_since = null
    where id = p_run;
    perform perdure.tell(p_run, types || ('run.' || p_status), data || json_build_object(
        'reason', p_reason, 'error', p_error, 'worker', r.owner));
    return 'ended';
end $$;

-- Lets the runs go that were held behind one that has ended. The caller holds the session's and target's row.
create function perdure.release_held(p_session text, p_target text)
returns table (run text, leg integer, priority integer) language sql volatile as $$
    update perdure.runs x set held = false
    where x.held and x.finished_at is null and (x.session = p_session or x.target = p_target)
      and not exists (
        select from perdure.runs y
        where y.finished_at is null and y.place < x.place and (y.session = x.session or y.target = x.target))
    returning x.id, x.leg, x.priority
$$;

-- Wakes a parked run. Answers the leg to enqueue in the same transaction, or null if it is not parked.
create function perdure.wake_run(p_run text) returns integer language sql volatile as $$
    update perdure.runs set status = 'queued' where id = p_run and status = 'waiting' returning leg
$$;


-- Turns ------------------------------------------------------------------------------------------

-- Before a model call: 'call', or why not: 'answered', 'cancel', 'fenced', or the limit that is reached.
create function perdure.begin_turn(
    p_run text, p_fence bigint, p_turn integer, p_worker text, p_model text, p_parameters jsonb,
    p_prompt_hash text, p_tools_hash text, p_take_messages boolean
) returns text language plpgsql as $$
declare
    r perdure.runs;
    t perdure.turns;
    reached text;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    select * into t from perdure.turns where run = p_run and number = p_turn;
    if r.fence <> p_fence then
        return 'fenced';
    elsif t.finished_at is not null then
        return 'answered';
    elsif r.status = 'cancelling' then
        return 'cancel';
    end if;
    reached := perdure.limit_reached(r);
    if reached is not null then
        return reached;
    end if;
    if t.run is null then
        insert into perdure.turns (run, number, model, parameters, prompt_hash, tools_hash, worker, history)
        values (p_run, p_turn, p_model, p_parameters, p_prompt_hash, p_tools_hash, p_worker,
            perdure.open_attempt('[]', 1, p_worker, p_fence));
        update perdure.calls set told_unknown = true
        where run = p_run and turn = p_turn - 1 and state = 'outcome_unknown';
    elsif t.history #>> '{-1,ended_at}' is not null or (t.history #>> '{-1,fence}')::bigint <> p_fence then
        if t.history #>> '{-1,ended_at}' is null then
            update perdure.runs set model_calls = model_calls + 1, repaid_model_calls = repaid_model_calls + 1
            where id = p_run;
        end if;
        update perdure.turns set attempts = t.attempts + 1, worker = p_worker, model = p_model,
            parameters = p_parameters, prompt_hash = p_prompt_hash, tools_hash = p_tools_hash,
            history = perdure.open_attempt(
                perdure.close_attempt(t.history, 'interrupted'), t.attempts + 1, p_worker, p_fence)
        where run = p_run and number = p_turn;
    end if;
    -- From here on a message belongs to this turn: it reaches the model with it or not at all.
    if p_take_messages then
        update perdure.messages set turn = p_turn where run = p_run and state = 'queued' and turn is null;
    end if;
    return 'call';
end $$;

-- The calls of a turn, with what the model is told of each.
create function perdure.told_calls(t perdure.turns) returns json language sql stable as $$
    select coalesce(json_agg(json_build_object('provider_id', c.provider_id, 'state', c.state,
        'result', c.result, 'told_unknown', c.told_unknown) order by c.index), '[]')
    from perdure.calls c where c.run = t.run and c.turn = t.number
$$;

-- Stores the model's answer with the calls it asks for.
create function perdure.finish_turn(
    p_run text, p_fence bigint, p_turn integer, p_model text, p_stop_reason text, p_content json, p_usage jsonb,
    p_cost numeric, p_provider_ids text[], p_tools text[], p_inputs text[]
) returns text language plpgsql as $$
declare
    r perdure.runs;
    t perdure.turns;
    types text[] := array['model.completed'];
    data json[];
    item record;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    end if;
    select * into t from perdure.turns where run = p_run and number = p_turn;
    if t.finished_at is not null then
        return 'ok';
    end if;
    update perdure.turns set model = p_model, stop_reason = p_stop_reason, content = p_content, usage = p_usage,
        finished_at = now(), history = perdure.close_attempt(history, 'answered')
    where run = p_run and number = p_turn;
    update perdure.runs set turns = p_turn, model_failures = 0, breaches = 0, model_calls = model_calls + 1,
        input_tokens = input_tokens + (p_usage ->> 'input_tokens')::bigint,
        output_tokens = output_tokens + (p_usage ->> 'output_tokens')::bigint,
        cache_read_tokens = cache_read_tokens + (p_usage ->> 'cache_read_tokens')::bigint,
        cache_write_tokens = cache_write_tokens + (p_usage ->> 'cache_write_tokens')::bigint,
        cost_usd = cost_usd + p_cost
    where id = p_run;
    data := array[json_build_object('turn', p_turn, 'model', p_model, 'stop_reason', p_stop_reason,
        'usage', p_usage, 'attempt', t.attempts, 'worker', t.worker)];
    for item in update perdure.messages set state = 'delivered'
            where run = p_run and state = 'queued' and turn = p_turn returning id loop
        types := types || 'message.delivered'::text;
        data := data || json_build_object('message', item.id, 'turn', p_turn);
    end loop;
    for item in insert into perdure.calls (id, run, turn, index, root, session, provider_id, tool, proposed)
            select 'call_' || substr(p_run, 5) || '_' || p_turn || '_' || n - 1, p_run, p_turn, n - 1,
                r.root, r.session, provider_id, tool, input::json
            from unnest(p_provider_ids, p_tools, p_inputs) with ordinality as asked (provider_id, tool, input, n)
            returning id, tool, index loop
        types := types || 'call.proposed'::text;
        data := data || json_build_object('call', item.id, 'tool', item.tool, 'turn', p_turn, 'index', item.index);
    end loop;
    perform perdure.tell(p_run, types, data);
    return 'ok';
end $$;

-- Records that a model call failed; with seconds, opens the timer that the next attempt waits for.
create function perdure.fail_turn(
    p_run text, p_fence bigint, p_turn integer, p_outcome text, p_detail text, p_maybe_paid boolean,
    p_retry_seconds double precision
) returns text language plpgsql as $$
declare
    r perdure.runs;
    t perdure.turns;
    due timestamptz := clock_timestamp() + make_interval(secs => p_retry_seconds);
    wait text := perdure.new_id('wait');
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    end if;
    select * into t from perdure.turns where run = p_run and number = p_turn;
    if t.history #>> '{-1,ended_at}' is not null then
        return 'ok';
    end if;
    update perdure.turns set history = perdure.close_attempt(history, p_outcome)
    where run = p_run and number = p_turn;
    update perdure.runs set model_failures = model_failures + 1,
        model_calls = model_calls + p_maybe_paid::integer,
        repaid_model_calls = repaid_model_calls + (p_maybe_paid and p_retry_seconds is not null)::integer
    where id = p_run;
    if p_retry_seconds is null then
        perform perdure.tell(p_run, array['model.failed'], array[json_build_object(
            'turn', p_turn, 'attempt', t.attempts, 'error', p_outcome, 'detail', p_detail)]);
        return 'ok';
    end if;
    insert into perdure.waits (id, run, kind, question, deadline)
    values (wait, p_run, 'timer', 'when to ask the model again', due);
    perform perdure.tell(p_run, array['model.retrying', 'wait.opened'], array[
        json_build_object('turn', p_turn, 'attempt', t.attempts, 'error', p_outcome, 'detail', p_detail, 'due', due),
        json_build_object('wait', wait, 'kind', 'timer', 'call', null, 'deadline', due)]);
    return 'ok';
end $$;
