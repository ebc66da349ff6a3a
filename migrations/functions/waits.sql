-- What people, hooks and the clock say to a run that waits.

-- Settles an `outcome_unknown` call whose run row the caller has locked, and closes the wait that asked.
create or replace function perdure.settle_unknown(
    c perdure.calls, p_state text, p_result json, p_settlement json, p_by text
) returns void language plpgsql as $$
declare
    asked text;
begin
    update perdure.calls set state = p_state,
        result = case p_state when 'ready' then null
            when 'outcome_unknown' then coalesce(result, json_build_object(
                'error', 'outcome_unknown', 'detail', history #>> '{-1,outcome}'))
            else p_result end,
        is_error = case when p_state = 'ready' then null else p_state <> 'succeeded' end,
        skipped = p_state = 'outcome_unknown',
        settlement = case when p_state <> 'ready' then p_settlement end,
        history = case when p_settlement ->> 'outcome' = 'did_not_happen'
            then perdure.correct_attempt(history, 'did_not_happen') else history end,
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
create or replace function perdure.settle_late(
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
create or replace function perdure.says_the_same(p_first json, p_second json) returns boolean language sql immutable as $$
    select case when coalesce(p_first ->> 'decision', p_first ->> 'outcome', 'happened') = 'happened'
        then p_first::text = p_second::text
        else coalesce(p_first ->> 'decision', p_first ->> 'outcome')
            = coalesce(p_second ->> 'decision', p_second ->> 'outcome')
    end
$$;

-- What a client says that a call came to which runs on its side.
create or replace function perdure.answer_call(c perdure.calls, p_result json, p_is_error boolean) returns void
language plpgsql as $$
declare
    failed boolean := coalesce(p_is_error, false);
    outcome text := case when failed then 'failed' else 'succeeded' end;
begin
    update perdure.calls set state = outcome, is_error = failed, finished_at = now(),
        history = perdure.correct_attempt(history, outcome),
        result = case when failed then json_build_object('error', 'external', 'detail', p_result) else p_result end
    where id = c.id;
    perform perdure.tell(c.run, array['call.' || outcome], array[perdure.call_facts(c, c.attempts, null)]);
end $$;

-- Whether a denial ends the run and undoes what it did, as its agent may say.
create or replace function perdure.compensates_denials(p_run text) returns boolean language sql stable as $$
    select v.definition ->> 'on_denial' = 'compensate'
    from perdure.runs r join perdure.agent_versions v on v.agent = r.agent and v.version = r.agent_version
    where r.id = p_run
$$;

-- Resolves an approval, outcome, input or external wait. First resolution wins.
-- Verdicts: resolved, same, other, closed, stale, missing. `leg` is to be enqueued in the same transaction;
-- where the run is `cancelling` by this, so must its children be.
create or replace function perdure.resolve_wait(
    p_wait text, p_resolution json, p_arguments_hash text, p_by text, p_on_behalf_of text, p_via text,
    out verdict text, out run text, out leg integer, out cancelling boolean
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
    elsif p_arguments_hash is not null and p_arguments_hash <> w.arguments_hash then
        verdict := 'stale';
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
    end if;
    update perdure.waits set state = 'resolved', resolution = p_resolution, resolved_by = p_by,
        on_behalf_of = p_on_behalf_of, resolved_via = p_via, resolved_at = now()
    where id = p_wait;
    perform perdure.tell(run, array['wait.resolved'], array[json_build_object(
        'wait', w.id, 'kind', w.kind, 'call', w.call, 'answer', answer, 'by', p_by)]);
    select * into c from perdure.calls where id = w.call for no key update;
    if w.kind in ('external', 'input') then
        perform perdure.answer_call(c, p_resolution -> case w.kind when 'input' then 'text' else 'result' end,
            (p_resolution ->> 'is_error')::boolean);
        verdict := 'resolved';
        leg := perdure.wake_run(run);
        return;
    end if;
    case answer
        when 'allow' then
            update perdure.calls set state = 'ready' where id = c.id;
        when 'deny' then
            update perdure.calls set state = 'denied', is_error = true, finished_at = now(), result = json_build_object(
                'error', 'denied', 'detail', p_resolution -> 'reason') where id = c.id;
            perform perdure.tell(run, array['call.denied'], array[perdure.call_facts(c, c.attempts, null)]);
            if perdure.compensates_denials(run) then
                perform perdure.ask_cancel(run, true, p_by, 'denied');
                cancelling := true;
            end if;
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
create or replace function perdure.expire_wait(w perdure.waits) returns integer language plpgsql as $$
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
    select * into c from perdure.calls where id = w.call for no key update;
    if w.kind in ('approval', 'external', 'input') then
        update perdure.calls set state = 'expired', is_error = true, finished_at = now(), result = json_build_object(
            'error', 'expired', 'detail', w.kind) where id = c.id;
        types := types || 'call.expired'::text;
        data := data || perdure.call_facts(c, c.attempts, null);
    elsif w.kind = 'timer' and c.state = 'waiting' then
        update perdure.calls set state = 'succeeded', is_error = false, finished_at = now(),
            result = json_build_object('woken_at', perdure.stamp()),
            history = perdure.correct_attempt(history, 'succeeded') where id = c.id;
        types := types || 'call.succeeded'::text;
        data := data || perdure.call_facts(c, c.attempts, null);
    end if;
    perform perdure.tell(w.run, types, data);
    return perdure.wake_run(w.run);
end $$;

-- Lets the clock act on one due wait. Answers null where another process holds the run or it is no longer due.
create or replace function perdure.expire_due(p_wait text, out run text, out leg integer) language plpgsql as $$
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

-- Says once that a question is still open. Answers its run, or null where that is no longer so.
create or replace function perdure.remind(p_wait text) returns text language plpgsql as $$
declare
    w perdure.waits;
begin
    perform from perdure.runs r where r.id = (select x.run from perdure.waits x where x.id = p_wait)
        for no key update skip locked;
    if not found then
        return null;
    end if;
    update perdure.waits set remind_at = null
    where id = p_wait and state = 'open' and remind_at <= clock_timestamp() returning * into w;
    if w.id is not null then
        perform perdure.tell(w.run, array['wait.reminder'], array[json_build_object(
            'wait', w.id, 'kind', w.kind, 'call', w.call, 'deadline', w.deadline)]);
    end if;
    return w.run;
end $$;

-- Settles a call of unknown outcome that no open wait holds. Verdicts: settled, same, other, held, missing.
create or replace function perdure.settle_call(
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
