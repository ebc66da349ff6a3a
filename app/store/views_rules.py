"""Standing rules as clients see them."""

from collections.abc import Mapping
from typing import LiteralString

from app.store.db import Connection, Row, row
from app.store.views_pages import View

VIEW: LiteralString = """
select rule.*,
    case when rule.revoked_at is not null then 'revoked'
        when rule.expires_at <= clock_timestamp() then 'expired'
        else 'standing' end as state
from perdure.rules rule
"""

CONDITIONS: Mapping[str, LiteralString] = {
    "agent": "rule.agent = %(agent)s",
    "session": "rule.session = %(session)s",
    "tool": "rule.tool = %(tool)s",
}

PAGES = View(VIEW, "rule", CONDITIONS)


async def get(connection: Connection, rule: str) -> Row | None:
    return await row(connection, " ".join((VIEW, "where rule.id = %(rule)s")), rule=rule)
