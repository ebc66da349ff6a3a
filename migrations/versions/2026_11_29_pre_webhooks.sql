-- Who is told of a run, over webhooks.

-- The URL that hears of it. A child has its parent's.
alter table perdure.runs add column callback text;

-- One event on its way to a callback; `id` is the webhook-id. `due_at`: of the next attempt, or of the moment when
-- the claim of a worker that is at it runs out. `body` is what was sent first, for all attempts.
create table perdure.deliveries (
    id text primary key,
    run text not null,
    seq bigint not null,
    type text not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    attempts integer not null default 0,
    due_at timestamptz not null default clock_timestamp(),
    body text,
    last_status integer,
    last_error text,
    created_at timestamptz not null default clock_timestamp(),
    first_attempt_at timestamptz,
    last_attempt_at timestamptz,
    delivered_at timestamptz,
    unique (run, seq),
    foreign key (run, seq) references perdure.events,
    check ((delivered_at is not null) = (state = 'delivered')),
    check ((attempts = 0) = (first_attempt_at is null))
);
create index deliveries_due on perdure.deliveries (due_at) where state = 'pending';
create index deliveries_by_age on perdure.deliveries (created_at desc, id desc);
create index deliveries_by_state on perdure.deliveries (state, created_at desc, id desc);
