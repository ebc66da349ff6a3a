"""Calls of all runs that somebody should look at."""

from collections.abc import Mapping
from typing import LiteralString

from app.store.views_pages import View

# Both conditions together are those of the index `calls_unknown`.
UNKNOWN: LiteralString = """
select call.*
from (
    select * from perdure.calls where state = 'outcome_unknown' and not skipped
) call
"""

CONDITIONS: Mapping[str, LiteralString] = {
    "state": "call.state = %(state)s",
    "run": "call.run = %(run)s",
    "session": "call.session = %(session)s",
    "tool": "call.tool = %(tool)s",
}

PAGES = View(UNKNOWN, "call", CONDITIONS)
