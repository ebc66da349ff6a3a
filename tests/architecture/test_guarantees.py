"""No promise without a test: docs/guarantees.md says what claims.toml does; each cell is proved."""

import ast
from pathlib import Path

import pytest

from tests.guarantees import claims
from tests.guarantees.claims import COLUMNS, Claim, Claims, Window
from tests.guarantees.page import PAGE, read_run, render
from tests.guarantees.recorder import PROVING, outcome_of, unproved


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
