"""Ctrl-C while a command is still being imported."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.environment import ROOT, inherited


def test_an_interrupt_before_the_command_has_begun_is_no_fault(tmp_path: Path) -> None:
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["perdure"]
    module, _, name = script.partition(":")
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {name} as begin; begin()"],
        env=inherited() | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
