"""The manual's pages as a reader works through them: blocks of code, and what is said of them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.environment import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
# An identifier stands for itself; `<run>` is the run that was answered last.
NAMES = {
    "run": r'"(run_\w+)"',
    "wait": r'"(wait_\w+)"',
    "call": r'"(call_\w+)"',
    "message": r'"(msg_\w+)"',
    "rule": r'"(rule_\w+)"',
    "session": r'"session": ?"([\w-]+)"',
    "hash": r'"arguments_hash": ?"(\w+)"',
    "pid": r'"pid": ?(\d+)',
}
PATIENCE_SECONDS = 90
MOST_TRIES = 3

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>.+?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_GAP = re.compile(r"<(" + "|".join(NAMES) + r")>")


@dataclass(frozen=True)
class Block:
    """A fenced block; `note` is the comment on the line above it, such as `not run: why`."""

    page: str
    line: int
    language: str
    code: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_live(self) -> bool:
        """Whether its code speaks to a service."""
        return self.language == "python" and "from app.client" in self.code

    def said(self, what: str) -> str | None:
        """What stands behind `what:` in the note; empty where nothing does."""
        head, _, rest = self.note.partition(":")
        return rest.strip() if head == what else None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page.name,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["code"],
            found["note"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def all_blocks() -> Iterator[Block]:
    for page in PAGES:
        yield from blocks_of(page)


@dataclass
class Reader:
    """A person at a terminal who does what a page says and copies ids from the answers."""

    directory: Path
    env: Mapping[str, str]
    replaced: Mapping[str, str]
    seen: dict[str, str] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    # The read that a page ends with, if it waits for a run.
    last_line: str = ""

    def type(self, block: Block) -> None:
        code = self._filled(block)
        self._run(block, _shell(code))
        last = code.rstrip().splitlines()[-1]
        self.last_line = last if "'Prefer: wait=30'" in last and " -d " not in last else ""

    def run_python(self, block: Block) -> None:
        self._run(block, [sys.executable, "-c", self._filled(block)])

    def compare(self, block: Block) -> None:
        """The page's answer is part of the one that came; a crowded machine is asked again."""
        assert self.answers, f"{block}: nothing was answered"
        tries = 0
        while self.last_line and _is_under_way(self.answers[-1]) and tries < MOST_TRIES:
            tries += 1
            self._run(block, _shell(self.last_line))
        problem = differs(json.loads(block.code), self.answers[-1])
        assert problem is None, f"{block}: {problem} in {self.answers[-1]}"

    def _run(self, block: Block, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=dict(self.env),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, f"{block}: {done.stdout}\n{done.stderr}"
        self._notice(done.stdout)

    def _filled(self, block: Block) -> str:
        code = block.code
        for written, meant in self.replaced.items():
            code = code.replace(written, meant)
        return _GAP.sub(lambda gap: self.seen[gap[1]], code)

    def _notice(self, output: str) -> None:
        self.answers = list(_objects(output))
        for answer in self.answers:
            for name, pattern in NAMES.items():
                if (found := re.search(pattern, json.dumps(answer))) is not None:
                    self.seen[name] = found[1]


def _shell(code: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", code]


def _is_under_way(answer: Any) -> bool:  # noqa: ANN401 - whatever was answered
    return isinstance(answer, dict) and answer.get("status") in ("queued", "running")


def _objects(output: str) -> Iterator[Any]:
    """The JSON objects in it, also those that no line break parts."""
    place = output.find("{")
    while place >= 0:
        found, place = json.JSONDecoder().raw_decode(output, place)
        yield found
        place = output.find("{", place)


def differs(shown: object, real: object, place: str = "answer") -> str | None:
    """Where `shown` is no part of `real`; a text that ends with … is the beginning of one."""
    match shown, real:
        case "…", _:
            return None
        case dict(), dict():
            missing = shown.keys() - real.keys()
            if missing:
                return f"{place} has no {sorted(missing)}"
            pairs = [(f"{place}.{name}", shown[name], real[name]) for name in shown]
        case list(), list():
            if len(shown) != len(real):
                return f"{place} has {len(real)} items"
            pairs = [
                (f"{place}[{n}]", *pair) for n, pair in enumerate(zip(shown, real, strict=True))
            ]
        case str(), str() if shown.endswith("…"):
            return None if real.startswith(shown[:-1]) else f"{place} is {real!r}"
        case _:
            return None if shown == real else f"{place} is {real!r}, not {shown!r}"
    return next((each for each in (differs(s, r, p) for p, s, r in pairs) if each), None)
