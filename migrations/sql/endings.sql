-- How runs end, and what that sets free.

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
    elsif p_fence is not null and p_status = 'cancelled' and r.status <> 'cancelling' then
        return 'not_cancelled';
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
    -- No further attempt will tell what became of the earlier ones.
    for item in update perdure.calls set state = 'outcome_unknown', is_error = true, finished_at = now(),
            result = json_build_object('error', 'outcome_unknown', 'detail', history #>> '{-1,outcome}')
            where run = p_run and (state = 'outcome_unknown' and finished_at is null
                or state = 'ready' and perdure.may_have_happened(replay, history))
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
returns table (run text, leg integer) language sql volatile as $$
    update perdure.runs x set held = false
    where x.held and x.finished_at is null and (x.session = p_session or x.target = p_target)
      and not exists (
        select from perdure.runs y
        where y.finished_at is null and y.place < x.place and (y.session = x.session or y.target = x.target))
    returning x.id, x.leg
$$;
