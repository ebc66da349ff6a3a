-- How runs end, and what that sets free.

create or replace function perdure.has_live_child(p_run text) returns boolean language sql stable as $$
    select exists (select from perdure.runs where parent = p_run and finished_at is null)
$$;

-- Ends the run. Without a fence it is a request that ends it, which may not be while a call could be acting:
-- its own, a child's, or one that is still to undo what was done.
-- The caller holds the row of the session, of the target and of the parent.
create or replace function perdure.end_run(
    p_run text, p_fence bigint, p_status text, p_reason text, p_output json, p_error json
) returns text language plpgsql as $$
declare
    r perdure.runs;
    types text[] := '{}';
    data json[] := '{}';
    item record;
    c perdure.calls;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.finished_at is not null then
        return 'over';
    elsif r.fence <> p_fence then
        return 'fenced';
    elsif r.status = 'cancelling' and p_status not in ('cancelled', 'dead_letter') then
        return 'cancel';
    elsif p_fence is not null and p_status = 'cancelled' and r.status <> 'cancelling' then
        return 'not_cancelled';
    elsif p_status = 'succeeded' and exists (
            select from perdure.messages where run = p_run and state = 'queued') then
        return 'messages';
    elsif exists (select from perdure.calls where run = p_run and state = 'started')
            or p_status <> 'dead_letter' and perdure.has_live_child(p_run)
            or p_status = 'cancelled' and r.compensate and perdure.has_to_compensate(p_run) then
        return 'acting';
    end if;
    perform perdure.close_waits(p_run, array['approval', 'outcome', 'input', 'external', 'timer', 'child']);
    delete from perdure.line where run = p_run;
    -- No further attempt will tell what became of the earlier ones.
    for c in update perdure.calls set state = 'outcome_unknown', is_error = true, finished_at = now(),
            result = json_build_object('error', 'outcome_unknown', 'detail', history #>> '{-1,outcome}')
            where run = p_run and (state = 'outcome_unknown' and finished_at is null
                or state = 'ready' and perdure.may_have_happened(replay, history))
            returning * loop
        types := types || perdure.call_event(c, 'outcome_unknown');
        data := data || perdure.call_facts(c, c.attempts, c.worker);
    end loop;
    for c in update perdure.calls set state = 'cancelled', finished_at = now()
            where run = p_run and state in ('proposed', 'waiting', 'ready') returning * loop
        types := types || perdure.call_event(c, 'cancelled');
        data := data || perdure.call_facts(c, c.attempts, c.worker);
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
        finished_at = now(), leg = r.leg + 1, fence = r.fence + 1, owner = null, held = false, parked = false,
        active_seconds = perdure.active_seconds(r), active_since = null
    where id = p_run;
    perform perdure.tell(p_run, types || ('run.' || p_status), data || json_build_object(
        'reason', p_reason, 'error', p_error, 'worker', r.owner));
    return 'ended';
end $$;

-- Closes what a run asked; the run's row is locked. Whoever answers too late is told so.
create or replace function perdure.close_waits(p_run text, p_kinds text[]) returns void language plpgsql as $$
declare
    w perdure.waits;
begin
    for w in update perdure.waits set state = 'cancelled', resolved_at = now()
            where run = p_run and state = 'open' and kind = any(p_kinds) returning * loop
        perform perdure.tell(p_run, array['wait.cancelled'],
            array[json_build_object('wait', w.id, 'kind', w.kind, 'call', w.call)]);
    end loop;
end $$;

-- Writes down that the run is to end, and takes back what it asked; only a child is waited for. The caller holds
-- the run's row, ends it if nothing is acting, and else sees to it that a leg does.
create or replace function perdure.ask_cancel(p_run text, p_compensate boolean, p_by text, p_reason text)
returns void language plpgsql as $$
begin
    update perdure.runs set status = 'cancelling', compensate = compensate or p_compensate where id = p_run;
    perform perdure.tell(p_run, array['run.cancelling'],
        array[json_build_object('by', p_by, 'reason', p_reason, 'compensate', p_compensate)]);
    perform perdure.close_waits(p_run, array['approval', 'outcome', 'input', 'external', 'timer']);
end $$;

-- Tells the parent of a run that has just ended what its call came to: `p_result` for a success. The caller has
-- held the parent's row since before it took the child's, and enqueues `leg` in the same transaction.
create or replace function perdure.child_ended(p_run text, p_result json, out run text, out leg integer)
language plpgsql as $$
declare
    child perdure.runs;
    w perdure.waits;
    c perdure.calls;
begin
    select * into child from perdure.runs where id = p_run;
    select * into w from perdure.waits where call = child.delegated_by and kind = 'child' and state = 'open'
        for no key update;
    if w.id is null or child.finished_at is null then
        return;
    end if;
    run := child.parent;
    update perdure.waits set state = 'resolved', resolved_at = now(), resolved_by = p_run, resolved_via = 'child',
        resolution = json_build_object('run', p_run, 'status', child.status, 'reason', child.reason)
    where id = w.id;
    update perdure.calls set finished_at = now(), is_error = p_result is null,
        state = case when p_result is null then 'failed' else 'succeeded' end,
        history = perdure.correct_attempt(history, child.status),
        result = coalesce(p_result, json_build_object('error', 'child_' || child.status, 'run', p_run, 'detail',
            format('Run %s of agent %s ended as %s%s.', p_run, child.agent, child.status, ' (' || child.reason || ')')))
    where id = w.call returning * into c;
    perform perdure.tell(run, array['wait.resolved', 'call.' || c.state], array[
        json_build_object('wait', w.id, 'kind', w.kind, 'call', w.call, 'by', p_run),
        perdure.call_facts(c, c.attempts, null)]);
    leg := perdure.wake_run(run);
end $$;

-- Lets the runs go that were held behind one that has ended. The caller holds the session's and target's row.
create or replace function perdure.release_held(p_session text, p_target text)
returns table (run text, leg integer) language sql volatile as $$
    update perdure.runs x set held = false
    where x.held and x.finished_at is null and (x.session = p_session or x.target = p_target)
      and not exists (
        select from perdure.runs y
        where y.finished_at is null and y.place < x.place and (y.session = x.session or y.target = x.target))
    returning x.id, x.leg
$$;
