"""What the processes under test find in their environment."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
AGENTS = "tests.support.agents"
WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def inherited() -> dict[str, str]:
    """This process's environment less what only the tests may read: unknown names are refused."""
    kept = {"PERDURE_ALLOW_UNSAFE_DATABASE"}
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(("PERDURE_", "ANTHROPIC_"))
    }


def of_service(database_url: str, world_url: str) -> dict[str, str]:
    return inherited() | {
        "PERDURE_DATABASE_URL": database_url,
        "PERDURE_AGENTS": AGENTS,
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": world_url,
        "PERDURE_WEBHOOK_SECRET": WEBHOOK_SECRET,
        "PERDURE_WEBHOOK_ALLOW_PRIVATE": "1",
        "WORLD_URL": world_url,
        "PYTHONUNBUFFERED": "1",
    }
