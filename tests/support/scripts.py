"""What the scripted model does, step by step, in words that a test can be read by."""

import json
from collections.abc import Mapping
from typing import Any

Step = Mapping[str, Any]


def script(*steps: Step, preface: str = "") -> str:
    """The user's text that makes the model follow `steps`."""
    return preface + json.dumps({"script": steps})


def say(text: str) -> Step:
    """An answer that ends the run."""
    return {"text": text}


def use(tool: str, **arguments: object) -> Step:
    """An answer that asks for one call."""
    return {"calls": [{"tool": tool, "args": arguments}]}


def give(*steps: Step, agent: str = "desk", preface: str = "") -> Step:
    """An answer that gives a child run a task; its model follows `steps`."""
    return use("delegate", agent=agent, input=script(*steps, preface=preface))


def together(*uses: Step) -> Step:
    """An answer that asks for several calls at once."""
    return {"calls": [call for step in uses for call in step["calls"]]}


def with_usage(step: Step, **usage: int) -> Step:
    """The same answer, at the price of these tokens."""
    return {**step, "usage": usage}


def answer(*blocks: Mapping[str, Any], stop_reason: str) -> Step:
    """An answer of raw content blocks."""
    return {"content": blocks, "stop_reason": stop_reason}


def refuse(status: int, retry_after: int | None = None) -> Step:
    """No answer, but an HTTP error."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return {"status": status, "headers": headers}


def cut(place: str = "mid_text") -> Step:
    """An answer whose stream breaks off."""
    return {"cut": place}


def by_attempt(*steps: Step) -> Step:
    """The n-th request for this step gets the n-th of `steps`; the last one repeats."""
    return {"times": steps}
