"""A pytest plugin: notes how the tests ended that prove a guarantee, and fails a run that leaves
one unproved. It works in the process that sees all reports, with and without xdist."""

import json
import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.guarantees import claims
from tests.support.environment import ROOT
from tests.support.sampling import FULL

PROVING = (ROOT / "tests" / "acceptance", ROOT / "tests" / "migration")
OPTION = "--guarantees"
POSTGRES = pytest.StashKey[str]()

Outcomes = Mapping[str, str]


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, metavar="FILE", type=Path, help="write down there what this run has proved"
    )


def note_server(config: pytest.Config, postgres: str) -> None:
    """Told by whichever process has opened a database server."""
    config.stash[POSTGRES] = postgres
    if hasattr(config, "workeroutput"):
        config.workeroutput["postgres"] = postgres


class Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = time.monotonic()
        self._outcomes: dict[str, str] = {}
        self._unproved: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.nodeid.startswith(("tests/acceptance/", "tests/migration/")):
            return
        name = report.nodeid.partition("::")[2]
        if report.when == "call" or report.outcome != "passed":
            worst = "failed" if self._outcomes.get(name) == "failed" else report.outcome
            self._outcomes[name] = worst

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - a class of xdist
        told = getattr(node, "workeroutput", {})
        if "postgres" in told:
            self._config.stash[POSTGRES] = told["postgres"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if session.shouldstop or session.shouldfail or not is_whole(self._config):
            return
        file = self._config.getoption(OPTION)
        self._unproved = unproved(claims.read(), self._outcomes)
        # Where a program is missing a test may be skipped; not where others rely on it.
        strict = file is not None or os.environ.get("CI") == "true"
        failed = [line for line in self._unproved if strict or not line.endswith(": skipped")]
        if failed and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if file is not None:
            file.write_text(json.dumps(self._record(), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unproved:
            terminalreporter.section("guarantees without a passing test", red=True, bold=True)
            for line in self._unproved:
                terminalreporter.line(line)

    def _record(self) -> dict[str, Any]:
        named = claims.read().tests()
        return {
            "date": _today(),
            "commit": _commit(),
            "python": platform.python_version(),
            "postgres": self._config.stash.get(POSTGRES, "unknown"),
            "dbos": version("dbos"),
            "machine": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "sampled": not FULL,
            "seconds": round(time.monotonic() - self._started),
            "tests": dict(sorted(Counter(self._outcomes.values()).items())),
            "proofs": {test: outcome_of(test, self._outcomes) for test in named},
        }


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests that prove something were asked for, and none was left out by name."""
    option = config.option
    narrowing = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "collectonly")
    if any(getattr(option, name, None) for name in narrowing):
        return False
    given = [(config.invocation_params.dir / arg.partition("::")[0]) for arg in config.args]
    places = [
        path.resolve() for path, arg in zip(given, config.args, strict=True) if "::" not in arg
    ]
    return all(
        any(place == directory or place in directory.parents for place in places)
        for directory in PROVING
    )


def unproved(found: claims.Claims, outcomes: Outcomes) -> list[str]:
    """The claims of which a test failed, was skipped, or did not run."""
    return [
        f"{claim.place}: {test}: {ended}"
        for claim in found
        for test in claim.by
        if (ended := outcome_of(test, outcomes)) != "passed"
    ]


def outcome_of(test: str, outcomes: Outcomes) -> str:
    """Of a test with parameters in brackets, or of all cases of one without."""
    ended = [
        outcome
        for name, outcome in outcomes.items()
        if name == test or ("[" not in test and name.partition("[")[0] == test)
    ]
    return _worst(ended) if ended else "not run"


def _worst(outcomes: Iterable[str]) -> str:
    order: Sequence[str] = ("failed", "skipped", "passed")
    return min(outcomes, key=order.index)


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _today() -> str:
    now = datetime.now(UTC)  # noqa: TID251 - a date for people to read
    return now.date().isoformat()
