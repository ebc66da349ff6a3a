"""The native HTTP interface, as thin typed functions that read like the acceptance documents."""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.polling import TIMEOUT, eventually
from tests.support.scripts import Step, script

Json = dict[str, Any]
ENDED = ("succeeded", "failed", "cancelled", "dead_letter")


class Client:
    """Speaks to one API; `http` is there for requests that are meant to be refused."""

    def __init__(self, url: str) -> None:
        self.http = httpx.AsyncClient(base_url=url, timeout=70)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.http.aclose()

    # --- runs

    async def post_run(self, body: Mapping[str, Any], **headers: str) -> httpx.Response:
        return await self.http.post(
            "/v1/runs",
            content=json.dumps(body),  # ASCII: the tests send what no UTF-8 can hold, too
            headers={"content-type": "application/json"}
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )

    async def submit(
        self, *steps: Step, agent: str = "desk", preface: str = "", **fields: Any
    ) -> Json:
        """Submits a run whose model follows `steps`; the accepted run."""
        body = {"agent": agent, "input": script(*steps, preface=preface)}
        response = await self.post_run(body | fields)
        return _body(response, 202)

    async def run(self, run: str) -> Json:
        return await self._get(f"/v1/runs/{run}")

    async def wait_for(self, run: str, *statuses: str, within: float = TIMEOUT) -> Json:
        """The run once it has one of `statuses`; fails at once when it ended otherwise."""
        last: Json = {}

        async def probe() -> Json | None:
            nonlocal last
            last = await self.run(run)
            if last["status"] in statuses:
                return last
            if last["status"] in ENDED:
                raise AssertionError(f"{run} ended {last['status']}, not {statuses}: {last}")
            return None

        return await eventually(probe, lambda: f"{run} became {statuses}: {last}", within)

    async def succeeded(self, run: str, within: float = TIMEOUT) -> Json:
        return await self.wait_for(run, "succeeded", within=within)

    async def ended(self, run: str, within: float = TIMEOUT) -> Json:
        return await self.wait_for(run, *ENDED, within=within)

    async def events(self, run: str) -> list[Json]:
        """The whole event log of a run."""
        return await self._pages(f"/v1/runs/{run}/events")

    async def event_types(self, run: str) -> list[str]:
        return [event["type"] for event in await self.events(run)]

    async def strandings(self, run: str) -> list[str]:
        """Why its legs had to be carried on by others; no crash alone comes to that."""
        events = await self.events(run)
        return [str(e["data"]["why"]) for e in events if e["type"] == "run.handed_off"]

    async def calls(self, run: str) -> list[Json]:
        return await self._pages(f"/v1/runs/{run}/calls")

    async def call(self, run: str) -> Json:
        """The only call of a run."""
        (call,) = await self.calls(run)
        return call

    async def call_states(self, run: str, states: list[str], within: float = TIMEOUT) -> None:
        """Returns once the calls of the run, in order, are in these states."""

        async def probe() -> bool:
            return [call["state"] for call in await self.calls(run)] == states

        await eventually(probe, f"the calls of {run} became {states}", within)

    async def turns(self, run: str) -> list[Json]:
        return await self._pages(f"/v1/runs/{run}/turns")

    async def cancel(
        self, run: str, reason: str = "no longer needed", **query: str
    ) -> httpx.Response:
        path = f"/v1/runs/{run}/cancel"
        return await self.http.post(path, params=query, json={"reason": reason})

    async def compensate(self, run: str) -> httpx.Response:
        return await self.cancel(run, compensate="true")

    async def resume(self, run: str, **limits: Any) -> httpx.Response:
        return await self.http.post(f"/v1/runs/{run}/resume", json={"limits": limits})

    async def fork(self, run: str, turn: int, **fields: Any) -> httpx.Response:
        return await self.http.post(f"/v1/runs/{run}/fork", json={"turn": turn} | fields)

    async def children(self, run: str, count: int, within: float = TIMEOUT) -> list[Json]:
        """The children of a run, in the order of their start, once there are so many."""

        async def probe() -> list[Json] | None:
            children = (await self.run(run))["children"]
            return [await self.run(c) for c in children] if len(children) == count else None

        return await eventually(probe, f"{run} has {count} children", within)

    async def child(self, run: str, within: float = TIMEOUT) -> Json:
        """The only child of a run."""
        (child,) = await self.children(run, 1, within)
        return child

    async def send(self, run: str, text: str) -> httpx.Response:
        return await self.http.post(f"/v1/runs/{run}/messages", json={"text": text})

    async def messages(self, run: str) -> list[Json]:
        return await self._pages(f"/v1/runs/{run}/messages")

    # --- waits

    async def waits(self, run: str, **filters: str) -> list[Json]:
        return await self._pages("/v1/waits", run=run, **filters)

    async def open_waits(
        self, run: str, kind: str = "approval", count: int = 1, within: float = TIMEOUT
    ) -> list[Json]:
        """The open waits of a run parked on `count` of them, in call order."""

        async def probe() -> list[Json] | None:
            if (await self.run(run))["status"] != "waiting":
                return None
            waits = await self.waits(run, kind=kind, state="open")
            return waits if len(waits) == count else None

        waits = await eventually(probe, f"{run} parked on {count} open {kind} waits", within)
        return sorted(waits, key=lambda wait: wait["call"])

    async def open_wait(self, run: str, kind: str = "approval", within: float = TIMEOUT) -> Json:
        (wait,) = await self.open_waits(run, kind, 1, within)
        return wait

    async def descendants_waits(
        self, run: str, kind: str, count: int = 1, within: float = TIMEOUT
    ) -> list[Json]:
        """The open waits of a kind that a run shows of its own and of those below it."""

        async def probe() -> list[Json] | None:
            found = [w for w in (await self.run(run))["waiting_for"] if w["kind"] == kind]
            return found if len(found) == count else None

        return await eventually(probe, f"{run} shows {count} open {kind} waits", within)

    async def resolved_and_asked_again(self, run: str, known: str, within: float = TIMEOUT) -> None:
        """Returns once another approval than `known` is open below the run."""

        async def probe() -> bool:
            waits = (await self.run(run))["waiting_for"]
            return any(w["kind"] == "approval" and w["id"] != known for w in waits)

        await eventually(probe, f"{run} shows another approval", within)

    async def tree(self, run: str) -> list[Json]:
        """The run and all below it."""
        found = await self.run(run)
        below = [await self.tree(child) for child in found["children"]]
        return [found, *(member for members in below for member in members)]

    async def other_wait(self, run: str, known: str, within: float = TIMEOUT) -> Json:
        """The open approval of a run that was asked after `known`."""

        async def probe() -> Json | None:
            waits = await self.waits(run, kind="approval", state="open")
            return next((wait for wait in waits if wait["id"] != known), None)

        return await eventually(probe, f"{run} asked another question than {known}", within)

    async def wait_of(self, run: str, within: float = TIMEOUT) -> Json:
        """The first approval of a run, whatever became of it."""

        async def probe() -> Json | None:
            return next(iter(await self.waits(run, kind="approval")), None)

        return await eventually(probe, f"{run} asked for an approval", within)

    async def resolve(self, wait: str, body: Mapping[str, Any]) -> httpx.Response:
        return await self.http.post(f"/v1/waits/{wait}/resolve", json=body)

    async def allow(self, wait: str) -> Json:
        return _body(await self.resolve(wait, {"decision": "allow"}), 200)

    async def deny(self, wait: str, reason: str = "not today") -> Json:
        return _body(await self.resolve(wait, {"decision": "deny", "reason": reason}), 200)

    async def allow_and_rule(self, wait: str, **rule: Any) -> Json:
        """Allows a call and, by a standing rule, others like it; the rule."""
        said = {"decision": "allow", "rule": rule}
        _body(await self.resolve(wait, said), 200)
        return next(made for made in await self.rules() if made["wait"] == wait)

    async def rules(self) -> list[Json]:
        return await self._pages("/v1/rules")

    async def revoke(self, rule: str) -> httpx.Response:
        return await self.http.delete(f"/v1/rules/{rule}")

    async def settle(self, call: str, body: Mapping[str, Any]) -> httpx.Response:
        return await self.http.post(f"/v1/calls/{call}/settle", json=body)

    async def deliveries(self, run: str, **filters: str) -> list[Json]:
        """What its callback was to be told of a run, latest first."""
        return await self._pages("/v1/webhooks/deliveries", run=run, **filters)

    async def redeliver(self, delivery: str) -> httpx.Response:
        return await self.http.post(f"/v1/webhooks/deliveries/{delivery}/redeliver")

    async def raw(self, path: str) -> str:
        """The text of an answer, as it came over the wire."""
        response = await self.http.get(path)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        return response.text

    async def _get(self, path: str, **params: str) -> Json:
        return _body(await self.http.get(path, params=params), 200)

    async def _pages(self, path: str, **params: str) -> list[Json]:
        items: list[Json] = []
        after: str | None = None
        while True:
            cursor = {} if after is None else {"after": str(after)}
            page = await self._get(path, limit="200", **params, **cursor)
            items += page["data"]
            after = page["next"]
            if after is None or not page["data"]:
                return items


def _body(response: httpx.Response, expected: int) -> Json:
    assert response.status_code == expected, f"{response.status_code}: {response.text}"
    body: Json = response.json()
    return body
