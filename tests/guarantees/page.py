"""docs/guarantees.md, from the claims and from what the last recorded run has proved."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.guarantees.claims import COLUMNS, POLICIES, Claim, Claims, Table, Window, read
from tests.support.environment import ROOT

RUN = Path(__file__).parent / "last_run.json"
PAGE = ROOT / "docs" / "guarantees.md"

HEADS = {
    **{policy: f"`{policy}`" for policy in POLICIES},
    "model_calls": "model calls paid",
    "client": "what the client sees",
}
INTRODUCTION = """\
# Guarantees

What holds when a process is killed with `kill -9`, for each moment it can be killed at, and the
tests that kill one there. They start real processes on a real PostgreSQL; after each of them an
audit of the database must find no broken invariant.

This page is made by `make guarantees` from `tests/guarantees/claims.toml`; do not edit it. A run of
the suite fails if a test named here fails or is not there; one that is recorded, or made for a
change to be accepted, also if one is skipped. Names are of functions in `tests/acceptance` and
`tests/migration`; a name without brackets stands for all its cases.
"""
NOT_RECORDED = "No run of the acceptance tests has been recorded yet: `make guarantees` does it.\n"


def main() -> None:
    PAGE.write_text(render(read(), read_run()))


def read_run() -> dict[str, Any] | None:
    return json.loads(RUN.read_text()) if RUN.exists() else None


def render(claims: Claims, run: dict[str, Any] | None) -> str:
    parts = [INTRODUCTION, _run(run), _overview(claims.windows)]
    parts += [_window(window) for window in claims.windows]
    parts += [_table(table) for table in claims.tables]
    return "\n".join(parts)


def _run(run: dict[str, Any] | None) -> str:
    if run is None:
        return "## The last recorded run\n\n" + NOT_RECORDED
    failed = [f"`{test}`: {ended}" for test, ended in run["proofs"].items() if ended != "passed"]
    tests = ", ".join(f"{count:,} {outcome}" for outcome, count in run["tests"].items())
    lines = [
        ("date, commit", f"{run['date']}, `{run['commit']}`"),
        ("Python, PostgreSQL, DBOS", f"{run['python']}, {run['postgres']}, {run['dbos']}"),
        ("machine", f"{run['machine']}, {run['cores']} cores"),
        ("tests", f"{tests}; each once, in {run['seconds']:,} s"),
        ("matrices and sweeps", "a sample" if run["sampled"] else "whole"),
        ("guarantees without a passing test", "; ".join(failed) or "none"),
    ]
    return "## The last recorded run\n\n" + _rows(("", ""), lines)


def _overview(windows: Sequence[Window]) -> str:
    text = (
        "## Each window, each policy\n\n"
        "`idempotent` and `at_most_once` are begun by committing an intent; without it the tool\n"
        "is not called. The other two write it together with the outcome.\n\n"
    )
    rows = [
        (f"[{window.name}](#{window.name.replace(' ', '-')})", *_says(window)) for window in windows
    ]
    return text + _rows(("killed", *HEADS.values()), rows)


def _says(window: Window) -> Iterable[str]:
    return (window.cells[column].says for column in COLUMNS)


def _window(window: Window) -> str:
    proofs = {
        test: [HEADS[column] for column in COLUMNS if test in window.cells[column].by]
        for column in COLUMNS
        for test in window.cells[column].by
    }
    rows = [(f"`{test}`", ", ".join(cells)) for test, cells in proofs.items()]
    head = f"### {window.name[0].upper()}{window.name[1:]}\n\n{window.means}\n\n"
    return head + _rows(("test", "what it proves"), rows)


def _table(table: Table) -> str:
    rows = [(p.when, p.claim.says, _tests(p.claim)) for p in table.promises]
    text = f"{table.text.strip()}\n\n" if table.text else ""
    return f"## {table.title}\n\n{text}" + _rows((*table.heads, "proved by"), rows)


def _tests(claim: Claim) -> str:
    return ", ".join(f"`{test}`" for test in claim.by)


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join(lines) + "\n"
