"""What is promised, cell by cell, and the tests that prove it: claims.toml, read and checked."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLAIMS = Path(__file__).parent / "claims.toml"
POLICIES = ("read_only", "idempotent", "transactional", "at_most_once")
COLUMNS = (*POLICIES, "model_calls", "client")

_TEST = re.compile(r"test_\w+(\[[^\]]+\])?")


@dataclass(frozen=True)
class Claim:
    """`place` names it in complaints; `by` are names of tests, some with their parameters."""

    place: str
    says: str
    by: tuple[str, ...]


@dataclass(frozen=True)
class Window:
    """A moment at which a process can be killed, and what then holds, by column."""

    name: str
    means: str
    cells: Mapping[str, Claim]


@dataclass(frozen=True)
class Promise:
    """A line of one of the further tables."""

    when: str
    claim: Claim


@dataclass(frozen=True)
class Table:
    title: str
    heads: tuple[str, str]
    promises: tuple[Promise, ...]
    text: str = ""


@dataclass(frozen=True)
class Claims:
    windows: tuple[Window, ...]
    tables: tuple[Table, ...]

    def __iter__(self) -> Iterator[Claim]:
        for window in self.windows:
            yield from window.cells.values()
        for table in self.tables:
            yield from (promise.claim for promise in table.promises)

    def tests(self) -> list[str]:
        return sorted({test for claim in self for test in claim.by})


def read(path: Path = CLAIMS) -> Claims:
    found = tomllib.loads(path.read_text())
    return Claims(
        tuple(_window(window) for window in found["window"]),
        tuple(_table(table) for table in found["table"]),
    )


def flaws(claims: Claims) -> list[str]:
    """A cell that is missing, says nothing, or is proved by nothing."""
    found = [
        f"{window.name}: no cell for {column}"
        for window in claims.windows
        for column in COLUMNS
        if column not in window.cells
    ]
    for claim in claims:
        if not claim.says.strip():
            found.append(f"{claim.place}: it says nothing")
        if not claim.by:
            found.append(f"{claim.place}: no test proves it")
        found += [f"{claim.place}: {test} is no test" for test in claim.by if not _is_test(test)]
    return found


def _is_test(name: str) -> bool:
    return _TEST.fullmatch(name) is not None


def _window(found: Mapping[str, Any]) -> Window:
    cells = {
        column: _claim(f"{found['name']}, {column}", cell)
        for column, cell in found.items()
        if column not in ("name", "means")
    }
    return Window(found["name"], found["means"], cells)


def _table(found: Mapping[str, Any]) -> Table:
    first, second = found.get("heads", ("killed", "then"))
    promises = tuple(
        Promise(row["when"], _claim(f"{found['title']}, {row['when']}", row))
        for row in found["row"]
    )
    return Table(found["title"], (first, second), promises, found.get("text", ""))


def _claim(place: str, found: Mapping[str, Any]) -> Claim:
    return Claim(place, found.get("says", ""), tuple(found.get("by", ())))
