import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = (
    *("cli", "client", "http", "services", "durable", "delivery", "agents", "llm", "tools"),
    *("store", "domain"),
)
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint(directory: Path, package: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", str(ROOT / "pyproject.toml")],
        cwd=directory,
        env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_code_keeps_its_layers() -> None:
    result = lint(ROOT, ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "code", "contract"),
    [
        ("app/store/x.py", "import app.services.runs", "Imports go down the layers only"),
        ("app/extra.py", "", "Imports go down the layers only"),
        ("app/services/x.py", "import dbos", "Only app.durable knows DBOS"),
        ("app/services/x.py", "from fastapi import Request", "Only the HTTP side"),
        ("app/http/x.py", "import uvicorn", "Only roots run a server"),
        ("app/agents/x.py", "import anthropic", "Only app.llm.anthropic knows"),
        ("app/services/x.py", "from app.settings import load", "Settings are read in roots"),
        ("app/domain/x.py", "import sqlalchemy", "The domain does no I/O"),
        ("app/domain/x.py", "import socket", "The domain does no I/O"),
        ("app/http/a.py", "import app.http.b", "No cycles inside a package"),
        ("app/client/x.py", "import app.errors", "The client knows nothing of the service"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, path: str, code: str, contract: str) -> None:
    skeleton = {
        "app/__init__.py": "",
        "app/settings.py": "",
        "app/errors.py": "",
        "app/telemetry.py": "",
        **{f"app/{layer}/__init__.py": "" for layer in LAYERS},
        "app/client/__init__.py": "import httpx",
        "app/main.py": "import fastapi, uvicorn, app.settings",
        "app/worker.py": "import app.settings",
        "app/cli/dev.py": "import uvicorn, app.settings",
        "app/services/runs.py": "",
        "app/http/b.py": "import app.http.a",
        "app/http/a.py": "import starlette",
    }
    for name, text in {**skeleton, path: code}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    result = lint(tmp_path, tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert len(broken) == 1, result.stdout
    assert contract in broken[0]
