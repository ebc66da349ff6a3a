"""`perdure verify` on what is sound, on what it cannot see, and as a command."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import application
from app.cli.verify.campaign import Choice
from app.cli.verify.scenario import read
from tests.support.database import Cluster
from tests.support.environment import ROOT, inherited
from tests.support.sampling import FULL
from tests.support.scripts import say, together, use
from tests.support.verifying import told, verify

SOUND = "tests.support.faults.sound"
SCRIPT = ROOT / "docs" / "verify-refund-desk.json"
# One of so many trials, so that the whole takes seconds.
STRIDE = 12 if FULL else 120
STEPS = (
    together(use("look", ref="a"), use("note", text="n")),
    use("buy", ref="b"),
    together(use("buy_once", ref="c"), use("buy_surely", ref="d")),
    say("done"),
)


def test_nothing_is_broken_that_is_sound(cluster: Cluster, tmp_path: Path) -> None:
    report = verify(
        cluster,
        tmp_path,
        "sound",
        {"input": "Go.", "model": STEPS},
        agents=SOUND,
        choice=Choice(("kill", "cut"), STRIDE),
    )

    assert {row.verdict for row in report.rows} == {"OK"}, told(report)
    assert len(report.rows) > 2
    assert report.not_tried == set()


def test_what_goes_past_the_proxies_is_told(cluster: Cluster, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        report = verify(
            cluster,
            tmp_path,
            "faulty",
            {"input": "Go.", "model": (use("past_the_proxy", port=port), say("done"))},
            agents="tests.support.faults.tools",
            choice=Choice(only="no window of this name"),
        )

    assert report.not_tried == {
        ("past_the_proxy", f"127.0.0.1:{port}"),
        ("past_the_proxy", f"program {sys.executable}"),
    }


def test_the_command_reports_and_says_by_its_exit_code(cluster: Cluster, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "app.cli", "verify", "refund-desk"),
            *("--script", str(SCRIPT), "--postgres", cluster.url_of("postgres")),
            *("--only", "POST /refunds by refund 2/0, kill after", "--json", "report.json"),
        ],
        cwd=tmp_path,
        env=inherited() | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 trials, none BROKEN" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["sound"]
    assert [row["verdict"] for row in report["rows"]] == ["OK", "OK"]
    assert report["rows"][1]["calls"]["refund 2/0"] == "succeeded"


@pytest.mark.parametrize(
    ("agent", "script", "why"),
    [
        ("refund-desk", "nowhere.json", "cannot be read"),
        ("nobody", str(SCRIPT), "no agent 'nobody'"),
    ],
)
def test_what_cannot_run_says_so(
    agent: str, script: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", inherited())

    done = CliRunner().invoke(application, ["verify", agent, "--script", script])

    assert done.exit_code == 2
    assert why in done.output


def test_the_script_in_the_manual_is_the_one_that_is_there() -> None:
    manual = (ROOT / "docs" / "verify.md").read_text()

    assert SCRIPT.read_text() in manual
    assert len(read(SCRIPT).runs) == 3
