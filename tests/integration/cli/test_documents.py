"""What docs/client.md and docs/cli.md tell a reader to run does run, beside `perdure dev`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.test_dev import PATIENCE_SECONDS, ROOT, Dev, home, make_environment
from tests.support.processes import free_port

__all__ = ["home"]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def list_blocks(document: str, language: str) -> list[str]:
    text = (ROOT / "docs" / document).read_text()
    return [code for kind, code in FENCED.findall(text) if kind == language]


@pytest.fixture
def reader(home: Path) -> Iterator[dict[str, str]]:
    """The environment of one who reads, with `perdure` on the path and a service running."""
    port = free_port()
    environment = make_environment(port)
    programs = home / "bin"
    programs.mkdir()
    (programs / "perdure").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m app.cli "$@"\n')
    (programs / "perdure").chmod(0o755)
    dev = Dev(home, environment)
    with dev.process:
        dev.read_until("Ready on")
        yield environment | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PERDURE_URL": f"http://127.0.0.1:{port}",
        }
        dev.process.send_signal(signal.SIGINT)
        dev.process.wait(PATIENCE_SECONDS)


def run(command: list[str], home: Path, reader: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=home, env=reader, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_run(home: Path, reader: dict[str, str]) -> None:
    told = [
        run([sys.executable, "-P", "-c", code], home, reader)
        for code in list_blocks("client.md", "python")
    ]
    assert told[0].startswith("succeeded Order 1001 is refunded")
    assert "run.succeeded" in told[1]
    assert told[2].startswith("refund {'order_id': '1005'")
    assert "is refunded: 2400.00" in told[2]
    assert told[3].startswith("/problems/not-found ")

    shell = [run(["sh", "-ec", code], home, reader) for code in list_blocks("cli.md", "sh")]
    assert "held" in shell[0]
    assert shell[1].startswith("Order 1002")
