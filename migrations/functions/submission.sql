-- Submitting a run from SQL, in the caller's own transaction: it is accepted with the caller's rows or not at all.
--
-- What is refused here is what POST /v1/runs refuses, as SQLSTATE 'PD' and the status: the message says what is
-- wrong, DETAIL is the problem's type, COLUMN the parameter. Lock order: session, target; held until the caller's
-- commit. The names of DBOS's queue and workflow are those of durable/names.py.

create or replace function perdure.refuse(p_status text, p_slug text, p_field text, p_message text, p_hint text default '')
returns void language plpgsql as $$
begin
    raise exception using errcode = 'PD' || p_status, message = p_message, detail = '/problems/' || p_slug,
        column = p_field, hint = p_hint;
end $$;

create or replace function perdure.require(p_ok boolean, p_field text, p_message text) returns void language plpgsql as $$
begin
    if p_ok is not true then
        perform perdure.refuse('422', 'invalid-request', p_field, format('`%s` %s.', p_field, p_message));
    end if;
end $$;

-- The value, if a worker can read it back as it was written: no NUL, no half of a surrogate pair, not too deep, no
-- number that Python refuses.
create or replace function perdure.storable(p_field text, p_value json) returns jsonb language plpgsql as $$
declare
    v jsonb;
begin
    perform perdure.require(p_value is not null, p_field, 'must not be null');
    if octet_length(p_value::text) > 1048576 then
        perform perdure.refuse('413', 'too-large', p_field, format('`%s` may have 1048576 bytes.', p_field),
            'Put what is larger where a tool can fetch it, and send its address.');
    end if;
    begin
        v := p_value::jsonb;
    exception when untranslatable_character or invalid_text_representation or statement_too_complex
            or numeric_value_out_of_range then
        perform perdure.require(false, p_field,
            'holds NUL, half of a surrogate pair, a number out of range, or too many levels');
    end;
    perform perdure.require(not jsonb_path_exists(v, 'strict $.**{64}'), p_field, 'is nested more than 64 levels deep');
    perform perdure.require(not exists (
        select from jsonb_path_query(v, 'strict $.** ? (@.type() == "number")') n where length(n::text) > 100),
        p_field, 'holds a number of more than 100 digits');
    return v;
end $$;

-- As HTTP sees it, whatever the locale of the database.
create or replace function perdure.is_blank(p_text text) returns boolean immutable language sql as $$
    select btrim(p_text, U&' \0009\000A\000B\000C\000D\001C\001D\001E\001F\0085\00A0\1680\2000\2001\2002\2003\2004'
        '\2005\2006\2007\2008\2009\200A\2028\2029\202F\205F\3000') = ''
$$;

-- What is kept of it: of a key that stands twice the last value, as all of it was looked at.
create or replace function perdure.checked_input(p_input json) returns json language plpgsql as $$
declare
    v jsonb := perdure.storable('input', p_input);
    block jsonb;
