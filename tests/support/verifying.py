"""`perdure verify` on a script of a test's own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from app.cli.verify import Options, run
from app.cli.verify.campaign import Choice
from app.cli.verify.report import Report, Row
from tests.support.database import Cluster
from tests.support.environment import ROOT, inherited

FAULTS = Path(__file__).parent / "faults"
SHOP = {"app": "tests.support.faults.shop:create_app", "ledger": "/ledger"}


def verify(
    cluster: Cluster,
    directory: Path,
    agent: str,
    *runs: Mapping[str, Any],
    agents: str,
    choice: Choice,
    tables: str = "notes.sql",
    fault: str = "",
    **fields: Any,
) -> Report:
    """`fault`: the one that is planted in the engine."""
    script = directory / "script.json"
    scenario = {
        "runs": list(runs),
        "services": {"SHOP_URL": SHOP},
        "tables": str(FAULTS / tables),
        "environment": {"PERDURE_TEST_FAULT": fault},
        **fields,
    }
    script.write_text(json.dumps(scenario))
    source = cluster.clone()
    options = Options(
        agent,
        script,
        choice,
        postgres=cluster.url_of("postgres"),
        home=directory,
        source=make_url(source).database or "",
    )
    environment = inherited() | {"PYTHONPATH": str(ROOT), "PERDURE_AGENTS": agents}
    try:
        return run(options, environment)
    finally:
        cluster.drop(source)


def found(report: Report) -> list[tuple[str, str, str]]:
    """The broken invariants, whom they are blamed on, and where that is."""
    breaches = [each for row in report.broken for each in row.breaches]
    return [(each.invariant, each.tool, each.source) for each in breaches]


def told(report: Report) -> str:
    return "\n".join(_line(row) for row in report.rows)


def _line(row: Row) -> str:
    breaches = "".join(f"\n    {each}" for each in row.breaches)
    return f"{row.verdict} {row.window}, {row.column}{breaches}"
