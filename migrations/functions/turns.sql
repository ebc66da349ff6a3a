-- The model's answers: an attempt is recorded before the call, the answer whole after it.

-- A run and all below it.
create or replace function perdure.tree(p_run text) returns setof perdure.runs language sql stable as $$
    with recursive tree as (
        select r.* from perdure.runs r where r.id = p_run
        union all
        select child.* from tree join perdure.runs child on child.parent = tree.id
    )
    select * from tree
$$;

-- What they have used.
create or replace function perdure.used(
    p_run text, out turns bigint, out tokens bigint, out cost_usd numeric, out seconds double precision
) language sql stable as $$
    select sum(t.turns), sum(t.input_tokens + t.output_tokens), sum(t.cost_usd), sum(perdure.active_seconds(t))
    from perdure.tree(p_run) t
$$;

create or replace function perdure.calls_made(p_run text) returns bigint language sql stable as $$
    select sum((select count(*) from perdure.calls c where c.run = t.id and c.compensates is null))::bigint
    from perdure.tree(p_run) t
$$;

-- The limit that forbids the run another turn, or null. A run draws on the budgets of all above it.
-- `p_limits`: what the run's own are about to be.
create or replace function perdure.limit_reached(p_run text, p_limits jsonb default null) returns text
language plpgsql stable as $$
declare
    r perdure.runs;
    reached text;
    above text := p_run;
begin
    while above is not null loop
        select * into r from perdure.runs where id = above;
        if above = p_run then
            r.limits := coalesce(p_limits, r.limits);
        end if;
        select case
            when used.turns >= (r.limits ->> 'turns')::integer then 'limit_turns'
            when used.tokens >= (r.limits ->> 'tokens')::bigint then 'limit_tokens'
            when used.cost_usd >= (r.limits ->> 'cost_usd')::numeric then 'limit_cost'
            when used.seconds >= (r.limits ->> 'seconds')::double precision then 'limit_seconds'
            when r.deadline <= clock_timestamp() then 'deadline'
        end into reached from perdure.used(above) used;
        exit when reached is not null;
        above := r.parent;
    end loop;
    return reached;
end $$;

-- Whether the calls asked for so far are more than the run, or one above it, may make.
create or replace function perdure.asks_too_much(p_run text, p_limits jsonb default null) returns boolean
language sql stable as $$
    with recursive above as (
        select id, parent, coalesce(p_limits, limits) as limits from perdure.runs where id = p_run
        union all
        select r.id, r.parent, r.limits from perdure.runs r join above on r.id = above.parent
    )
    select coalesce(bool_or(perdure.calls_made(id) > (limits ->> 'calls')::integer), false)
    from above where limits ->> 'calls' is not null
$$;

-- Before a model call: 'call', or why not: 'answered', 'cancel', 'fenced', the limit that is reached, or 'wait': the
-- provider keeps the run waiting, and a timer is open. `p_cap`: how many calls to it may be under way.
create or replace function perdure.begin_turn(
    p_run text, p_fence bigint, p_turn integer, p_worker text, p_model text, p_parameters jsonb,
    p_prompt_hash text, p_tools_hash text, p_take_messages boolean, p_provider text default null,
    p_cap integer default null
) returns text language plpgsql as $$
declare
    r perdure.runs;
    t perdure.turns;
    reached text;
    begun boolean;
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
    reached := perdure.limit_reached(p_run);
    if reached is not null then
        return reached;
    end if;
    begun := t.history #>> '{-1,ended_at}' is null and (t.history #>> '{-1,fence}')::bigint = p_fence;
    if p_provider is not null and begun is not true and perdure.stand_in_line(p_run, p_provider, p_cap) then
        return 'wait';
    end if;
    if t.run is null then
        insert into perdure.turns (run, number, model, parameters, prompt_hash, tools_hash, worker, history, provider)
        values (p_run, p_turn, p_model, p_parameters, p_prompt_hash, p_tools_hash, p_worker,
            perdure.open_attempt('[]', 1, p_worker, p_fence), p_provider);
        -- What the model has been told stays in the conversation, whatever is found out later.
        update perdure.calls set told_unknown = true
        where session = r.session and state = 'outcome_unknown' and not told_unknown;
    elsif not begun then
        if t.history #>> '{-1,ended_at}' is null then
            update perdure.runs set model_calls = model_calls + 1, repaid_model_calls = repaid_model_calls + 1
            where id = p_run;
        end if;
        update perdure.turns set attempts = t.attempts + 1, worker = p_worker, model = p_model,
            parameters = p_parameters, prompt_hash = p_prompt_hash, tools_hash = p_tools_hash, provider = p_provider,
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

-- Whether the call, or the one that it is a copy of, was undone.
create or replace function perdure.is_undone(c perdure.calls) returns boolean language sql stable as $$
    select exists (select from perdure.calls undo where undo.state = 'succeeded' and undo.compensates =
        coalesce('call_' || substr(c.origin, 5) || '_' || c.turn || '_' || c.index, c.id))
$$;

-- The calls of a turn, with what the model is told of each.
create or replace function perdure.told_calls(t perdure.turns) returns json language sql stable as $$
    select coalesce(json_agg(json_build_object('provider_id', c.provider_id, 'state', c.state,
        'result', c.result, 'told_unknown', c.told_unknown,
        'undone', (r.compensate or c.origin is not null) and perdure.is_undone(c)) order by c.index), '[]')
    from perdure.calls c join perdure.runs r on r.id = c.run where c.run = t.run and c.turn = t.number
$$;

-- Stores the model's answer with the calls it asks for.
create or replace function perdure.finish_turn(
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
    perform perdure.ease(t);
    update perdure.runs set turns = p_turn, model_failures = 0, breaches = 0, losses = 0, model_calls = model_calls + 1,
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

-- Records that a model call failed; with seconds, opens the timer that the next attempt waits for. `p_told`: the
-- seconds in which the provider wants to hear from nobody; null where it did not complain of too many calls.
create or replace function perdure.fail_turn(
    p_run text, p_fence bigint, p_turn integer, p_outcome text, p_detail text, p_maybe_paid boolean,
    p_retry_seconds double precision, p_told double precision default null
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
    update perdure.runs set model_failures = model_failures + (p_outcome <> 'cancelled')::integer,
        model_calls = model_calls + p_maybe_paid::integer,
        repaid_model_calls = repaid_model_calls + (p_maybe_paid and p_retry_seconds is not null)::integer
    where id = p_run;
    if p_told is not null and t.provider is not null then
        perform perdure.throttle(t, p_told);
    end if;
    if p_outcome = 'cancelled' then
        return 'ok';
    elsif p_retry_seconds is null then
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
