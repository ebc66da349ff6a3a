-- Model providers, which all workers share: what one of them is told holds for all.
--
-- The caller has locked the run's row; then come the provider's, places in the line, waits. A provider that has
-- complained of nothing and has no cap costs one read: its row is neither locked nor written.

-- Whether the run's turn has come and it may ask any moment now. One that does not come, because its agent has no
-- worker, is not expected for long.
create or replace function perdure.is_expected(l perdure.line) returns boolean language sql stable as $$
    select coalesce(l.let_in_at > clock_timestamp() - interval '30 s', false)
$$;

-- How many requests are on their way to a provider, or are about to be.
create or replace function perdure.under_way(p_provider text) returns bigint language sql stable as $$
    select (
        select count(*) from perdure.workers w join perdure.runs r on r.owner = w.id
        join perdure.turns t on t.run = r.id and t.number = r.turns + 1 and t.provider = p_provider
        where w.dead_at is null and t.history #>> '{-1,ended_at}' is null
          and (t.history #>> '{-1,fence}')::bigint = r.fence
    ) + (select count(*) from perdure.line l where l.provider = p_provider and perdure.is_expected(l))
$$;

-- Puts the run in the line of its provider, unless it may ask at once. Answers whether it has to wait; if so, the timer
-- that it waits for is open.
create or replace function perdure.stand_in_line(p_run text, p_provider text, p_cap integer) returns boolean
language plpgsql as $$
declare
    p perdure.providers;
    l perdure.line;
    ahead bigint;
    question text;
    at timestamptz := clock_timestamp();
begin
    select * into p from perdure.providers where name = p_provider;
    if p.name is null and p_cap is null then
        return false;
    elsif p_cap is null and p.cap is null and p.spacing = 0 and coalesce(p.not_before <= at, true) then
        delete from perdure.line where run = p_run;
        return false;
    end if;
    if p.name is null then
        insert into perdure.providers (name) values (p_provider) on conflict do nothing;
    end if;
    select * into p from perdure.providers where name = p_provider for no key update;
    if p.cap is distinct from p_cap then
        update perdure.providers set cap = p_cap where name = p_provider;
    end if;
    if exists (select from perdure.waits w where w.run = p_run and w.call is null and w.state = 'open') then
        return true;
    end if;
    select * into l from perdure.line where run = p_run and provider = p_provider;
    at := clock_timestamp();
    select count(*) into ahead from perdure.line x
    where x.provider = p_provider and x.let_in_at is null and (l.run is null or x.asked_at < l.asked_at);
    if p.not_before > at then
        question := 'when the provider may be asked';
    elsif perdure.is_expected(l) then
        question := null;
    elsif p.spacing > 0 and (ahead > 0 or p.next_at > at) then
        question := 'when the provider may be asked';
    elsif ahead + perdure.under_way(p_provider) >= p_cap then
        question := 'when the provider has room';
    elsif p.spacing > 0 then
        update perdure.providers set next_at = at + make_interval(secs => spacing) where name = p_provider;
    end if;
    if question is null then
        delete from perdure.line where run = p_run;
        return false;
    end if;
    insert into perdure.line (run, provider, asked_at) values (p_run, p_provider, coalesce(l.asked_at, at))
    on conflict (run) do update set provider = excluded.provider, asked_at = excluded.asked_at, let_in_at = null;
    perform perdure.hold_back(p_run, question);
    return true;
end $$;

-- Opens the timer of a run that has not asked: this is no attempt of its model call. It is let in long before; the
-- deadline is for a line that nobody looks after.
create or replace function perdure.hold_back(p_run text, p_question text) returns void language plpgsql as $$
declare
    wait text := perdure.new_id('wait');
    due timestamptz := clock_timestamp() + interval '1 hour';
begin
    insert into perdure.waits (id, run, kind, question, deadline) values (wait, p_run, 'timer', p_question, due);
    perform perdure.tell(p_run, array['wait.opened'], array[json_build_object(
        'wait', wait, 'kind', 'timer', 'call', null, 'question', p_question, 'deadline', due)]);
end $$;

-- Lets those in whose turn has come: one after the other while calls are kept apart, as many as there is room for.
-- The clock does it, because a call may also end with its worker. Whoever is in other hands just now is let in next
-- time.
create or replace function perdure.let_in() returns void language plpgsql as $$
declare
    p perdure.providers;
    l perdure.line;
    w perdure.waits;
    at timestamptz;
begin
    delete from perdure.line where let_in_at < clock_timestamp() - interval '1 hour';
    for p in select * from perdure.providers x
            where exists (select from perdure.line y where y.provider = x.name and y.let_in_at is null)
              and coalesce(x.not_before <= clock_timestamp(), true)
            order by name for no key update skip locked loop
        at := clock_timestamp();
        for l in select * from perdure.line x where x.provider = p.name and x.let_in_at is null
                order by x.asked_at, x.run limit greatest(coalesce(p.cap - perdure.under_way(p.name), 1000), 0) loop
            exit when p.spacing > 0 and p.next_at > at;
            select * into w from perdure.waits
                where run = l.run and call is null and kind = 'timer' and state = 'open';
            if found then
                perform from perdure.waits where id = w.id for no key update skip locked;
                continue when not found;
                update perdure.waits set deadline = at where id = w.id;
            end if;
            -- Between two looks more than one may have become due.
            p.next_at := greatest(p.next_at, at - interval '200 ms') + make_interval(secs => p.spacing);
            update perdure.line set let_in_at = at where run = l.run;
        end loop;
        update perdure.providers set next_at = p.next_at where name = p.name and p.spacing > 0;
    end loop;
end $$;

-- Writes down that a provider has complained, for `p_told` seconds. Calls that were under way when it first did say
-- nothing new: the spacing grows by those begun since.
create or replace function perdure.throttle(t perdure.turns, p_told double precision) returns void language plpgsql as $$
declare
    p perdure.providers;
    at timestamptz;
begin
    insert into perdure.providers (name) values (t.provider) on conflict do nothing;
    select * into p from perdure.providers where name = t.provider for no key update;
    at := clock_timestamp();
    p.not_before := greatest(p.not_before, at + make_interval(secs => p_told));
    if coalesce((t.history #>> '{-1,started_at}')::timestamptz > p.throttled_at, true) then
        p.throttled_at := at;
        p.spacing := least(greatest(2 * p.spacing, 0.1), 60);
    end if;
    update perdure.providers set not_before = p.not_before, throttled_at = p.throttled_at, spacing = p.spacing,
        next_at = p.not_before
    where name = t.provider;
end $$;

-- An answer to a call begun since the last complaint lets the next ones come closer together.
create or replace function perdure.ease(t perdure.turns) returns void language sql volatile as $$
    update perdure.providers set spacing = case when spacing < 0.02 then 0 else spacing * 0.9 end
    where name = t.provider and spacing > 0 and throttled_at < (t.history #>> '{-1,started_at}')::timestamptz
$$;
