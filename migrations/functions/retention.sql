-- Removing what ended long ago. A unit goes as a whole: a session, with all that its runs have started elsewhere.

-- The sessions of the unit that a session belongs to.
create or replace function perdure.unit(p_session text) returns setof text language sql stable as $$
    with recursive unit (session) as (
        select p_session
        union
        select member.session from unit
        join perdure.runs r on r.session = unit.session
        join perdure.runs member on member.root = r.root
    )
    select session from unit
$$;

-- Whether all of a unit ended before then, and nothing that stays has need of it: a callback that is still to hear
-- of it, a fork that begins with what was said before its source.
create or replace function perdure.may_go(p_unit text[], p_before timestamptz) returns boolean language sql stable as $$
    select not exists (
        select from perdure.runs r
        where r.session = any(p_unit) and (r.finished_at is null or r.finished_at >= p_before)
    ) and not exists (
        select from perdure.runs r join perdure.deliveries d on d.run = r.id
        where r.session = any(p_unit) and d.state = 'pending' and d.created_at > now() - interval '4 days'
    ) and not exists (
        select from perdure.runs r join perdure.runs fork on fork.forked_from = r.id
        where r.session = any(p_unit) and fork.session <> all(p_unit) and exists (
            select from perdure.runs earlier
            where earlier.session = r.session and (earlier.place < r.place or earlier.forked_from is not null))
    ) and not exists (
        -- An array, lest the whole journal be read: whoever plans this takes a series for a thousand.
        select from dbos.workflow_status s
        where s.status in ('ENQUEUED', 'DELAYED', 'PENDING') and s.workflow_uuid = any(array(
            select r.id || ':' || n from perdure.runs r cross join generate_series(1, r.leg) as n
            where r.session = any(p_unit)))
    )
$$;

-- The legs that a unit has had, where it may go. The next one of a run that has ended is the one it is resumed with.
create or replace function perdure.legs_to_forget(p_session text, p_seconds double precision) returns setof text
language plpgsql stable as $$
declare
    unit text[] := array(select perdure.unit(p_session));
begin
    if perdure.may_go(unit, now() - make_interval(secs => p_seconds)) then
        return query select r.id || ':' || n from perdure.runs r cross join generate_series(1, r.leg - 1) as n
            where r.session = any(unit);
    end if;
end $$;

-- Removes a unit if it still may go; answers how many runs went. Whoever submits to its sessions or resumes one of
-- its runs locks a session first, and so comes before or after, never between.
create or replace function perdure.forget(p_session text, p_seconds double precision) returns integer language plpgsql as $$
declare
    unit text[] := array(select perdure.unit(p_session));
    gone text[];
    goals text[];
begin
    perform from perdure.sessions where id = any(unit) order by id for update;
    gone := array(select r.id from perdure.runs r where r.session = any(unit) order by r.depth, r.place for update);
    if not perdure.may_go(unit, now() - make_interval(secs => p_seconds)) then
        return 0;
    end if;
    goals := array(select distinct target from perdure.runs where id = any(gone) and target is not null);
    -- One statement: they refer to each other.
    with d as (delete from perdure.deliveries where run = any(gone)),
        x as (delete from perdure.rules where run = any(gone) and scope <> 'agent'),
        w as (delete from perdure.waits where run = any(gone)),
        c as (delete from perdure.calls where run = any(gone)),
        t as (delete from perdure.turns where run = any(gone)),
        m as (delete from perdure.messages where run = any(gone)),
        e as (delete from perdure.events where run = any(gone)),
        k as (update perdure.idempotency set run = null where run = any(gone)),
        r as (delete from perdure.runs where id = any(gone))
    delete from perdure.sessions where id = any(unit);
    delete from perdure.targets goal where name = any(goals)
        and not exists (select from perdure.runs where target = goal.name);
    return cardinality(gone);
end $$;
