"""What people and clients decide: approvals, answers, outcomes, standing rules."""

from collections.abc import Mapping
from typing import Any, Literal

from app.client.listing import Listing, query_of
from app.client.models import Call, Json, Rule, Wait, WaitingFor
from app.client.wire import Flow, Request, fetch, path

Asked = str | Wait | WaitingFor
Outcome = Literal["happened", "did_not_happen", "skip"]


def list_waits(
    *, run: str | None = None, kind: str | None = None, state: str | None = None
) -> Listing[Wait]:
    """In every state, unless one is named."""
    return Listing(Wait, "/v1/waits", query_of(run=run, kind=kind, state=state))


def list_approvals(*, run: str | None = None) -> Listing[Wait]:
    """The open ones."""
    return list_waits(run=run, kind="approval", state="open")


def get_wait(wait: str) -> Flow[Wait]:
    """The wait as it is now."""
    return (yield from fetch(Request("GET", path("waits", wait)), Wait.model_validate))


def allow(
    wait: Asked,
    *,
    reason: str | None = None,
    rule: Mapping[str, Any] | None = None,
    arguments_hash: str | None = None,
    on_behalf_of: str | None = None,
) -> Flow[Wait]:
    """Allows the call with the arguments that `wait` shows; of an id, with those it shows now.

    `rule` is a standing rule that allows its like.
    """
    shown = yield from _shown(wait)
    return (
        yield from _resolve(
            shown,
            decision="allow",
            reason=reason,
            arguments_hash=arguments_hash or shown.arguments_hash,
            rule=rule,
            on_behalf_of=on_behalf_of,
        )
    )


def deny(wait: Asked, *, reason: str | None = None, on_behalf_of: str | None = None) -> Flow[Wait]:
    """The call is not run; the model is told so, with the reason."""
    shown = yield from _shown(wait)
    return (
        yield from _resolve(
            shown,
            decision="deny",
            reason=reason,
            arguments_hash=shown.arguments_hash,
            on_behalf_of=on_behalf_of,
        )
    )


def answer(wait: Asked, text: str, *, on_behalf_of: str | None = None) -> Flow[Wait]:
    """Answers a question of the agent."""
    return (yield from _resolve(wait, text=text, on_behalf_of=on_behalf_of))


def settle(
    wait: Asked,
    outcome: Outcome,
    *,
    result: Json = None,
    reason: str | None = None,
    on_behalf_of: str | None = None,
) -> Flow[Wait]:
    """Says what became of a call whose outcome nobody knew; `result` if it happened."""
    said = _outcome(outcome, result, reason)
    return (yield from _resolve(wait, **said, on_behalf_of=on_behalf_of))


def post_result(
    wait: Asked, result: Json, *, is_error: bool = False, on_behalf_of: str | None = None
) -> Flow[Wait]:
    """The result of a tool that runs on the client's side."""
    said = {"result": result, "is_error": is_error or None}
    return (yield from _resolve(wait, **said, on_behalf_of=on_behalf_of))


def list_unknown(
    *, run: str | None = None, session: str | None = None, tool: str | None = None
) -> Listing[Call]:
    """Calls whose outcome nobody knows, also those that no wait asks about."""
    query = query_of(state="outcome_unknown", run=run, session=session, tool=tool)
    return Listing(Call, "/v1/calls", query)


def settle_call(
    call: str | Call, outcome: Outcome, *, result: Json = None, reason: str | None = None
) -> Flow[Call]:
    """The same for a call that no wait asks about, also after the end of its run."""
    name = call if isinstance(call, str) else call.id
    request = Request("POST", path("calls", name, "settle"), body=_outcome(outcome, result, reason))
    return (yield from fetch(request, Call.model_validate))


def list_rules(
    *, agent: str | None = None, session: str | None = None, tool: str | None = None
) -> Listing[Rule]:
    """Standing rules, also those that allow nothing any more."""
    return Listing(Rule, "/v1/rules", query_of(agent=agent, session=session, tool=tool))


def revoke(rule: str) -> Flow[Rule]:
    """From now on it allows nothing."""
    return (yield from fetch(Request("DELETE", path("rules", rule)), Rule.model_validate))


def _shown(wait: Asked) -> Flow[Wait | WaitingFor]:
    return (yield from get_wait(wait)) if isinstance(wait, str) else wait


def _resolve(wait: Asked, **said: Json) -> Flow[Wait]:
    """The same resolution again is answered with the first one, so it may be repeated."""
    name = wait if isinstance(wait, str) else wait.id
    body = {key: value for key, value in said.items() if value is not None or key == "result"}
    request = Request("POST", path("waits", name, "resolve"), body=body)
    return (yield from fetch(request, Wait.model_validate))


def _outcome(outcome: Outcome, result: Json, reason: str | None) -> dict[str, Json]:
    said: dict[str, Json] = {"outcome": outcome}
    if outcome == "happened":
        said["result"] = result
    if reason is not None:
        said["reason"] = reason
    return said
