"""What streams are to show next."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import LiteralString

from app.store.db import Connection, Row, rows

# Of one look: shared out over those that ask, each of which gets some.
MOST_EVENTS = 2000
FEWEST_EVENTS = 10
MOST_EVENTS_OF_ONE = 100
LARGEST_BYTES = 256 * 1024

Place = tuple[str, int]

# The log is looked into only where the run's own row says that there is more in it; of runs that
# stand still nothing is said. One that is gone has no number.
NEXT: LiteralString = """
select w.run, w.after, r.seq as last, r.id is null or r.finished_at is not null as has_ended,
    e.seq, e.type, e.data, e.at
from unnest(%(runs)s::text[], %(afters)s::bigint[]) as w (run, after)
left join perdure.runs r on r.id = w.run
left join lateral (
    select * from (
        select n.*, sum(n.size) over (order by n.seq) - n.size as before
        from (
            select *, octet_length(data::text) as size from perdure.events
            where r.seq > w.after and run = w.run and seq > w.after
            order by seq limit %(limit)s
        ) n
    ) sized where before < %(bytes)s
) e on true
where r.id is null or r.finished_at is not null or r.seq > w.after
order by w.run, w.after, e.seq
"""


@dataclass(frozen=True)
class Further:
    """The events of a run after a place; `is_last`: the run has ended, and no more will come."""

    events: list[Row]
    is_last: bool
    is_whole: bool


async def further(connection: Connection, places: Collection[Place]) -> dict[Place, Further]:
    """Of those of `places` where there is something to tell: events, or the end."""
    limit = max(FEWEST_EVENTS, min(MOST_EVENTS_OF_ONE, MOST_EVENTS // max(len(places), 1)))
    found = await rows(
        connection,
        NEXT,
        runs=[run for run, _ in places],
        afters=[after for _, after in places],
        limit=limit,
        bytes=LARGEST_BYTES,
    )
    by_place: dict[Place, list[Row]] = {}
    for each in found:
        by_place.setdefault((each["run"], each["after"]), []).append(each)
    return {place: _further(place, told) for place, told in by_place.items()}


def _further(place: Place, told: list[Row]) -> Further:
    events = [each for each in told if each["seq"] is not None]
    reached = events[-1]["seq"] if events else place[1]
    is_whole = reached >= (told[0]["last"] or 0)
    return Further(events, is_last=is_whole and told[0]["has_ended"], is_whole=is_whole)
