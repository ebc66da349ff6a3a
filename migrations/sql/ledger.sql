-- The ledger of tool calls and the waits: intent before, outcome after, and what a person said between.

-- The row's history once this attempt has ended. An attempt that never wrote `started` (its effect and its
-- outcome are one commit, or it has no effect) is opened and closed here.
create function perdure.attempted(
    c perdure.calls, p_attempt integer, p_worker text, p_fence bigint, p_outcome text
) returns jsonb language sql stable as $$
    select perdure.close_attempt(
        case when p_attempt > c.attempts
            then perdure.open_attempt(perdure.close_attempt(c.history, 'interrupted'), p_attempt, p_worker, p_fence)
            else c.history end,
        p_outcome)
$$;

create function perdure.call_facts(c perdure.calls, p_attempt integer, p_worker text) returns json
language sql stable as $$
    select json_build_object('call', c.id, 'tool', c.tool, 'turn', c.turn, 'index', c.index,
        'attempt', p_attempt, 'worker', p_worker)
$$;

-- Commits the intent: after it, and only after it, the tool may be called. 'ok', 'cancel', 'moved' or 'fenced'.
create function perdure.start_call(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_worker text,
    p_arguments json, p_arguments_hash text, p_replay text, p_approval text
) returns text language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    select * into c from perdure.calls where id = p_call for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    elsif c.state = 'started' and c.fence = p_fence and c.attempts = p_attempt then
        return 'ok';
    elsif r.status = 'cancelling' then
        return 'cancel';
    elsif c.state not in ('proposed', 'ready', 'started') or c.attempts <> p_attempt - 1 then
        return 'moved';
    end if;
    update perdure.calls set state = 'started', attempts = p_attempt, fence = p_fence, worker = p_worker,
        arguments = p_arguments, arguments_hash = p_arguments_hash, replay = p_replay, approval = p_approval,
        history = perdure.open_attempt(perdure.close_attempt(c.history, 'interrupted'), p_attempt, p_worker, p_fence),
        started_at = coalesce(started_at, now())
    where id = p_call;
    perform perdure.tell(p_run, array['call.started'], array[perdure.call_facts(c, p_attempt, p_worker)]);
    return 'ok';
end $$;

-- Stores how a call ended. An attempt of 0 means that the tool was never called. 'late': the intent is this
-- attempt's, but it has been given up meanwhile, and what it did is unknown; see `settle_late`.
create function perdure.finish_call(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_worker text,
    p_arguments json, p_arguments_hash text, p_replay text, p_approval text,
    p_state text, p_result json, p_is_error boolean, p_outcome text
) returns text language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
    types text[] := '{}';
    data json[] := '{}';
begin
    select * into r from perdure.runs where id = p_run for no key update;
    select * into c from perdure.calls where id = p_call for no key update;
    if r.fence <> p_fence then
        return case when c.state = 'outcome_unknown' and p_state = 'succeeded'
            and c.attempts = p_attempt and c.fence = p_fence then 'late' else 'fenced' end;
    elsif c.state not in ('proposed', 'waiting', 'ready', 'started') then
        return 'done';
    end if;
    if p_attempt > c.attempts then
        types := array['call.started'];
        data := array[perdure.call_facts(c, p_attempt, p_worker)];
    end if;
    update perdure.calls set state = p_state, result = p_result, is_error = p_is_error,
        arguments = coalesce(p_arguments, arguments), arguments_hash = coalesce(p_arguments_hash, arguments_hash),
        replay = coalesce(p_replay, replay), approval = coalesce(p_approval, approval),
        history = case when p_attempt > 0
            then perdure.attempted(c, p_attempt, p_worker, p_fence, p_outcome) else c.history end,
        attempts = greatest(attempts, p_attempt), worker = coalesce(worker, p_worker),
        fence = coalesce(fence, p_fence),
        started_at = case when p_attempt > 0 then coalesce(started_at, now()) else started_at end,
        finished_at = now()
    where id = p_call;
    update perdure.runs set breaches = 0 where id = p_run and breaches > 0;
    if p_outcome = 'reconciled' then
        types := types || 'call.reconciled'::text;
        data := data || perdure.call_facts(c, p_attempt, p_worker);
    end if;
    perform perdure.tell(p_run, types || ('call.' || p_state), data || perdure.call_facts(c, p_attempt, p_worker));
    return 'ok';
end $$;

