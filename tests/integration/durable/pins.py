"""Workflows that behave as ours do, to pin what DBOS makes of them."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dbos import DBOS

from app.errors import Fenced


@dataclass
class Script:
    """What the workflows of one test do, and what was seen of them."""

    fences: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    gates: list[threading.Event] = field(
        default_factory=lambda: [threading.Event() for _ in range(3)]
    )


SCRIPTS: dict[str, Script] = {}


def script(name: str) -> Script:
    return SCRIPTS.setdefault(name, Script())


@DBOS.step(name="pin.answer")
async def answer(name: str, index: int, pause: float = 0.0) -> dict[str, Any]:
    await asyncio.sleep(pause)
    made = script(name).calls
    made[f"answer {index}"] += 1
    return {"index": index, "text": "é", "body": made[f"answer {index}"]}


@DBOS.step(name="pin.fence")
async def fence(name: str) -> dict[str, Any]:
    doing = script(name)
    doing.calls["fence"] += 1
    if doing.calls["fence"] <= doing.fences:
        raise Fenced("another execution has taken over")
    return {}


@DBOS.step(name="pin.gate")
async def gate(name: str) -> dict[str, Any]:
    """Each body waits at a gate of its own."""
    doing = script(name)
    doing.calls["gate"] += 1
    body = doing.calls["gate"]
    doing.entered.release()
    await asyncio.to_thread(doing.gates[body - 1].wait, 20)
    return {"body": body}


@DBOS.workflow(name="pin.fenced")
async def fenced(name: str) -> str:
    """A step that is refused because another execution has taken over, after one that was not."""
    try:
        await answer(name, 0)
        await fence(name)
    finally:
        script(name).left.append("left")
    return "done"


@DBOS.workflow(name="pin.gathered")
async def gathered(name: str) -> list[int]:
    """As a leg runs its calls; the first one is the last to end."""
    steps = [(index, DBOS.reserve_step()) for index in range(3)]
    outputs = await asyncio.gather(
        *(
            step.run_async({"name": "pin.call"}, answer, name, index, 0.1 * (2 - index))
            for index, step in steps
        )
    )
    try:
        await fence(name)
    finally:
        script(name).left.append("left")
    return [output["index"] for output in outputs]


@DBOS.workflow(name="pin.gated")
async def gated(name: str) -> int:
    try:
        return int((await gate(name))["body"])
    finally:
        script(name).left.append("left")


@DBOS.workflow(name="pin.broken")
async def broken(name: str) -> None:
    raise ValueError(f"{name} does not fit")
