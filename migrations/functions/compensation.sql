-- Undoing what succeeded, latest first, while a run is being cancelled. Each undo is a call of its own in the
-- ledger, in the turn after the run's last: a run that was cancelled never has another.

-- What is still to be undone.
create or replace function perdure.undoable(p_run text) returns setof perdure.calls language sql stable as $$
    select c.* from perdure.calls c
    join perdure.runs r on r.id = c.run
    join perdure.agent_versions v on v.agent = r.agent and v.version = r.agent_version
    where c.run = p_run and c.state = 'succeeded' and c.compensates is null and c.origin is null
      and c.tool in (select declared.value ->> 'name' from json_array_elements(v.definition -> 'tools') declared
                     where (declared.value -> 'has' ->> 'compensate')::boolean)
      and not exists (select from perdure.calls undo where undo.compensates = c.id)
    order by c.turn desc, c.index desc
$$;

create or replace function perdure.has_to_compensate(p_run text) returns boolean language sql stable as $$
    select exists (select from perdure.undoable(p_run)) or exists (
        select from perdure.calls where run = p_run and compensates is not null and finished_at is null)
$$;

-- Whether the call that is being undone waits for its next attempt.
create or replace function perdure.has_held_compensation(p_run text) returns boolean language sql stable as $$
    select exists (
        select from perdure.calls c join perdure.waits w on w.call = c.id and w.state = 'open'
        where c.run = p_run and c.compensates is not null)
$$;

-- The call that undoes the next one, made if it is not there yet. No turn: there is none (left).
create or replace function perdure.next_compensation(
    p_run text, p_fence bigint, out verdict text, out turn integer, out index integer
) language plpgsql as $$
declare
    r perdure.runs;
    c perdure.calls;
begin
    select * into r from perdure.runs where id = p_run for no key update;
    if r.fence <> p_fence then
        verdict := 'fenced';
        return;
    end if;
    verdict := 'ok';
    select x.turn, x.index into turn, index from perdure.calls x
    where x.run = p_run and x.compensates is not null and x.finished_at is null;
    if found then
        return;
    end if;
    select * into c from perdure.undoable(p_run) limit 1;
    if c.id is null then
        return;
    end if;
    turn := r.turns + 1;
    select count(*) into index from perdure.calls x where x.run = p_run and x.compensates is not null;
    insert into perdure.calls (id, run, turn, index, root, session, provider_id, tool, proposed, arguments,
        arguments_hash, replay, approval, state, compensates)
    values ('call_' || substr(p_run, 5) || '_' || turn || '_' || index, p_run, turn, index, c.root, c.session, '',
        c.tool, c.arguments, c.arguments, c.arguments_hash, c.replay, 'never', 'ready', c.id);
end $$;
