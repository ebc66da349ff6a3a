-- Going on with a run that has ended, and branching off from one.

-- Reopens a run that was stopped by a limit, by its model or by us. Verdicts: reopened, active (it has not
-- ended), taken (its parent has its result), unfit, busy; or the limit that still stops it. The caller holds the
-- row of the session, of the target and of the parent, and enqueues `leg` in the same transaction.
create or replace function perdure.reopen_run(p_run text, p_limits jsonb, p_by text, out verdict text, out leg integer)
language plpgsql as $$
declare
    r perdure.runs;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    verdict := case
        when r.finished_at is null then 'active'
        when exists (select from perdure.waits w where w.call = r.delegated_by and w.kind = 'child'
            and w.state = 'resolved') or exists (select from perdure.runs parent where parent.id = r.parent
            and parent.finished_at is not null and parent.status <> 'dead_letter') then 'taken'
        when r.status <> 'dead_letter'
            and not (r.status = 'failed' and (r.reason like 'limit%' or r.reason = 'model_error')) then 'unfit'
        when exists (select from perdure.runs x where x.finished_at is null
            and (x.session = r.session or x.target = r.target)) then 'busy'
        when perdure.limit_reached(p_run, p_limits) is not null then perdure.limit_reached(p_run, p_limits)
        when perdure.asks_too_much(p_run, p_limits) then 'limit_calls'
    end;
    if verdict is not null then
        return;
    end if;
    update perdure.runs set limits = p_limits, finished_at = null, error = null, reason = null, output = null,
        status = case when compensate then 'cancelling' else 'queued' end, breaches = 0, losses = 0, model_failures = 0
    where id = p_run;
    perform perdure.await_children(p_run);
    -- What the end cut short goes on; what had not begun is asked anew, unless it was allowed already.
    update perdure.calls c set finished_at = null,
        state = case when attempts > 0 or compensates is not null or exists (select from perdure.waits w
            where w.call = c.id and w.kind = 'approval' and w.state = 'resolved') then 'ready' else 'proposed' end
    where run = p_run and turn >= r.turns and state = 'cancelled';
    update perdure.messages set state = 'queued' where run = p_run and state = 'undelivered';
    perform perdure.tell(p_run, array['run.resumed'], array[json_build_object(
        'reopened', true, 'replayed_steps', 0, 'by', p_by, 'limits', p_limits)]);
    leg := r.leg;
    verdict := 'reopened';
end $$;

-- Asks again for what a dead letter stopped waiting for: children that live on.
create or replace function perdure.await_children(p_run text) returns void language plpgsql as $$
declare
    child perdure.runs;
    wait text;
begin
    for child in select * from perdure.runs where parent = p_run and finished_at is null order by place loop
        wait := perdure.new_id('wait');
        update perdure.calls set state = 'waiting', finished_at = null where id = child.delegated_by;
        insert into perdure.waits (id, run, call, kind, question)
        values (wait, p_run, child.delegated_by, 'child', format('what run %s comes to', child.id));
        perform perdure.tell(p_run, array['wait.opened'], array[json_build_object(
            'wait', wait, 'kind', 'child', 'call', child.delegated_by, 'tool', 'delegate', 'deadline', null)]);
    end loop;
end $$;

-- Makes a run that shares the first turns of another with all that came of them. Verdicts: forked, missing,
-- no_turn, unfinished (a call of those turns has not ended). The caller has made the session, and enqueues leg 1.
create or replace function perdure.fork_run(
    p_source text, p_turn integer, p_run text, p_session text, p_trace_id text, p_by text
) returns text language plpgsql as $$
declare
    r perdure.runs;
begin
    select * into r from perdure.runs where id = p_source for no key update;
    if r.id is null then
        return 'missing';
    elsif not exists (select from perdure.turns where run = p_source and number = p_turn and finished_at is not null) then
        return 'no_turn';
    elsif exists (select from perdure.calls where run = p_source and turn <= p_turn
                  and (finished_at is null and compensates is null)) then
        return 'unfinished';
    end if;
    insert into perdure.runs (id, root, agent, agent_version, session, input, metadata, limits, priority, queue_key,
        trace_id, forked_from, turns)
    values (p_run, p_run, r.agent, r.agent_version, p_session, r.input, r.metadata, r.limits, r.priority, r.queue_key,
        p_trace_id, p_source, p_turn);
    insert into perdure.turns (run, number, model, parameters, prompt_hash, tools_hash, stop_reason, content, usage,
        attempts, history, worker, provider, started_at, finished_at)
    select p_run, number, model, parameters, prompt_hash, tools_hash, stop_reason, content, usage,
        attempts, history, worker, provider, started_at, finished_at
    from perdure.turns where run = p_source and number <= p_turn;
    -- Results of the last shared turn have not been told yet.
    insert into perdure.calls (id, run, turn, index, root, session, provider_id, tool, proposed, arguments,
        arguments_hash, replay, approval, state, attempts, history, result, is_error, told_unknown, skipped,
        settlement, fence, worker, created_at, started_at, finished_at, origin)
    select 'call_' || substr(p_run, 5) || '_' || turn || '_' || index, p_run, turn, index, p_run, p_session,
        provider_id, tool, proposed, arguments, arguments_hash, replay, approval, state, attempts, history, result,
        is_error, told_unknown and turn < p_turn, skipped, settlement, fence, worker, created_at, started_at,
        finished_at,
        coalesce(origin, p_source)
    from perdure.calls where run = p_source and turn <= p_turn and compensates is null;
    insert into perdure.messages (id, run, text, content, state, turn, created_at)
    select perdure.new_id('msg'), p_run, text, content, state, turn, created_at
    from perdure.messages where run = p_source and turn <= p_turn and state = 'delivered' order by place;
    perform perdure.tell(p_run, array['run.queued'], array[json_build_object('agent', r.agent,
        'agent_version', r.agent_version, 'held', false, 'forked_from', p_source, 'turn', p_turn, 'by', p_by)]);
    return 'forked';
end $$;
