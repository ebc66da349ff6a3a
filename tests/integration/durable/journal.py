"""Starting pinned workflows, and what DBOS's journal then says of them."""

import asyncio
from typing import Any

from dbos import DBOS, SetWorkflowID

from app.store.db import Connection, Row, row, rows
from tests.integration.durable.pins import script
from tests.support.polling import eventually


async def start(workflow: Any, name: str) -> None:  # noqa: ANN401 - any workflow
    with SetWorkflowID(name):
        await asyncio.to_thread(DBOS.start_workflow, workflow, name)


async def status(journal: Connection, name: str) -> str | None:
    query = "select status from dbos.workflow_status where workflow_uuid = %(id)s"
    found = await row(journal, query, id=name)
    return None if found is None else str(found["status"])


async def is_in(journal: Connection, name: str, *wanted: str) -> bool:
    return await status(journal, name) in wanted


async def ends(journal: Connection, name: str, *wanted: str) -> None:
    await eventually(lambda: is_in(journal, name, *wanted), f"{name} is {wanted}")


async def steps(journal: Connection, name: str) -> list[Row]:
    return await rows(
        journal,
        """select function_name, output, serialization from dbos.operation_outputs
           where workflow_uuid = %(id)s order by function_id""",
        id=name,
    )


async def has_left(name: str, times: int) -> None:
    """So many executions have ended, however they did."""

    async def seen() -> bool:
        return len(script(name).left) == times

    await eventually(seen, f"{times} executions of {name} have ended")


async def outcome(journal: Connection, name: str) -> Row:
    query = "select output, error from dbos.workflow_output where workflow_uuid = %(id)s"
    found = await row(journal, query, id=name)
    assert found is not None
    return found
