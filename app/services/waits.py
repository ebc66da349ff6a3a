"""Resolving waits: the resolution and the leg that goes on with it are one commit."""

from typing import Any

from app.domain.canonical import canonical_json
from app.errors import AlreadyResolved, StaleArguments, WaitClosed
from app.services import results, rules, views_waits
from app.services.cancels import Order, cancel_children
from app.services.context import Caller, Services, refuse_large
from app.store import views_waits as asking
from app.store import waits
from app.store.db import Connection, Row, Transaction


async def resolve(
    services: Services, wait: str, said: dict[str, Any], caller: Caller, on_behalf_of: str | None
) -> dict[str, Any]:
    """First resolution wins: the same again is answered with the first, another is refused."""
    refuse_large(said)
    if "result" in said and not said.get("is_error"):
        await _check_result(services, wait, said["result"])
    arguments_hash = said.pop("arguments_hash", None)
    async with services.database.transaction() as transaction:
        answer = await waits.resolve(
            transaction.connection,
            wait,
            canonical_json(said),
            arguments_hash=arguments_hash,
            by=caller.actor,
            on_behalf_of=on_behalf_of,
            via=caller.channel,
        )
        if answer["verdict"] == "resolved" and "rule" in said:
            await _make_rule(transaction.connection, wait, said["rule"])
        await _go_on(services, transaction, answer, caller)
    if answer["run"] is not None:
        services.notifier.tell(answer["run"])
    return _shown(await views_waits.get_wait(services, wait), answer["verdict"])


async def _check_result(services: Services, wait: str, result: object) -> None:
    """Before the run is locked: it may take a while. Who comes too late is told so instead."""
    async with services.database.connection() as connection:
        asked = await asking.asked(connection, wait)
    schema = (asked["declared"] or {}).get("result_schema")
    if asked["kind"] == "external" and asked["state"] == "open" and schema is not None:
        await results.check(result, schema)


async def _make_rule(connection: Connection, wait: str, rule: dict[str, Any]) -> None:
    """If it does not fit the tool that was asked about, nothing is resolved."""
    asked = await asking.asked(connection, wait)
    schema = (asked["declared"] or {}).get("input_schema", {})
    await rules.make(connection, wait, asked["tool"], schema.get("properties", {}), rule)


async def _go_on(services: Services, transaction: Transaction, answer: Row, caller: Caller) -> None:
    if answer["leg"] is not None:
        await services.legs.enqueue(transaction, answer["run"], answer["leg"])
    if answer["cancelling"]:
        order = Order(caller.actor, "denied", compensate=True)
        await cancel_children(services, transaction, answer["run"], order)


def _shown(wait: dict[str, Any], verdict: str) -> dict[str, Any]:
    match verdict:
        case "other":
            who = wait["on_behalf_of"] or wait["resolved_by"]
            raise AlreadyResolved(
                f"{who} has resolved this wait otherwise; the first one holds.",
                extra={"wait": wait},
            )
        case "stale":
            raise StaleArguments("These are not the arguments that are waiting; look again.")
        case "closed":
            raise WaitClosed(f"This wait is {wait['state']}; nothing can be resolved any more.")
        case _:
            return wait
