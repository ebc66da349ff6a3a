"""The conversation as the model gets it: each `tool_use` paired with one result, in order."""

from dataclasses import dataclass, field
from typing import Any, Self

from app.domain.canonical import Json, readable

Block = dict[str, Any]
Message = dict[str, Any]

UNKNOWN = (
    "The outcome of this call is unknown: it was interrupted, and it may or may not have happened. "
    "Assume neither, and do not repeat it unless you are told to."
)
UNDONE = "\n(This was undone later, when the run was cancelled.)"
NOT_RUN = "This call was not run."
CANCELLED = "(The request above was cancelled; nothing more is to be done about it.)"
UNDER_WAY = ("proposed", "waiting", "ready", "started")
CACHE = {"type": "ephemeral"}


@dataclass(frozen=True)
class ToldCall:
    provider_id: str
    state: str
    result: Any
    told_unknown: bool = False
    undone: bool = False


@dataclass(frozen=True)
class ToldTurn:
    number: int
    content: list[Block]
    stop_reason: str
    calls: tuple[ToldCall, ...] = ()

    @classmethod
    def read(cls, turn: dict[str, Any]) -> Self:
        calls = tuple(ToldCall(**call) for call in turn["calls"])
        return cls(turn["number"], turn["content"], turn["stop_reason"], calls)


@dataclass(frozen=True)
class ToldRun:
    """`messages`: what people said, by the number of the turn that it went out with."""

    input: str | list[Block]
    turns: tuple[ToldTurn, ...] = ()
    messages: dict[int, list[str | list[Block]]] = field(default_factory=dict)
    cancelled: bool = False

    @classmethod
    def read(cls, run: dict[str, Any]) -> Self:
        """From a row of the session's history."""
        messages: dict[int, list[str | list[Block]]] = {}
        for message in run["messages"] or ():
            said = message["content"] or message["text"]
            messages.setdefault(message["turn"], []).append(said)
        turns = tuple(ToldTurn.read(turn) for turn in run["turns"] or ())
        return cls(run["input"], turns, messages, run["cancelled"])


def _is_under_way(call: ToldCall) -> bool:
    """Also while a person is asked what happened: the model has not been told that nobody knows."""
    asked = call.state == "outcome_unknown" and call.result is None and not call.told_unknown
    return asked or call.state in UNDER_WAY


def told(call: ToldCall) -> tuple[str, bool]:
    """What the model reads as the call's result, and whether it is an error."""
    if call.told_unknown or call.state in ("outcome_unknown", "started"):
        return UNKNOWN, True
    detail = call.result.get("detail") if isinstance(call.result, dict) else None
    match call.state:
        case "succeeded":
            return _success(call.result) + (UNDONE if call.undone else ""), False
        case "failed":
            return _failure(detail), True
        case "denied":
            return f"This call was denied and not run. Reason: {detail or 'none given'}.", True
        case "expired":
            return _expired(detail), True
        case "cancelled":
            return "This call was cancelled; it was not run.", True
        case _:
            return NOT_RUN, True


def _expired(asked: Json) -> str:
    match asked:
        case "input":
            return "The question expired: nobody answered it in time."
        case "external":
            return "This call expired: no result of it came in time."
        case _:
            return "The approval of this call expired; it was not run."


def _failure(detail: Json) -> str:
    """What a client says of a call that failed on its side may be any JSON."""
    text = detail if isinstance(detail, str) else readable(detail)
    return "The call failed." if detail is None or not text.strip() else text


def _success(result: Json) -> str:
    if isinstance(result, dict) and result.get("error") in (
        "result_too_large",
        "result_unencodable",
    ):
        return (
            "The call was done and must not be repeated, but its result cannot be shown: "
            + readable(result)
        )
    return result if isinstance(result, str) and result.strip() else readable(result)


def conversation(runs: list[ToldRun], *, so_far: bool = False) -> list[Message]:
    """Runs of one session, oldest first; the last one is the one that goes on.

    `so_far`: calls may be under way, of which there is nothing to tell yet."""
    messages: list[Message] = []
    for run in runs:
        if run.cancelled and not run.turns:
            # Nothing was done about it, and nothing is to be done about it now.
            continue
        _say(messages, "user", _blocks(run.input))
        for turn in run.turns:
            _say(messages, "user", _texts(run, turn.number))
            _say(messages, "assistant", _sayable(turn))
            _say(messages, "user", _results(turn, so_far=so_far))
        _say(messages, "user", _texts(run, len(run.turns) + 1))
        if run.cancelled:
            _say(messages, "user", _blocks(CANCELLED))
    return messages


def cached(messages: list[Message]) -> list[Message]:
    """The same messages with a cache breakpoint at the end of what is ours to mark."""
    if not messages or messages[-1]["role"] != "user":
        return messages
    *blocks, last = messages[-1]["content"]
    return [
        *messages[:-1],
        {"role": "user", "content": [*blocks, {**last, "cache_control": CACHE}]},
    ]


def _say(messages: list[Message], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(blocks)
    else:
        messages.append({"role": role, "content": list(blocks)})


def _blocks(content: str | list[Block]) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(run: ToldRun, turn: int) -> list[Block]:
    return [block for said in run.messages.get(turn, ()) for block in _blocks(said)]


def _sayable(turn: ToldTurn) -> list[Block]:
    """The answer as received, but for what the API refuses: blank text, tools that were never
    called, and thinking that nothing follows."""
    whole = bool(turn.calls) or turn.stop_reason == "pause_turn"
    blocks = [
        block
        for block in turn.content
        if not _is_blank(block) and (whole or block.get("type") != "tool_use")
    ]
    while not whole and blocks and blocks[-1].get("type") in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _results(turn: ToldTurn, *, so_far: bool) -> list[Block]:
    results = []
    for call in turn.calls:
        if so_far and _is_under_way(call):
            continue
        text, is_error = told(call)
        block: Block = {"type": "tool_result", "tool_use_id": call.provider_id, "content": text}
        results.append({**block, "is_error": True} if is_error else block)
    return results
