"""Those who submit runs and answer questions over HTTP, as the script says; they try again."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import httpx

from app.cli.verify.database import Trialed
from app.cli.verify.scenario import Json, Scenario
from app.domain.canonical import digest
from app.errors import ConfigurationError

PAUSE_SECONDS = 0.1
OPEN = "/v1/waits?state=open&limit=200"
ASKED = ("approval", "outcome", "input", "external")


class Clients:
    """`broken`: what was answered with 2xx and was not to be found in the database then."""

    def __init__(self, url: str, scenario: Scenario, database: Trialed) -> None:
        self._scenario = scenario
        self._database = database
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=30)
        self.broken: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ready(self) -> None:
        await self._insist(
            lambda: self._http.get("/health/ready"), lambda answer: answer.is_success
        )

    async def submit(self, agent: str) -> None:
        """Each run under a key of its own, so that trying again makes no second one."""
        for number, part in enumerate(self._scenario.runs):
            body: Json = {"agent": agent, "input": part.text}
            if part.session is not None:
                body["session"] = part.session
            key = digest([number, body])

            async def post(body: Json = body, key: str = key) -> httpx.Response:
                return await self._http.post(
                    "/v1/runs", json=body, headers={"idempotency-key": key}
                )

            answer = await self._insist(post, lambda answer: answer.status_code < 500)
            if answer.is_error:
                raise ConfigurationError(
                    f"Run {number + 1} of the script was refused: {answer.text}"
                )
            run = answer.json()["id"]
            if run not in {each["id"] for each in await asyncio.to_thread(self._database.runs)}:
                self.broken.append(f"POST /v1/runs was answered {answer.status_code}; no such run")

    async def answer(self) -> None:
        """Everything that is open now; whom nobody hears asks again next time."""
        try:
            waits = (await self._http.get(OPEN)).raise_for_status().json()["data"]
            for wait in [wait for wait in waits if wait["kind"] in ASKED]:
                await self._resolve(wait)
        except httpx.HTTPError:
            await asyncio.sleep(PAUSE_SECONDS)

    async def _resolve(self, wait: Json) -> None:
        said = self._scenario.answer(wait["kind"], str(wait["tool"]))
        answer = await self._http.post(f"/v1/waits/{wait['id']}/resolve", json=said)
        if answer.is_success and not await asyncio.to_thread(
            self._database.is_resolved, wait["id"]
        ):
            self.broken.append(
                f"the {wait['kind']} of {wait['tool']} was answered {answer.status_code} "
                "and is not stored"
            )

    async def _insist(
        self, ask: Callable[[], Any], is_enough: Callable[[httpx.Response], bool]
    ) -> httpx.Response:
        while True:
            try:
                answer: httpx.Response = await ask()
                if is_enough(answer):
                    return answer
            except httpx.HTTPError:
                pass  # the API has gone, or is not there yet
            await asyncio.sleep(PAUSE_SECONDS)
