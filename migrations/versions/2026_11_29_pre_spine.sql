-- The content that Perdure owns. DBOS owns control, in its own schema `dbos`.
--
--   agents, agent_versions     what may be run, as the workers declared it
--   workers                    who runs it, and the advisory lock that proves each one alive
--   sessions, targets          what a run works on: at most one active run for each
--   runs                       one accepted task; `leg` says which DBOS workflow carries it on
--   turns, calls               the model's answers; the ledger of tool calls
--   waits, messages            what a run is parked on; what a person says to it
--   events                     the facts told to clients, numbered per run without gaps
--   idempotency                which request a key has already been spent on
--
-- Columns of type `json` keep text exactly as it was received; `jsonb` holds only values of our own.

create table perdure.agents (
    name text primary key,
    version text not null,
    registered_at timestamptz not null default now()
);

create table perdure.agent_versions (
    agent text not null,
    version text not null,
    definition json not null,
    created_at timestamptz not null default now(),
    primary key (agent, version)
);

create sequence perdure.worker_locks as integer cycle;

create table perdure.workers (
    id text primary key,
    lock integer not null,
    host text not null,
    pid integer not null,
    boot_id text not null,
    pid_namespace text not null,
    process_started text not null,
    version text not null,
    agents jsonb not null,
    started_at timestamptz not null default now(),
    last_beat_at timestamptz not null default now(),
    dead_at timestamptz,
    death text check (death in ('exited', 'proved', 'lease_lost')),
    check ((dead_at is null) = (death is null))
);
create index workers_alive on perdure.workers (id) where dead_at is null;

create table perdure.sessions (
    id text primary key,
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now()
);

create table perdure.targets (
    name text primary key
);

create table perdure.runs (
    id text primary key,
    agent text not null,
    agent_version text not null,
    session text not null references perdure.sessions,
    target text references perdure.targets,
    parent text references perdure.runs,
    root text not null references perdure.runs,
    status text not null default 'queued' check (status in (
        'queued', 'running', 'waiting', 'cancelling',
        'succeeded', 'failed', 'cancelled', 'dead_letter')),
    reason text check (reason in (
        'model_error', 'model_refusal', 'max_tokens', 'context_window', 'unknown_stop_reason',
        'limit_turns', 'limit_tokens', 'limit_cost', 'limit_seconds', 'limit_calls', 'deadline',
        'tool_missing', 'output_invalid', 'internal')),
    input json not null,
    output json,
    error json,
    metadata jsonb not null default '{}',
    limits jsonb not null,
    priority integer not null default 0,
    deadline timestamptz,
    trace_id text not null,
    place bigint generated always as identity,
    held boolean not null default false,
    leg integer not null default 1,
    legs_started integer not null default 0,
    attempt integer not null default 0,
    owner text,
    execution text,
    fence bigint not null default 0,
    seq bigint not null default 0,
    turns integer not null default 0,
    model_calls integer not null default 0,
    repaid_model_calls integer not null default 0,
    model_failures integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cache_read_tokens bigint not null default 0,
    cache_write_tokens bigint not null default 0,
    cost_usd numeric(14, 6) not null default 0,
    active_seconds double precision not null default 0,
    active_since timestamptz,
    breaches integer not null default 0,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    check ((finished_at is not null) = (status in ('succeeded', 'failed', 'cancelled', 'dead_letter'))),
    check (not held or status in ('queued', 'cancelling'))
);
create index runs_by_age on perdure.runs (created_at desc, id desc);
create index runs_by_session on perdure.runs (session, place);
create index runs_by_root on perdure.runs (root);
create index runs_by_parent on perdure.runs (parent) where parent is not null;
create index runs_by_target on perdure.runs (target) where target is not null and finished_at is null;
create index runs_alive on perdure.runs (status) where finished_at is null;
create index runs_by_owner on perdure.runs (owner) where owner is not null;

create table perdure.turns (
    run text not null references perdure.runs,
    number integer not null check (number > 0),
    model text not null,
    parameters jsonb not null,
    prompt_hash text not null,
    tools_hash text not null,
    stop_reason text,
    content json,
    usage jsonb,
    attempts integer not null default 1,
    history jsonb not null,
    worker text not null,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    primary key (run, number),
    check ((content is null) = (finished_at is null))
);

create table perdure.calls (
    id text primary key,
    run text not null references perdure.runs,
    turn integer not null,
    index integer not null,
    root text not null,
    session text not null,
    provider_id text not null,
    tool text not null,
    proposed json not null,
    arguments json,
    arguments_hash text,
    replay text check (replay in ('read_only', 'idempotent', 'transactional', 'at_most_once')),
    approval text check (approval in ('never', 'always')),
    state text not null default 'proposed' check (state in (
        'proposed', 'waiting', 'ready', 'started', 'succeeded', 'failed',
        'outcome_unknown', 'denied', 'expired', 'cancelled')),
    attempts integer not null default 0,
    history jsonb not null default '[]',
    result json,
    is_error boolean,
    told_unknown boolean not null default false,
    skipped boolean not null default false,
    settlement json,
    fence bigint,
    worker text,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    unique (run, turn, index),
    check (state not in ('started', 'succeeded', 'outcome_unknown') or (arguments is not null and replay is not null)),
    check (state not in ('succeeded', 'failed', 'denied', 'expired', 'cancelled') or finished_at is not null)
);
create index calls_untold on perdure.calls (session) where state = 'outcome_unknown' and not told_unknown;
create index calls_unknown on perdure.calls (tool, root, session) where state = 'outcome_unknown' and not skipped;

create table perdure.waits (
    id text primary key,
    run text not null references perdure.runs,
    call text references perdure.calls,
    kind text not null check (kind in ('approval', 'outcome', 'input', 'external', 'timer', 'child')),
    state text not null default 'open' check (state in ('open', 'resolved', 'expired', 'superseded', 'cancelled')),
    question text not null,
    arguments json,
    arguments_hash text,
    evidence json,
    deadline timestamptz,
    resolution json,
    resolved_by text,
    on_behalf_of text,
    resolved_via text,
    resolved_at timestamptz,
    created_at timestamptz not null default now(),
    check ((resolved_at is null) = (state = 'open'))
);
create unique index waits_open_call on perdure.waits (call) where state = 'open' and call is not null;
create index waits_by_call on perdure.waits (call) where call is not null;
create index waits_by_run on perdure.waits (run, created_at, id);
create index waits_open_run on perdure.waits (run) where state = 'open';
create index waits_by_age on perdure.waits (created_at desc, id desc);
create index waits_due on perdure.waits (deadline) where state = 'open' and deadline is not null;

create table perdure.messages (
    id text primary key,
    run text not null references perdure.runs,
    place bigint generated always as identity,
    text text not null,
    state text not null default 'queued' check (state in ('queued', 'delivered', 'undelivered')),
    turn integer,
    created_at timestamptz not null default now(),
    check (state <> 'delivered' or turn is not null)
);
create index messages_by_run on perdure.messages (run, place);

create table perdure.events (
    run text not null references perdure.runs,
    seq bigint not null,
    type text not null,
    data json not null,
    -- Not now(): a transaction may have begun before the one that told the event before.
    at timestamptz not null default clock_timestamp(),
    primary key (run, seq)
);

create table perdure.idempotency (
    caller text not null,
    key text not null,
    fingerprint text not null,
    run text not null references perdure.runs deferrable initially deferred,
    created_at timestamptz not null default now(),
    primary key (caller, key)
);
