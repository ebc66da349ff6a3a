-- The ledger of tool calls: intent before, outcome after.

-- The row's history once this attempt has ended. An attempt that never wrote `started` (its effect and its
-- outcome are one commit, or it has no effect) is opened and closed here; it took `p_took` seconds.
create or replace function perdure.attempted(
    c perdure.calls, p_attempt integer, p_worker text, p_fence bigint, p_outcome text, p_took double precision
) returns jsonb language sql stable as $$
    select perdure.close_attempt(
        case when p_attempt > c.attempts
            then jsonb_set(
                perdure.open_attempt(perdure.close_attempt(c.history, 'interrupted'), p_attempt, p_worker, p_fence),
                '{-1,started_at}', to_jsonb(perdure.stamp_before(p_took)))
            else c.history end,
        p_outcome)
$$;

create or replace function perdure.call_facts(c perdure.calls, p_attempt integer, p_worker text) returns json
language sql stable as $$
    select json_build_object('call', c.id, 'tool', c.tool, 'turn', c.turn, 'index', c.index,
        'attempt', p_attempt, 'worker', p_worker, 'compensates', c.compensates)
$$;

-- The event that tells what became of a call; a call that undoes another has names of its own.
create or replace function perdure.call_event(c perdure.calls, p_what text) returns text language sql immutable as $$
    select case
        when c.compensates is null then 'call.' || p_what
        when p_what in ('started', 'succeeded') then 'compensation.' || p_what
        else 'compensation.failed'
    end
$$;