-- Opens the wait that a call is held by: an `approval`, the `timer` before its next attempt, or the question
-- what became of it (`outcome`). `p_attempt` 0: it has not run; else that attempt ended with `p_outcome`.
create function perdure.hold_call(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_worker text,
    p_arguments json, p_arguments_hash text, p_replay text, p_approval text,
    p_state text, p_kind text, p_question text, p_evidence json, p_seconds double precision, p_outcome text
) returns text language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
    wait text := perdure.new_id('wait');
    due timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
    types text[] := '{}';
    data json[] := '{}';
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    end if;
    select * into c from perdure.calls where id = p_call for no key update;
    -- Its own earlier commit may have been answered by a person or the clock meanwhile.
    if exists (select from perdure.waits where call = p_call
               and (state = 'open' or (p_kind = 'approval' and kind = 'approval' and state <> 'superseded')))
            or (p_attempt > 0 and p_attempt = c.attempts and c.history #>> '{-1,ended_at}' is not null) then
        return 'ok';
    end if;
    if p_attempt > c.attempts then
        types := array['call.started'];
        data := array[perdure.call_facts(c, p_attempt, p_worker)];
    end if;
    if p_state = 'outcome_unknown' then
        types := types || 'call.outcome_unknown'::text;
        data := data || perdure.call_facts(c, p_attempt, p_worker);
    end if;
    update perdure.calls set state = p_state,
        arguments = p_arguments, arguments_hash = p_arguments_hash, replay = p_replay, approval = p_approval,
        history = case when p_attempt > 0
            then perdure.attempted(c, p_attempt, p_worker, p_fence, p_outcome) else c.history end,
        attempts = greatest(attempts, p_attempt),
        started_at = case when p_attempt > 0 then coalesce(started_at, now()) else started_at end
    where id = p_call;
    insert into perdure.waits (id, run, call, kind, question, arguments, arguments_hash, evidence, deadline)
    values (wait, p_run, p_call, p_kind, p_question, p_arguments, p_arguments_hash, p_evidence, due);
    perform perdure.tell(p_run, types || 'wait.opened'::text, data || json_build_object(
        'wait', wait, 'kind', p_kind, 'call', p_call, 'tool', c.tool, 'deadline', due));
    return 'ok';
end $$;

-- The world has changed since the approval: what was shown no longer holds, so it is asked anew.
create function perdure.supersede_approval(p_run text, p_fence bigint, p_call text) returns text language plpgsql as $$
declare
    r perdure.runs;
    w perdure.waits;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    end if;
    update perdure.waits set state = 'superseded' where id = (
        select id from perdure.waits where call = p_call and kind = 'approval' and state = 'resolved'
        order by resolved_at desc limit 1) returning * into w;
    if w.id is not null then
        perform perdure.tell(p_run, array['wait.superseded'], array[json_build_object(
            'wait', w.id, 'kind', w.kind, 'call', p_call)]);
    end if;
    return 'ok';
end $$;


-- Unknown outcomes and resolutions ---------------------------------------------------------------

-- Settles an `outcome_unknown` call whose run row the caller has locked, and closes the wait that asked.
create function perdure.settle_unknown(
    c perdure.calls, p_state text, p_result json, p_settlement json, p_by text
) returns void language plpgsql as $$
declare
    asked text;
begin
    update perdure.calls set state = p_state,
        result = case when p_state = 'ready' then null when p_state = 'outcome_unknown' then result else p_result end,
        is_error = case when p_state = 'ready' then null else p_state <> 'succeeded' end,
        skipped = p_state = 'outcome_unknown',
        settlement = case when p_state <> 'ready' then p_settlement end,
        history = perdure.close_attempt(history, 'interrupted'),
        finished_at = case when p_state = 'ready' then null else coalesce(finished_at, now()) end
    where id = c.id;
    update perdure.waits set state = 'resolved', resolution = p_settlement, resolved_by = p_by,
        resolved_via = 'reconcile', resolved_at = now()
    where call = c.id and state = 'open' returning id into asked;
    perform perdure.tell(c.run, array['call.reconciled'], array[json_build_object(
        'call', c.id, 'tool', c.tool, 'turn', c.turn, 'index', c.index, 'wait', asked, 'state', p_state, 'by', p_by)]);
end $$;

-- An outcome that came late, from the very attempt that it is unknown of. `leg` is to be enqueued in the same
-- transaction: the run may be parked on the question that this answers.
create function perdure.settle_late(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_result json, out verdict text, out leg integer
) language plpgsql as $$
declare
    c perdure.calls;
begin
    perform from perdure.runs where id = p_run for no key update;
    select * into c from perdure.calls where id = p_call for no key update;
    verdict := 'fenced';
    if c.state = 'outcome_unknown' and c.attempts = p_attempt and c.fence = p_fence then
        perform perdure.settle_unknown(c, 'succeeded', p_result, json_build_object('outcome', 'happened'), 'worker');
        leg := perdure.wake_run(p_run);
        verdict := 'settled';
    end if;
end $$;

-- Two resolutions are the same if they decide the same; reasons may differ. Both are canonical JSON.
create function perdure.says_the_same(p_first json, p_second json) returns boolean language sql immutable as $$
    select case coalesce(p_first ->> 'decision', p_first ->> 'outcome')
        when 'happened' then p_first::text = p_second::text
        else coalesce(p_first ->> 'decision', p_first ->> 'outcome')
            = coalesce(p_second ->> 'decision', p_second ->> 'outcome')
    end
$$;

-- Resolves an approval or outcome wait. First resolution wins.
-- Verdicts: resolved, same, other, closed, stale, missing. `leg` is to be enqueued in the same transaction.
create function perdure.resolve_wait(
    p_wait text, p_resolution json, p_arguments_hash text, p_by text, p_on_behalf_of text, p_via text,
    out verdict text, out run text, out leg integer
) language plpgsql as $$
declare
    w perdure.waits;
    c perdure.calls;
    answer text := coalesce(p_resolution ->> 'decision', p_resolution ->> 'outcome');
begin
    select x.run into run from perdure.waits x where x.id = p_wait;
    perform from perdure.runs where id = run for no key update;
    select * into w from perdure.waits where id = p_wait for no key update;
    if w.id is null then
        verdict := 'missing';
        return;
    elsif w.state = 'resolved' then
        verdict := case when perdure.says_the_same(w.resolution, p_resolution) then 'same' else 'other' end;
        return;
    elsif w.state <> 'open' then
        verdict := 'closed';
        return;
    elsif w.deadline <= clock_timestamp() then
        leg := perdure.expire_wait(w);
        verdict := 'closed';
        return;
    elsif p_arguments_hash is not null and p_arguments_hash <> w.arguments_hash then
        verdict := 'stale';
        return;
    end if;
    update perdure.waits set state = 'resolved', resolution = p_resolution, resolved_by = p_by,
        on_behalf_of = p_on_behalf_of, resolved_via = p_via, resolved_at = now()
    where id = p_wait;
    perform perdure.tell(run, array['wait.resolved'], array[json_build_object(
        'wait', w.id, 'kind', w.kind, 'call', w.call, 'answer', answer, 'by', p_by)]);
    select * into c from perdure.calls where id = w.call for no key update;
    case answer
        when 'allow' then
            update perdure.calls set state = 'ready' where id = c.id;
        when 'deny' then
            update perdure.calls set state = 'denied', is_error = true, finished_at = now(), result = json_build_object(
                'error', 'denied', 'detail', p_resolution -> 'reason') where id = c.id;
            perform perdure.tell(run, array['call.denied'], array[perdure.call_facts(c, c.attempts, null)]);
        when 'happened' then
            perform perdure.settle_unknown(c, 'succeeded', p_resolution -> 'result', p_resolution, p_by);
        when 'did_not_happen' then
            perform perdure.settle_unknown(c, 'ready', null, p_resolution, p_by);
        when 'skip' then
            perform perdure.settle_unknown(c, 'outcome_unknown', null, p_resolution, p_by);
    end case;
    verdict := 'resolved';
    leg := perdure.wake_run(run);
end $$;

-- What the clock does to a wait whose run row the caller has locked: a timer is resolved by it, a question expires.
create function perdure.expire_wait(w perdure.waits) returns integer language plpgsql as $$
declare
    types text[];
    data json[];
    c perdure.calls;
begin
    update perdure.waits set resolved_at = now(), resolved_by = 'clock', resolved_via = 'clock',
        state = case when kind = 'timer' then 'resolved' else 'expired' end
    where id = w.id;
    types := array[case when w.kind = 'timer' then 'wait.resolved' else 'wait.expired' end];
    data := array[json_build_object('wait', w.id, 'kind', w.kind, 'call', w.call)];
    if w.kind = 'approval' then
        update perdure.calls set state = 'expired', is_error = true, finished_at = now(), result = json_build_object(
            'error', 'expired') where id = w.call returning * into c;
        types := types || 'call.expired'::text;
        data := data || perdure.call_facts(c, c.attempts, null);
    end if;
    perform perdure.tell(w.run, types, data);
    return perdure.wake_run(w.run);
end $$;

-- Lets the clock act on one due wait. Answers null where another process holds the run or it is no longer due.
create function perdure.expire_due(p_wait text, out run text, out leg integer) language plpgsql as $$
declare
    w perdure.waits;
begin
    perform from perdure.runs r where r.id = (select x.run from perdure.waits x where x.id = p_wait)
        for no key update skip locked;
    if not found then
        return;
    end if;
    select * into w from perdure.waits
    where id = p_wait and state = 'open' and deadline <= clock_timestamp() for no key update;
    if w.id is null then
        return;
    end if;
    run := w.run;
    leg := perdure.expire_wait(w);
end $$;

-- Settles a call of unknown outcome that no open wait holds. Verdicts: settled, same, other, held, missing.
create function perdure.settle_call(
    p_call text, p_settlement json, p_by text, out verdict text, out run text
) language plpgsql as $$
declare
    c perdure.calls;
    answer text := p_settlement ->> 'outcome';
begin
    select x.run into run from perdure.calls x where x.id = p_call;
    perform from perdure.runs where id = run for no key update;
    select * into c from perdure.calls where id = p_call for no key update;
    if c.id is null then
        verdict := 'missing';
    elsif perdure.says_the_same(c.settlement, p_settlement) then
        verdict := 'same';
    elsif c.state <> 'outcome_unknown' then
        verdict := 'other';
    elsif exists (select from perdure.waits where call = p_call and state = 'open') then
        verdict := 'held';
    else
        perform perdure.settle_unknown(c,
            case answer when 'happened' then 'succeeded' when 'skip' then 'outcome_unknown' else 'failed' end,
            case answer when 'happened' then p_settlement -> 'result'
                else json_build_object('error', 'did_not_happen') end,
            p_settlement, p_by);
        verdict := 'settled';
    end if;
end $$;
