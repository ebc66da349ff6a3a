"""What models are saying while they say it: shown and forgotten."""

import json
from dataclasses import dataclass
from typing import Any, Self

from app.domain.events import LONGEST_DRAFT

# A turn and an attempt at it.
Call = tuple[int, int]
ALL_ATTEMPTS = 2**31
MEMBERS = {"run": str, "turn": int, "attempt": int, "offset": int, "text": str}


@dataclass(frozen=True)
class Delta:
    """`offset`: how many characters of text the answer had before."""

    run: str
    turn: int
    attempt: int
    offset: int
    text: str

    @classmethod
    def read(cls, payload: str) -> Self | None:
        """None for what is no delta: whoever can connect to the database can notify."""
        try:
            said = json.loads(payload)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        values: list[Any] = [said.get(name) for name in MEMBERS]
        if [type(value) for value in values] != list(MEMBERS.values()):
            return None
        return cls(*values)

    @property
    def call(self) -> Call:
        return self.turn, self.attempt

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    def after(self, offset: int) -> "Delta":
        """What it says beyond that."""
        skipped = max(offset - self.offset, 0)
        return Delta(self.run, self.turn, self.attempt, self.offset + skipped, self.text[skipped:])


def joined(draft: Delta | None, delta: Delta) -> Delta:
    """The answer so far with what came now. A gap begins it anew, and an older attempt is none."""
    if draft is None or delta.call > draft.call:
        return delta
    if delta.call < draft.call:
        return draft
    if delta.offset < draft.offset:
        return delta if delta.end >= draft.end else draft
    if delta.offset > draft.end:
        return delta
    whole = Delta(
        draft.run, draft.turn, draft.attempt, draft.offset, draft.text + delta.after(draft.end).text
    )
    return whole.after(whole.end - LONGEST_DRAFT)
