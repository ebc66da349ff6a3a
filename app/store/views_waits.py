"""Waits with the tool of the call they hold."""

from collections.abc import Mapping
from typing import LiteralString

from app.store.db import Connection, Row, row
from app.store.views_pages import View

# A rule is made in the transaction that resolves its wait, so an index over its age finds it.
MADE_RULE: LiteralString = """
    case when wait.resolution -> 'rule' is not null then (
        select rule.id from perdure.rules rule
        where rule.created_at = wait.resolved_at and rule.wait = wait.id
    ) end
"""

VIEW: LiteralString = f"""
select wait.*, call.tool,
    {MADE_RULE} as made_rule
from perdure.waits wait left join perdure.calls call on call.id = wait.call
"""  # noqa: S608 - a constant

CONDITIONS: Mapping[str, LiteralString] = {
    "run": """wait.run in (
        with recursive tree (id) as (
            select %(run)s::text
            union all
            select child.id from perdure.runs child join tree on child.parent = tree.id
        )
        select id from tree
    )""",
    "kind": "wait.kind = %(kind)s",
    "state": "wait.state = %(state)s",
}

PAGES = View(VIEW, "wait", CONDITIONS)


async def get(connection: Connection, wait: str) -> Row | None:
    return await row(connection, " ".join((VIEW, "where wait.id = %(wait)s")), wait=wait)


async def asked(connection: Connection, wait: str) -> Row:
    """{kind, state, tool, declared}: the tool, as the run's version of its agent declares it."""
    found = await row(
        connection,
        """
        select wait.kind, wait.state, call.tool, (
            select declared.value
            from perdure.agent_versions version,
                json_array_elements(version.definition -> 'tools') declared
            where version.agent = run.agent and version.version = run.agent_version
                and declared.value ->> 'name' = call.tool
        ) as declared
        from perdure.waits wait
        join perdure.runs run on run.id = wait.run
        left join perdure.calls call on call.id = wait.call
        where wait.id = %(wait)s
        """,
        wait=wait,
    )
    assert found is not None
    return found
