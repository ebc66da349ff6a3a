"""What is told of a run: the types of its events, and what its model is saying."""

# Of the answer that a model is giving, in characters; what came before is not shown to those who
# come later.
LONGEST_DRAFT = 65536

EVENTS = (
    "run.queued",
    "run.started",
    "run.waiting",
    "run.resumed",
    "run.taken_over",
    "run.handed_off",
    "run.cancelling",
    "run.succeeded",
    "run.failed",
    "run.cancelled",
    "run.dead_letter",
    "message.queued",
    "message.delivered",
    "message.undelivered",
    "model.completed",
    "model.retrying",
    "model.failed",
    "call.proposed",
    "call.started",
    "call.succeeded",
    "call.failed",
    "call.outcome_unknown",
    "call.denied",
    "call.expired",
    "call.cancelled",
    "call.reconciled",
    "wait.opened",
    "wait.reminder",
    "wait.resolved",
    "wait.expired",
    "wait.superseded",
    "wait.cancelled",
    "compensation.started",
    "compensation.succeeded",
    "compensation.failed",
    "limit.reached",
)
