"""What the witness in the worker wrote down: which call made which connection."""

import json
from dataclasses import dataclass
from pathlib import Path

from app.cli.verify.statements import Place, Runs


@dataclass(frozen=True)
class Caller:
    """A part of a tool at work: its body or one of its hooks."""

    part: str
    tool: str
    place: Place
    attempt: int
    pid: int


@dataclass(frozen=True)
class Connection:
    pid: int
    address: str
    port: int | None
    caller: Caller | None


class Testimony:
    """Reads the file as it grows."""

    __test__ = False

    def __init__(self, path: Path, runs: Runs) -> None:
        self.path = path
        self._runs = runs
        self._read = 0
        self.connections: list[Connection] = []
        path.touch()

    def caller_of(self, port: int) -> Caller | None:
        """Who made the connection that comes from this port, the last one if it was used again."""
        self.look()
        made = (each for each in reversed(self.connections) if each.port == port)
        found = next(made, None)
        return None if found is None else found.caller

    def look(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        self.connections += [self._connection(line) for line in whole.splitlines()]

    def _connection(self, line: bytes) -> Connection:
        said = json.loads(line)
        caller = None
        if "part" in said:
            place = Place(self._runs.name(said["run"]), said["turn"], said["index"])
            caller = Caller(said["part"], said["tool"], place, said["attempt"], said["pid"])
        return Connection(said["pid"], said["address"], said["port"], caller)