-- Commits the intent: after it, and only after it, the tool may be called. 'ok', 'cancel', 'moved' or 'fenced'.
create or replace function perdure.start_call(
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
    elsif r.status = 'cancelling' and c.compensates is null then
        return 'cancel';
    elsif c.state not in ('proposed', 'ready', 'started') or c.attempts <> p_attempt - 1 then
        return 'moved';
    end if;
    update perdure.calls set state = 'started', attempts = p_attempt, fence = p_fence, worker = p_worker,
        arguments = p_arguments, arguments_hash = p_arguments_hash, replay = p_replay, approval = p_approval,
        history = perdure.open_attempt(perdure.close_attempt(c.history, 'interrupted'), p_attempt, p_worker, p_fence),
        started_at = coalesce(started_at, now())
    where id = p_call;
    perform perdure.tell(p_run, array[perdure.call_event(c, 'started')],
        array[perdure.call_facts(c, p_attempt, p_worker)]);
    return 'ok';
end $$;

-- Stores how a call ended. An attempt of 0 means that the tool was never called. 'late': the intent is this
-- attempt's, but it has been given up meanwhile, and what it did is unknown; see `settle_late`.
create or replace function perdure.finish_call(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_worker text,
    p_arguments json, p_arguments_hash text, p_replay text, p_approval text,
    p_state text, p_result json, p_is_error boolean, p_outcome text, p_took double precision default 0
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
        if p_replay in ('idempotent', 'at_most_once') then
            raise exception 'call %: an outcome without an intent', p_call;
        end if;
        types := array[perdure.call_event(c, 'started')];
        data := array[perdure.call_facts(c, p_attempt, p_worker)];
    end if;
    update perdure.calls set state = p_state, result = p_result, is_error = p_is_error,
        arguments = coalesce(p_arguments, arguments), arguments_hash = coalesce(p_arguments_hash, arguments_hash),
        replay = coalesce(p_replay, replay), approval = coalesce(p_approval, approval),
        history = case when p_attempt > 0
            then perdure.attempted(c, p_attempt, p_worker, p_fence, p_outcome, p_took) else c.history end,
        attempts = greatest(attempts, p_attempt), worker = coalesce(worker, p_worker),
        fence = coalesce(fence, p_fence),
        started_at = case when p_attempt > 0
            then coalesce(started_at, clock_timestamp() - make_interval(secs => p_took)) else started_at end,
        finished_at = clock_timestamp()
    where id = p_call;
    update perdure.runs set breaches = 0, losses = 0 where id = p_run and breaches + losses > 0;
    if p_outcome = 'reconciled' then
        types := types || 'call.reconciled'::text;
        data := data || perdure.call_facts(c, p_attempt, p_worker);
    end if;
    perform perdure.tell(p_run, types || perdure.call_event(c, p_state),
        data || perdure.call_facts(c, p_attempt, p_worker));
    return 'ok';
end $$;

-- Opens the wait that a call is held by. `p_attempt` 0: it has not run; else that attempt ended with `p_outcome`,
-- or the wait itself is the attempt (`input`, `external`, `timer`, `child`). `p_rule`: a standing rule that
-- answers an approval. `p_supersedes`: the approval that no longer holds, because the world has changed since.
-- 'held', 'ok' if it was done before, 'cancel' where a run that ends may ask nothing more.
create or replace function perdure.hold_call(
    p_run text, p_fence bigint, p_call text, p_attempt integer, p_worker text,
    p_arguments json, p_arguments_hash text, p_replay text, p_approval text,
    p_state text, p_kind text, p_question text, p_evidence json, p_seconds double precision,
    p_outcome text, p_until timestamptz default null, p_rule text default null, p_supersedes text default null,
    p_took double precision default 0
) returns text language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
    wait text := perdure.new_id('wait');
    due timestamptz := coalesce(p_until, clock_timestamp() + make_interval(secs => p_seconds));
    types text[] := '{}';
    data json[] := '{}';
    rule perdure.rules;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        return 'fenced';
    end if;
    select * into c from perdure.calls where id = p_call for no key update;
    -- Its own earlier commit may have been answered by a person or the clock meanwhile.
    if exists (select from perdure.waits where call = p_call and id is distinct from p_supersedes
               and (state = 'open' or (p_kind = 'approval' and kind = 'approval'
                    and state not in ('superseded', 'cancelled'))))
            or (p_attempt > 0 and p_attempt = c.attempts and c.history #>> '{-1,ended_at}' is not null) then
        return 'ok';
    elsif r.status = 'cancelling' and p_state = 'waiting' then
        return 'cancel';
    elsif p_supersedes is not null then
        update perdure.waits set state = 'superseded' where id = p_supersedes;
        types := array['wait.superseded'];
        data := array[json_build_object('wait', p_supersedes, 'kind', p_kind, 'call', p_call)];
    end if;
    if p_attempt > c.attempts then
        types := types || perdure.call_event(c, 'started');
        data := data || perdure.call_facts(c, p_attempt, p_worker);
    end if;
    if p_state = 'outcome_unknown' then
        types := types || perdure.call_event(c, 'outcome_unknown');
        data := data || perdure.call_facts(c, p_attempt, p_worker);
    end if;
    update perdure.calls set state = p_state,
        arguments = p_arguments, arguments_hash = p_arguments_hash, replay = p_replay, approval = p_approval,
        history = case when p_attempt > 0
            then perdure.attempted(c, p_attempt, p_worker, p_fence, p_outcome, p_took) else c.history end,
        attempts = greatest(attempts, p_attempt),
        started_at = case when p_attempt > 0
            then coalesce(started_at, clock_timestamp() - make_interval(secs => p_took)) else started_at end
    where id = p_call;
    insert into perdure.waits
        (id, run, call, kind, question, arguments, arguments_hash, evidence, deadline, remind_at)
    values (wait, p_run, p_call, p_kind, p_question, p_arguments, p_arguments_hash, p_evidence, due,
        case when p_kind not in ('timer', 'child') then due - (due - clock_timestamp()) / 4 end);
    perform perdure.tell(p_run, types || 'wait.opened'::text, data || json_build_object(
        'wait', wait, 'kind', p_kind, 'call', p_call, 'tool', c.tool, 'deadline', due));
    if p_rule is null then
        return 'held';
    end if;
    -- It may have been revoked since it was read.
    select * into rule from perdure.rules where id = p_rule and revoked_at is null
        and (expires_at is null or expires_at > clock_timestamp()) for share;
    if rule.id is not null then
        perform perdure.resolve_wait(wait, json_build_object('decision', 'allow', 'rule', rule.id), null,
            rule.author, rule.on_behalf_of, 'rule');
    end if;
    return 'held';
end $$;
