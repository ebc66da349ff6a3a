-- Waits of all kinds, and what they need beside them.

-- `parked`: no leg carries the run, something opens the next one. `delegated_by`: the parent's call that this
-- run answers. `compensate`: what succeeded is undone before the run ends.
alter table perdure.runs
    add column parked boolean not null default false,
    add column compensate boolean not null default false,
    add column delegated_by text references perdure.calls,
    add column depth integer not null default 0,
    add column forked_from text references perdure.runs;
update perdure.runs set parked = true where status = 'waiting';
alter table perdure.runs
    add check (not parked or status in ('waiting', 'cancelling')),
    add check (parked or status <> 'waiting'),
    add check ((parent is null) = (delegated_by is null));
create unique index runs_by_delegation on perdure.runs (delegated_by) where delegated_by is not null;
create index runs_due on perdure.runs (deadline) where deadline is not null and finished_at is null;

-- `compensates`: the call that this one undoes. `origin`: the run that made it, where this one is a fork's copy.
alter table perdure.calls
    add column compensates text references perdure.calls,
    add column origin text references perdure.runs;
create unique index calls_compensating on perdure.calls (compensates) where compensates is not null;

-- Said once, when three quarters of the time to answer are over.
alter table perdure.waits add column remind_at timestamptz;
create index waits_to_remind on perdure.waits (remind_at) where state = 'open' and remind_at is not null;

-- Content blocks, where what was said is more than text.
alter table perdure.messages add column content json;

-- A standing permission, given together with an approval: calls of this agent's tool that fit all conditions,
-- in that run or session or anywhere, are allowed without asking again.
create table perdure.rules (
    id text primary key,
    scope text not null check (scope in ('run', 'session', 'agent')),
    agent text not null,
    session text not null references perdure.sessions,
    run text not null references perdure.runs,
    tool text not null,
    conditions jsonb not null,
    wait text not null references perdure.waits,
    author text not null,
    on_behalf_of text,
    made_via text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    check ((revoked_at is null) = (revoked_by is null))
);
create index rules_standing on perdure.rules (agent, tool) where revoked_at is null;
create index rules_by_age on perdure.rules (created_at desc, id desc);

-- Their signatures change.
drop function if exists perdure.limit_reached;
drop function if exists perdure.hold_call;
drop function if exists perdure.resolve_wait;
