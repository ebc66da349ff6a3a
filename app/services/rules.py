"""Standing rules: made together with an approval, revoked at any time."""

from collections.abc import Mapping
from typing import Any

from app.errors import FieldError, Invalid
from app.services import views_rules
from app.services.context import Caller, Services
from app.store import rules
from app.store.db import Connection


async def make(
    connection: Connection,
    wait: str,
    tool: str,
    properties: Mapping[str, Any],
    said: Mapping[str, Any],
) -> None:
    """In the transaction that resolves `wait`, which asks about `tool` with these arguments."""
    if said.get("tool") not in (None, tool):
        raise _unfit("tool", f"must be {tool}, which this wait asks about")
    for name in said["when"]:
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise _unfit(f"when.{name}", f"is no argument of {tool}; there are: {known}")
    made = await rules.insert(
        connection,
        wait,
        scope=said["scope"],
        conditions=said["when"],
        expires_at=said.get("expires_at"),
    )
    if made is None:
        raise _unfit("expires_at", "must be in the future")


def _unfit(place: str, message: str) -> Invalid:
    problem = FieldError(f"rule.{place}", message)
    return Invalid(f"Correct `{problem.field}`: it {message}.", errors=[problem])


async def revoke(services: Services, rule: str, caller: Caller) -> dict[str, Any]:
    """Calls that it has allowed stay allowed; from now on it allows none."""
    async with services.database.connection() as connection:
        await rules.revoke(connection, rule, caller.actor)
    return await views_rules.get_rule(services, rule)
