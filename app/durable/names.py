"""Names that live in the journal. Frozen: a renamed step or workflow strands what is under way."""

APPLICATION = "perdure"
# One constant for good: what no longer fits today's code is carried on from our tables.
APPLICATION_VERSION = "1"
# Partitioned by the runs' queue keys.
RUNS = "runs"
# Of the release before, which had no keys. What is still on it is carried out.
QUEUE = "agents"
# Runs that workers have died of; only isolated processes serve it. Named in take_over, too.
SUSPECTS = "suspects"

LEG = "perdure.leg"

OPEN = "perdure.open"
MODEL = "perdure.model"
TOOL = "perdure.tool"
COMPENSATE = "perdure.compensate"
PARK = "perdure.park"
HAND_OFF = "perdure.hand_off"
SETTLE = "perdure.settle"
