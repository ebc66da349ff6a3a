-- What workers know of each other, and of the providers they share; what is found when it is to be removed.

-- `queue_key`: whose share of the workers it takes. `losses`: how often its worker died in its hands since it last
-- got anywhere; see take_over.
alter table perdure.runs add column queue_key text not null default 'local',
                         add column losses integer not null default 0;
create index runs_queued on perdure.runs (queue_key) where status = 'queued';

-- `leaving`: it was told to stop, so what it leaves behind is no loss. `isolated`: it serves only runs that
-- workers have died of.
alter table perdure.workers add column leaving boolean not null default false,
                            add column isolated boolean not null default false;

-- What all workers know of a model provider. Nobody asks it before `not_before`, which it told. `spacing` (seconds)
-- keeps calls apart after it has told so, `next_at` is when the next one may follow. `throttled_at`: when the spacing
-- grew last. `cap`: how many calls the operator allows at once.
create table perdure.providers (
    name text primary key,
    not_before timestamptz,
    next_at timestamptz,
    spacing double precision not null default 0 check (spacing >= 0),
    throttled_at timestamptz,
    cap integer check (cap > 0)
);

-- Runs that wait to ask a provider, in the order of `asked_at`. `let_in_at`: when a run's turn came.
create table perdure.line (
    run text primary key references perdure.runs on delete cascade,
    provider text not null,
    asked_at timestamptz not null,
    let_in_at timestamptz
);
create index line_in_order on perdure.line (provider, asked_at) where let_in_at is null;

alter table perdure.turns add column provider text;

-- They take more parameters now, with defaults for processes of the release before.
drop function if exists perdure.begin_turn;
drop function if exists perdure.fail_turn;
drop function if exists perdure.carry_on;
drop function if exists perdure.take_over;

-- What is removed when its time is over. A key outlives its run; a rule and a fork outlive the run they come from,
-- and keep its id.
alter table perdure.idempotency alter column run drop not null;
alter table perdure.runs drop constraint runs_forked_from_fkey;
alter table perdure.calls drop constraint calls_origin_fkey;
alter table perdure.rules drop constraint rules_session_fkey,
                          drop constraint rules_run_fkey,
                          drop constraint rules_wait_fkey;
