"""What is told to callbacks, and how long it is tried."""

from typing import Literal

TYPES = (
    "run.queued",
    "run.waiting",
    "run.resumed",
    "run.succeeded",
    "run.failed",
    "run.cancelled",
    "run.dead_letter",
    "wait.reminder",
)
State = Literal["pending", "delivered", "dead"]

# Seconds after the first attempt, the second, and so on; the last one repeats.
PAUSES = (1, 5, 15, 60, 300, 1800, 3600, 7200, 18000, 36000)
LIFETIME_SECONDS = 3 * 24 * 3600
# Until it has been tried so often, what came after it in its run waits for it.
ATTEMPTS_IN_ORDER = 5
LONGEST_RETRY_AFTER = 3600

GONE = 410
BUSY = (429, 503)


def is_delivered(status: int) -> bool:
    return 200 <= status < 300


def pause_after(attempt: int, status: int | None, retry_after: float | None) -> float | None:
    """Seconds from a failed attempt, numbered from 1, to the next; None: never again."""
    if status == GONE:
        return None
    pause = float(PAUSES[min(attempt, len(PAUSES)) - 1])
    if status in BUSY and retry_after is not None:
        return max(pause, min(retry_after, LONGEST_RETRY_AFTER))
    return pause