begin
    if jsonb_typeof(v) = 'string' then
        perform perdure.require(not perdure.is_blank(v #>> '{}'), 'input', 'must not be empty');
        return v;
    end if;
    perform perdure.require(jsonb_typeof(v) = 'array' and v <> '[]', 'input',
        'must be text (to_json of it), or a list of content blocks that is not empty');
    for block in select * from jsonb_array_elements(v) loop
        perform perdure.require(jsonb_typeof(block -> 'type') = 'string' and block ->> 'type' <> '', 'input',
            'must hold objects with a `type`, such as ''text''');
        perform perdure.require(block ->> 'type' !~ '(tool_use|tool_result|thinking)$', 'input',
            'holds a block of a type which only the service may write');
        perform perdure.require(block ->> 'type' <> 'text'
            or (jsonb_typeof(block -> 'text') = 'string' and not perdure.is_blank(block ->> 'text')), 'input',
            'holds a text block whose `text` is empty');
    end loop;
    return v;
end $$;

create or replace function perdure.check_metadata(p_metadata json) returns void language plpgsql as $$
declare
    v jsonb := perdure.storable('metadata', p_metadata);
begin
    perform perdure.require(jsonb_typeof(v) = 'object' and (select count(*) <= 16
        and coalesce(bool_and(length(key) between 1 and 64 and jsonb_typeof(value) = 'string'
            and length(value #>> '{}') <= 512), true) from jsonb_each(v)),
        'metadata', 'must be an object of up to 16 texts, names of up to 64 and values of up to 512 characters');
end $$;

-- A decimal number of dollars as text, or null where it cannot be kept.
create or replace function perdure.amount(p_value jsonb) returns text language sql immutable as $$
    select case when n > 0 and n < 100000000 and n = round(n, 6) then n::text end
    from (select case when p_value #>> '{}' ~ '^[0-9]{1,20}(\.[0-9]{1,20})?$'
        then (p_value #>> '{}')::numeric end as n) given
$$;

-- The agent's limits with those that were asked for; null lifts one.
create or replace function perdure.limits_over(p_limits jsonb, p_asked json) returns jsonb language plpgsql as $$
declare
    v jsonb := perdure.storable('limits', p_asked);
    name text;
    value jsonb;
begin
    perform perdure.require(jsonb_typeof(v) = 'object', 'limits', 'must be an object');
    for name, value in select * from jsonb_each(v) loop
        perform perdure.require(name in ('turns', 'tokens', 'cost_usd', 'seconds', 'calls'), 'limits.' || name,
            'is no limit; there are turns, tokens, cost_usd, seconds and calls');
        if name = 'cost_usd' and value <> 'null' then
            perform perdure.require(perdure.amount(value) is not null, 'limits.cost_usd',
                'must be more than 0, less than 100000000, with at most 6 decimals');
            v := v || jsonb_build_object(name, perdure.amount(value));
        elsif name = 'seconds' and value <> 'null' then
            perform perdure.require(jsonb_typeof(value) = 'number' and value > '0' and value <= '1000000000',
                'limits.seconds', 'must be a number of seconds, more than 0 and at most 1000000000');
        elsif name = 'turns' or (name <> 'cost_usd' and name <> 'seconds' and value <> 'null') then
            perform perdure.require(jsonb_typeof(value) = 'number' and value::text ~ '^[0-9]+$' and value >= '1'
                and value <= case name when 'tokens' then '1000000000000'::jsonb else '1000000' end,
                'limits.' || name, 'must be a whole number of at least 1');
        end if;
    end loop;
    return p_limits || v;
end $$;

create or replace function perdure.check_names(
    p_session text, p_target text, p_on_busy text, p_priority integer, p_queue_key text, p_key text, p_callback text
) returns void language plpgsql as $$
begin
    perform perdure.require(p_session is null or p_session ~ '^[A-Za-z0-9_-]{1,64}$', 'session',
        'must be 1 to 64 letters, digits, - or _');
    perform perdure.require(p_target is null or length(p_target) between 1 and 200, 'target',
        'must have 1 to 200 characters');
    perform perdure.require(p_on_busy in ('queue', 'reject', 'return_existing'), 'on_busy',
        'must be queue, reject or return_existing; supersede is for POST /v1/runs');
    perform perdure.require(p_priority between 0 and 1000, 'priority', 'must be 0 to 1000');
    perform perdure.require(p_queue_key is null or p_queue_key ~ '^[A-Za-z0-9_.:@/-]{1,128}$', 'queue_key',
        'must be 1 to 128 letters, digits or any of _.:@/-');
    perform perdure.require(p_key is null or p_key ~ '^[!-~]{1,255}$', 'idempotency_key',
        'must be 1 to 255 visible ASCII characters');
    perform perdure.require(p_callback is null
        or (p_callback ~ '^https?://[^/[:space:]]+(/[^[:space:]]*)?$' and length(p_callback) <= 2000), 'callback',
        'must be an http or https URL of up to 2000 characters');
    -- An older snapshot would not show who holds them by now.
    perform perdure.require((p_session is null and p_target is null)
        or current_setting('transaction_isolation') = 'read committed', 'session',
        'and `target` need a transaction that is READ COMMITTED');
end $$;

-- Makes and locks what a run is to work on. Retention may take an old one away in between.
create or replace function perdure.lock_place(p_session text, p_target text) returns void language plpgsql as $$
begin
    loop
        insert into perdure.sessions (id) values (p_session) on conflict do nothing;
        insert into perdure.targets (name) select p_target where p_target is not null on conflict do nothing;
        perform from perdure.sessions where id = p_session for no key update;
        continue when not found;
        perform from perdure.targets where name = p_target for no key update;
        exit when found or p_target is null;
    end loop;
end $$;

-- The run that this key was spent on before, or null.
create or replace function perdure.spend_key(p_caller text, p_key text, p_fingerprint text, p_run text)
returns text language plpgsql as $$
declare
    first perdure.idempotency;
begin
    insert into perdure.idempotency (caller, key, fingerprint, run)
    values (p_caller, p_key, p_fingerprint, p_run) on conflict do nothing;
    select * into first from perdure.idempotency where caller = p_caller and key = p_key;
    if first.fingerprint <> p_fingerprint then
        perform perdure.refuse('422', 'idempotency-key-reused', 'idempotency_key',
            'This key has been used for another run.', 'Use a new key for a new one.');
    elsif first.run is null then
        perform perdure.refuse('404', 'not-found', 'idempotency_key',
            'The run of this key has ended and been removed.', 'Use a new key for a new one.');
    end if;
    return nullif(first.run, p_run);
end $$;

-- Refused, or the run that holds what this one asks for, where that is to be answered.
create or replace function perdure.make_way(p_session text, p_target text, p_on_busy text) returns text language plpgsql as $$
declare
    holder text;
begin
    select id into holder from perdure.runs
        where finished_at is null and (session = p_session or target = p_target) order by place limit 1;
    if holder is not null and p_on_busy = 'reject' then
        perform perdure.refuse('409', 'target-busy', 'on_busy',
            format('Run %s is active on this session or target.', holder),
            'Wait for it, cancel it, or submit with another on_busy.');
    end if;
    return case when p_on_busy = 'return_existing' then holder end;
end $$;

create or replace function perdure.enqueue_leg_one(p_run text, p_queue_key text, p_priority integer)
returns void language sql volatile as $$
    select dbos.enqueue_workflow(workflow_name => 'perdure.leg', queue_name => 'runs',
        positional_args => array[to_json(p_run), to_json(1)], workflow_id => p_run || ':1', app_version => '1',
        priority => p_priority + 1, queue_partition_key => p_queue_key, application_name => 'perdure')
$$;

-- Writes the run down and enqueues its first leg, unless another run holds what it asks for.
create or replace function perdure.accept_run(p perdure.runs) returns void language plpgsql as $$
begin
    p.held := exists (select from perdure.runs x
        where x.finished_at is null and (x.session = p.session or x.target = p.target));
    insert into perdure.runs (id, root, agent, agent_version, session, target, input, metadata, limits, priority,
        queue_key, deadline, callback, trace_id, held)
    values (p.id, p.id, p.agent, p.agent_version, p.session, p.target, p.input, p.metadata, p.limits, p.priority,
        p.queue_key, p.deadline, p.callback, replace(gen_random_uuid()::text, '-', ''), p.held);
    perform perdure.tell(p.id, array['run.queued'], array[json_build_object(
        'agent', p.agent, 'agent_version', p.agent_version, 'held', p.held)]);
    if not p.held then
        perform perdure.enqueue_leg_one(p.id, p.queue_key, p.priority);
    end if;
end $$;

-- The id of the run: a new one, or the one that this key or `on_busy` leads to.
create or replace function perdure.submit_run(
    agent text, input json, session text default null, target text default null, on_busy text default 'queue',
    limits json default '{}', priority integer default 0, queue_key text default null,
    deadline timestamptz default null, metadata json default '{}', callback text default null,
    idempotency_key text default null
) returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    caller text := 'sql:' || session_user;
    run perdure.runs;
    existing text;
begin
    perform perdure.check_names(session, target, on_busy, priority, queue_key, idempotency_key, callback);
    run.input := perdure.checked_input(input);
    perform perdure.check_metadata(metadata), perdure.storable('limits', limits);
    run.id := perdure.new_id('run');
    if idempotency_key is not null then
        existing := perdure.spend_key(caller, idempotency_key, encode(sha256(convert_to(jsonb_build_array(
            agent, input, session, target, on_busy, limits, priority, queue_key, extract(epoch from deadline),
            metadata, callback
        )::text, 'UTF8')), 'hex'), run.id);
        if existing is not null then
            return existing;
        end if;
    end if;
    perform perdure.require(coalesce(deadline > clock_timestamp() and deadline < '9999-12-31 00:00:00+00', true),
        'deadline', 'must be in the future, and before the year 9999 ends');
    select a.name, a.version, perdure.limits_over((v.definition -> 'limits')::jsonb, limits)
        into run.agent, run.agent_version, run.limits
        from perdure.agents a join perdure.agent_versions v on v.agent = a.name and v.version = a.version
        where a.name = agent;
    if run.agent is null then
        perform perdure.refuse('422', 'agent-not-found', 'agent', format('There is no agent %L.', agent),
            'GET /v1/agents lists those there are.');
    end if;
    run.session := coalesce(session, perdure.new_id('ses'));
    perform perdure.lock_place(run.session, target);
    existing := perdure.make_way(run.session, target, on_busy);
    if existing is not null then
        update perdure.idempotency i set run = existing where i.caller = caller and i.key = idempotency_key;
        return existing;
    end if;
    run.target := target;
    run.metadata := metadata;
    run.priority := priority;
    run.queue_key := coalesce(queue_key, caller);
    run.deadline := deadline;
    run.callback := callback;
    perform perdure.accept_run(run);
    return run.id;
end $$;

-- It writes with its owner's rights. Whom to let in: grant usage on schema perdure, execute on this function.
revoke execute on function perdure.submit_run from public;
