"""No promise without a test: docs/guarantees.md says what claims.toml does; each cell is proved."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.guarantees import claims
from tests.guarantees.claims import COLUMNS, Claim, Claims, Window
from tests.guarantees.page import PAGE, read_run, render
from tests.guarantees.recorder import PROVING, Recorder, is_whole, outcome_of, unproved
from tests.support.environment import ROOT


def test_the_page_is_what_the_claims_and_the_last_run_render() -> None:
    assert PAGE.read_text() == render(claims.read(), read_run()), "make guarantees-page mends it"


def test_each_window_has_a_cell_for_each_policy_the_model_and_the_client() -> None:
    found = claims.read()
    assert len(found.windows) == 10
    assert claims.flaws(found) == []


def test_a_cell_that_is_missing_or_unproved_is_a_flaw() -> None:
    cells = {column: Claim(column, "holds", ("test_it",)) for column in COLUMNS[1:]}
    window = Window("w", "", cells | {"client": Claim("w, client", "holds", ())})
    assert claims.flaws(Claims((window,), ())) == [
        f"w: no cell for {COLUMNS[0]}",
        "w, client: no test proves it",
    ]


def test_every_test_that_proves_a_guarantee_is_there_once() -> None:
    defined = [
        name for place in PROVING for path in place.glob("test_*.py") for name in list_tests(path)
    ]
    for test in claims.read().tests():
        assert defined.count(test.partition("[")[0]) == 1, test


def list_tests(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if node.name.startswith("test_")]


@pytest.mark.parametrize(
    ("test", "ended"),
    [
        ("test_a", "failed"),
        ("test_a[x]", "passed"),
        ("test_a[z]", "not run"),
        ("test_b", "skipped"),
        ("test_c", "not run"),
    ],
)
def test_a_claim_is_as_good_as_the_worst_of_its_tests(test: str, ended: str) -> None:
    outcomes = {"test_a[x]": "passed", "test_a[y]": "failed", "test_b": "skipped"}
    assert outcome_of(test, outcomes) == ended
    told = unproved(Claims((Window("w", "", {"client": Claim("w", "", (test,))}),), ()), outcomes)
    assert told == ([] if ended == "passed" else [f"w: {test}: {ended}"])


def asked(*args: str, **options: object) -> pytest.Config:
    """What pytest was asked for."""
    config = SimpleNamespace(
        args=list(args),
        option=SimpleNamespace(**options),
        invocation_params=SimpleNamespace(dir=ROOT),
        getoption=lambda name: options.get("guarantees"),
        stash=pytest.Stash(),
    )
    return cast(pytest.Config, config)


@pytest.mark.parametrize(
    ("config", "whole"),
    [
        (asked("tests"), True),
        (asked("tests/migration", "tests/acceptance"), True),
        (asked("tests/acceptance"), False),
        (asked("tests/acceptance/test_sweep.py", "tests/migration"), False),
        (asked("tests/acceptance::test_it", "tests/migration"), False),
        (asked("tests", keyword="kill"), False),
        (asked("tests", deselect=["x"]), False),
    ],
)
def test_a_run_is_whole_if_nothing_that_proves_was_left_out(
    config: pytest.Config, whole: bool
) -> None:
    assert is_whole(config) is whole


def finish(config: pytest.Config, outcomes: dict[str, str]) -> int:
    """The exit code of a run of which all tests passed that ran."""
    recorder = Recorder(config)
    for name, outcome in outcomes.items():
        report = SimpleNamespace(
            nodeid=f"tests/acceptance/test_x.py::{name}", when="call", outcome=outcome
        )
        recorder.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    session = SimpleNamespace(shouldstop=False, shouldfail=False, exitstatus=0)
    recorder.pytest_sessionfinish(session, 0)  # type: ignore[arg-type]
    return int(session.exitstatus)


def test_a_whole_run_fails_that_leaves_a_guarantee_unproved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", "true")
    proved = dict.fromkeys(claims.read().tests(), "passed")
    (first, *_) = proved
    assert finish(asked("tests"), proved) == 0
    assert finish(asked("tests"), proved | {first: "skipped"}) == 1
    assert finish(asked("tests"), {name: "passed" for name in proved if name != first}) == 1
    assert finish(asked("tests/acceptance"), {}) == 0

    monkeypatch.delenv("CI")  # a program may be missing on somebody's machine
    assert finish(asked("tests"), proved | {first: "skipped"}) == 0
    assert finish(asked("tests"), proved | {first: "failed"}) == 1
    recorded = asked("tests", guarantees=tmp_path / "run.json")
    assert finish(recorded, proved | {first: "skipped"}) == 1


def test_what_a_run_has_proved_is_written_down_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    proved = dict.fromkeys(claims.read().tests(), "passed")
    finish(asked("tests", guarantees=file), proved)
    run = json.loads(file.read_text())
    assert set(run["proofs"].values()) == {"passed"}
    page = render(claims.read(), run)
    for part in (run["date"], run["commit"], run["dbos"], f"{len(proved)} passed", "cores"):
        assert part in page
