"""What a run's page offers to do, and what it says of it."""

import httpx
import pytest

from tests.integration.http.rows import Rows
from tests.integration.http.test_console import look


@pytest.mark.parametrize(
    ("status", "reason", "advice"),
    [
        ("dead_letter", "internal", "Mend first what its workers died of."),
        ("failed", "model_error", "Mend first what the model's provider refused."),
        ("failed", "limit_turns", "Raise the limit that stopped it."),
        ("failed", "deadline", None),
        ("failed", "max_tokens", None),
    ],
)
async def test_a_resume_is_offered_where_it_can_be_with_what_it_takes(
    http: httpx.AsyncClient, rows: Rows, status: str, reason: str, advice: str | None
) -> None:
    run = await rows.run(status=status, reason=reason, finished_at="2026-01-01")

    page = await look(http, f"/runs/{run}")

    assert ('id="act-resume"' in page) == (advice is not None)
    assert advice is None or advice in page
