"""A run as a person follows it: what was said and done, in order, with all attempts."""

from dataclasses import dataclass
from datetime import datetime

from app.services import views_inbox, views_runs
from app.services.context import Services
from app.services.views_parts import shape_call, shape_event, shape_message, shape_turn
from app.services.views_shapes import Json
from app.store import views_console, views_parts
from app.store.db import Connection, Row

# A page of a long run shows so many of each, the last ones.
TURNS = 50
CALLS = 1000
EVENTS = 200
MESSAGES = 500
# Characters of one value. Of a longer one a page shows the beginning, with a link to the whole.
MOST_SHOWN = 8_000


@dataclass(frozen=True)
class Beginning:
    """Of a value that is too long for a page, as JSON."""

    text: str


@dataclass(frozen=True)
class Story:
    """`seq`: the last event that it surely tells of. `is_held`: behind another run of its session
    or target. `first`: the first turn shown. `waits`: the run's own, in all states. `asking`: the
    open ones that a person can settle, of runs below it too. `effects`: of calls that can have
    one."""

    run: Json
    now: datetime
    seq: int
    is_held: bool
    first: int
    turns: list[Json]
    calls: list[Json]
    messages: list[Json]
    waits: list[Json]
    asking: list[Json]
    events: list[Json]
    effects: list[Json]

    @property
    def last(self) -> int:
        return self.first + TURNS - 1


async def get_story(services: Services, run: str, first: int | None) -> Story:
    async with services.database.connection() as connection:
        # First: what happens while the rest is read is then told again, and not missed.
        facts = await views_console.facts(connection, run)
        if facts is None:
            raise views_runs.missing_run(run)
        shown = await views_runs.show(connection, run)
        begin = first or max(1, shown["turns"] - TURNS + 2)
        turns = await views_parts.turns(connection, run, begin - 1, TURNS)
        turns_shown = begin, begin + TURNS - 1
        calls = await views_console.last_calls(connection, run, turns_shown, CALLS, MOST_SHOWN)
        messages = await views_console.last_messages(connection, run, MESSAGES)
        return Story(
            run=shown,
            now=await views_console.clock(connection),
            seq=facts["seq"],
            is_held=facts["held"],
            first=begin,
            turns=[shape_turn(turn) for turn in turns],
            calls=[_shape(call) for call in reversed(calls)],
            messages=[shape_message(message) for message in reversed(messages)],
            waits=await views_inbox.last_of(connection, run),
            asking=await views_inbox.asking_of(connection, _askers(shown)),
            events=await _events(connection, run, facts["seq"]),
            effects=await _effects(connection, shown),
        )


def _shape(call: Row) -> Json:
    """With `skipped`: whether somebody has left its unknown outcome so."""
    begun = {name: call[f"{name}_begin"] for name in ("arguments", "result")}
    cut = {name: Beginning(text) for name, text in begun.items() if text is not None}
    return shape_call(call) | {"skipped": call["skipped"]} | cut


def _askers(run: Json) -> list[str]:
    return sorted({run["id"], *(wait["run"] for wait in run["waiting_for"])})


async def _effects(connection: Connection, run: Json) -> list[Json]:
    read_only = await views_console.read_only(connection, run["id"])
    return [effect for effect in run["effects"] if effect["call"] not in read_only]


async def _events(connection: Connection, run: str, seq: int) -> list[Json]:
    """The last ones, latest first."""
    found = await views_parts.events(connection, run, max(0, seq - EVENTS), EVENTS)
    return [shape_event(event) for event in reversed(found)]
