import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 300
LONGEST_FUNCTION = 40

# "path" or "path::function" that may be longer. This list may only shrink.
EXCUSED: frozenset[str] = frozenset()


def list_sources() -> list[Path]:
    found = [
        p for top in ("app", "migrations", "tests", "bench") for p in (ROOT / top).rglob("*.py")
    ]
    assert found, "no sources were found"
    return sorted(found)


def find_functions(source: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(source.read_text(), str(source))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_and_functions_are_short() -> None:
    long = {}
    for source in list_sources():
        name = str(source.relative_to(ROOT))
        lines = len(source.read_text().splitlines())
        if lines > LONGEST_FILE:
            long[name] = lines
        for function, length in find_functions(source):
            if length > LONGEST_FUNCTION:
                long[f"{name}::{function}"] = length

    assert {name: size for name, size in long.items() if name not in EXCUSED} == {}
    assert long.keys() >= EXCUSED, "an excuse is no longer needed: remove it"


def test_a_long_function_would_be_seen(tmp_path: Path) -> None:
    source = tmp_path / "long.py"
    source.write_text("async def long():\n" + "    pass\n" * LONGEST_FUNCTION)

    assert list(find_functions(source)) == [("long", LONGEST_FUNCTION + 1)]
