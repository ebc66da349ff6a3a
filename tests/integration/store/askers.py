"""Runs that ask one provider, and a clock that a test moves."""

import itertools
from dataclasses import dataclass
from typing import Any

from app.store import turns, waits
from app.store.db import Row, rows
from tests.integration.store.stage import Stage

_names = itertools.count()


class Provider:
    """Nobody else asks it."""

    def __init__(self, stage: Stage, cap: int | None = None) -> None:
        self.stage = stage
        self.cap = cap
        self.name = f"provider-{next(_names)}"

    def seen_by(self, stage: Stage) -> "Provider":
        """The same one, over another connection."""
        other = Provider(stage, self.cap)
        other.name = self.name
        return other

    async def asker(self, worker: str = "w1") -> "Asker":
        run = await self.stage.submit()
        return Asker(self, run, await self.stage.take(run, worker))

    async def askers(self, count: int) -> list["Asker"]:
        return [await self.asker() for _ in range(count)]

    async def let_in(self) -> None:
        """What the clock does each moment."""
        await turns.let_in(self.stage.connection)

    async def row(self) -> Row:
        query = "select * from perdure.providers where name = %(name)s"
        return await self.stage.one(query, name=self.name)

    async def spacing(self) -> float:
        return float((await self.row())["spacing"])

    async def set_spacing(self, seconds: float) -> None:
        await self.stage.do(
            "update perdure.providers set spacing = %(s)s where name = %(name)s",
            name=self.name,
            s=seconds,
        )

    async def line(self) -> list[str]:
        """The runs that stand in it."""
        query = "select run from perdure.line where provider = %(name)s order by asked_at"
        return [each["run"] for each in await rows(self.stage.connection, query, name=self.name)]

    async def pass_time(self, seconds: float) -> None:
        """As if all that is known of it were so much older."""
        of_provider = "update perdure.providers set {} where name = %(name)s"
        of_line = "update perdure.line set {} where provider = %(name)s"
        of_waits = """update perdure.waits set {} where state = 'open'
            and run in (select run from perdure.line where provider = %(name)s)"""
        for statement, columns in (
            (of_waits, ("deadline",)),
            (of_provider, ("not_before", "next_at", "throttled_at")),
            (of_line, ("asked_at", "let_in_at")),
        ):
            earlier = ", ".join(f"{c} = {c} - make_interval(secs => %(s)s)" for c in columns)
            await self.stage.do(statement.format(earlier), name=self.name, s=seconds)


@dataclass
class Asker:
    provider: Provider
    run: str
    fence: int

    async def ask(self, turn: int = 1) -> str:
        at = self.provider
        return await at.stage.begin(self.run, self.fence, turn, provider=at.name, cap=at.cap)

    async def is_refused(self, told: float = 2.0, **more: Any) -> None:
        assert await self.provider.stage.fail(self.run, self.fence, told=told, **more) == "ok"

    async def is_answered(self, turn: int = 1) -> None:
        assert await self.provider.stage.answer(self.run, self.fence, turn) == "ok"

    async def wait(self) -> Row:
        """The timer it waits for."""
        query = "select * from perdure.waits where run = %(run)s and state = 'open'"
        return await self.provider.stage.one(query, run=self.run)

    async def comes_back(self) -> str:
        """Once the pause after its refusal is over."""
        await self.provider.stage.do(
            "update perdure.waits set deadline = now() where run = %(run)s and state = 'open'",
            run=self.run,
        )
        assert await self.wakes()
        return await self.ask()

    async def wakes(self) -> bool:
        """Parks, and goes on if its timer is due."""
        stage = self.provider.stage
        if not (await stage.run(self.run))["parked"]:
            assert await stage.park(self.run, self.fence) == "parked"
        woken = await waits.expire(stage.connection, (await self.wait())["id"])
        if woken["leg"] is None:
            return False
        self.fence = await stage.take(self.run)
        return True
