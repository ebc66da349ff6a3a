"""Those who submit runs and answer questions, as the script says."""

import asyncio
import hashlib
from typing import Any, Self

import psycopg

from app.cli.verify.scenario import Scenario
from app.durable.enqueue import Legs
from app.errors import PerdureError
from app.services.context import Caller, Services
from app.services.runs import Submission, submit
from app.services.waits import resolve
from app.store.db import Database, rows
from app.store.notify import Notifier

WHO = Caller("verify", "verify")
_OPEN = """
    select w.id, w.kind, w.call, c.tool from perdure.waits w
    left join perdure.calls c on c.id = w.call
    where w.state = 'open' and w.kind in ('approval', 'outcome', 'input', 'external')
"""


class Clients:
    """They use what the API uses, and do not go through the proxy."""

    def __init__(self, url: str, scenario: Scenario) -> None:
        self._scenario = scenario
        self._database = Database(url, size=2, patience=10.0)
        self._legs = Legs(url)

    async def __aenter__(self) -> Self:
        await self._database.__aenter__()
        self._services = Services(self._database, self._legs, Notifier(self._database))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.__aexit__()
        await asyncio.to_thread(self._legs.close)

    async def submit(self, agent: str) -> list[str]:
        runs = []
        for part in self._scenario.runs:
            submission = Submission(
                agent=agent,
                input=part.text,
                session=part.session,
                target=None,
                on_busy="queue",
                limits={},
                priority=0,
                deadline=None,
                metadata={},
                callback=None,
                trace_id=hashlib.md5(part.text.encode()).hexdigest(),
            )
            runs.append((await submit(self._services, submission, WHO, None, "")).run)
        return runs

    async def answer(self) -> None:
        """Everything that is open now."""
        async with self._database.connection() as connection:
            found = await rows(connection, _OPEN)
        for wait in found:
            said: dict[str, Any] = dict(self._scenario.answer(wait["kind"], str(wait["tool"])))
            try:
                await resolve(self._services, wait["id"], said, WHO, None)
            except (PerdureError, psycopg.OperationalError):
                continue  # it has been closed meanwhile, or is asked again next time
