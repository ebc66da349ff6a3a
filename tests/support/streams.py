"""An event stream as a client reads it: frames, comments, and how it ended."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

Json = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    id: int | None
    event: str
    data: Json


class EventStream:
    """Frames one by one. `comments` counts those seen; `last` is the id to come back with."""

    def __init__(self, response: httpx.Response, after: int = 0) -> None:
        self.response = response
        self.comments = 0
        self.last = after
        self._frames = self._read()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self._frames

    async def next(self) -> Frame:
        return await anext(self._frames)

    async def take(self, count: int) -> list[Frame]:
        return [await self.next() for _ in range(count)]

    async def until(self, event: str) -> list[Frame]:
        """All frames up to the next one of this type."""
        found = [await self.next()]
        while found[-1].event != event:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Frame]:
        """All frames until the service ends the stream."""
        return [frame async for frame in self._frames]

    async def broken_off(self) -> list[Frame]:
        """All frames until the connection is lost."""
        frames = []
        with suppress(httpx.TransportError):
            async for frame in self._frames:
                frames.append(frame)
            raise AssertionError("the stream was ended, not broken off")
        return frames

    async def _read(self) -> AsyncIterator[Frame]:
        fields: dict[str, str] = {}
        async for line in self.response.aiter_lines():
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                assert name not in fields, f"{name} stands twice in one frame"
                fields[name] = value
            elif fields:
                yield self._frame(fields)
                fields = {}
        assert not fields, f"the stream ended inside a frame: {fields}"

    def _frame(self, fields: dict[str, str]) -> Frame:
        assert fields.keys() <= {"id", "event", "data"}, fields
        id = int(fields["id"]) if "id" in fields else None
        self.last = self.last if id is None else id
        return Frame(id, fields["event"], json.loads(fields["data"]))


@asynccontextmanager
async def open_stream(
    http: httpx.AsyncClient, run: str, after: int | None = None, **query: str
) -> AsyncIterator[EventStream]:
    """`after`: where an earlier stream of this client broke off."""
    headers = {"Accept": "text/event-stream"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    path = f"/v1/runs/{run}/events"
    async with http.stream("GET", path, params=query, headers=headers) as response:
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(f"{response.status_code}: {response.text}")
        yield EventStream(response, after or 0)


def stored(frames: list[Frame]) -> list[Json]:
    """The frames as the events that they are."""
    found = [frame.data for frame in frames]
    assert [(f.id, f.event) for f in frames] == [(each["seq"], each["type"]) for each in found]
    return found
