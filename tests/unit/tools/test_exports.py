"""`import app` gives the public names, and is cheap."""

import subprocess
import sys

import app


def test_the_public_names_can_be_imported() -> None:
    assert set(app.__all__) == {
        *("Agent", "Limits", "ToolContext", "ToolError", "tool"),
        *("Happened", "DidNotHappen", "CannotTell"),
        *("ask_user", "delegate", "sleep_for", "sleep_until"),
    }
    assert all(hasattr(app, name) for name in app.__all__)


def test_importing_app_loads_no_database_and_no_vendor() -> None:
    code = "import sys, app, app.tools.registry; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    heavy = {"anthropic", "dbos", "fastapi", "httpx", "psycopg", "sqlalchemy", "starlette"}
    assert heavy.isdisjoint(loaded.stdout.split())
