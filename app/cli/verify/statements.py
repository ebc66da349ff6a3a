"""What a statement does: whether it writes, and what a person would call it."""

import re
from collections.abc import Set
from dataclasses import dataclass

from app.cli.verify.protocol import Exchange, Statement

# The lease's proof of life is renewed all the time, and says nothing about a run.
_BEAT = re.compile(r"update perdure\.workers\s+set last_beat_at", re.IGNORECASE)
_WRITE = re.compile(
    r"\b(insert\s+into|update(?=\s+(?:only\s+)?[\w.\"]+\s+(?:as\s+\w+\s+)?set\b)|delete\s+from"
    r"|merge\s+into|truncate(?:\s+table)?|copy|create\s+table|alter\s+table|drop\s+table)"
    r"\s+(?:only\s+|if\s+not\s+exists\s+|if\s+exists\s+)?([\w.\"]+)",
    re.IGNORECASE,
)
_CALL = re.compile(r"\b(?:(\w+)\.)?(\w+)\s*\(")
_NAMED = re.compile(r"\bp_(\w+) => \$(\d+)")
_RUN = re.compile(r"\brun_\w+")
_STEP = re.compile(r"perdure\.\w+")
_CALL_ID = re.compile(r"call_(\w+)_(\d+)_(\d+)")


MOST_NAMES = 3
ENQUEUED = ("dbos.workflow_status", "dbos.workflow_input")


@dataclass(frozen=True)
class Place:
    """The call that something was done for; `run` as the script's runs are numbered."""

    run: str
    turn: int
    index: int

    def __str__(self) -> str:
        return f"{self.run}/{self.turn}/{self.index}"


@dataclass(frozen=True)
class Act:
    """A durable commit: its name, the call it is about if it is about one."""

    name: str
    place: Place | None
    is_fenced: bool


class Reader:
    """`writers`: functions that may write, as schema.name; those of Postgres itself do not count.

    `runs` gives the runs of the script their short names.
    """

    def __init__(self, writers: Set[str], runs: "Runs") -> None:
        self._writers = writers
        self._runs = runs

    def read(self, exchange: Exchange) -> Act | None:
        """The commit that this exchange makes; None where it makes none, or none that counts."""
        if not exchange.commits:
            return None
        writing = [each for each in exchange.all if self._writes(each)]
        if not writing:
            return None
        names = list(dict.fromkeys(self._name(each) for each in writing))
        if len(names) > MOST_NAMES:
            names[MOST_NAMES - 1 :] = ["…"]
        places = [place for each in writing if (place := self._place(each)) is not None]
        fenced = len(exchange.all) == 1 and any(
            "p_fence =>" in each.sql or "p_execution =>" in each.sql for each in writing
        )
        return Act(" + ".join(names), places[0] if places else None, fenced)

    def wrote(self, exchange: Exchange) -> bool:
        """Once it is answered: whether there was anything to write."""
        return any(self._writes(each) for each in exchange.all)

    def _writes(self, statement: Statement) -> bool:
        if _BEAT.search(statement.sql):
            return False
        if self._function(statement) is not None:
            return True
        return _WRITE.search(statement.sql) is not None and statement.rows != 0

    def _function(self, statement: Statement) -> str | None:
        for schema, name in _CALL.findall(statement.sql):
            if f"{schema or 'public'}.{name}" in self._writers:
                return str(name)
        return None

    def _name(self, statement: Statement) -> str:
        function = self._function(statement)
        if function is not None:
            return f"{function}{self._details(statement)}"
        found = _WRITE.search(statement.sql)
        assert found is not None
        verb = found[1].split()[0].lower()
        table = found[2].replace('"', "").removeprefix("perdure.")
        run = self._run_prefix(statement)
        if table == "dbos.operation_outputs":
            step = next((v for v in statement.values if v and _STEP.fullmatch(v)), "a step")
            return f"{run}journal {step}"
        if verb == "insert" and table in ENQUEUED:
            return f"{run}enqueue"
        return f"{run}{verb} {table}"

    def _details(self, statement: Statement) -> str:
        values = _named(statement)
        place = self._place(statement)
        if place is not None:
            return f" {self._runs.prefix(place.run)}{place.turn}/{place.index}"
        run = self._run_prefix(statement).rstrip()
        of = f" {run}" if run else ""
        for name in ("turn", "leg"):
            if values.get(name):
                return f"{of} {name} {values[name]}"
        return of

    def _run_prefix(self, statement: Statement) -> str:
        for value in statement.values:
            found = _RUN.search(value or "")
            if found:
                prefix = self._runs.prefix(self._runs.name(found[0]))
                return f"{prefix[:-1]} " if prefix else ""
        return ""

    def _place(self, statement: Statement) -> Place | None:
        call = _CALL_ID.fullmatch(_named(statement).get("call") or "")
        if call is None:
            return None
        return Place(self._runs.name(f"run_{call[1]}"), int(call[2]), int(call[3]))


class Runs:
    """Short names for runs: r1, r2 … in the order in which they are first met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, run: str) -> str:
        return self._names.setdefault(run, f"r{len(self._names) + 1}")

    def prefix(self, name: str) -> str:
        """Of a place's text; nothing for the first run, which is mostly the only one."""
        return "" if name == "r1" else f"{name}/"


def _named(statement: Statement) -> dict[str, str | None]:
    return {
        name: statement.values[int(number) - 1]
        for name, number in _NAMED.findall(statement.sql)
        if int(number) <= len(statement.values)
    }
