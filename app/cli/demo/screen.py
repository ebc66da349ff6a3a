"""What the demo shows: live on a terminal, plain lines anywhere else."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from app.cli.demo.evidence import Answer, Check, Json, Seen, list_steps, times

COLOURS = {"run": "green", "model": "cyan", "call": "yellow", "wait": "magenta"}


class Screen:
    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._status: Status | None = None

    @contextmanager
    def busy(self, text: str) -> Iterator[Callable[[str], None]]:
        """A line at the bottom that tells what is going on; plain output gets the first one."""
        if not self._console.is_terminal:
            self.say(f"{text} ...")
        with self._console.status(text) as self._status:
            yield self.tell

    def tell(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)

    def say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)

    def act(self, text: str, style: str = "bold") -> None:
        self.say(f"  {text}", style)

    def introduce(self, cast: Sequence[tuple[str, str, int | None]]) -> None:
        self.say("Perdure: kill -9 in the middle of a payment\n", "bold")
        self.list_parts(cast)

    def list_parts(self, parts: Sequence[tuple[str, str, int | None]]) -> None:
        for name, where, pid in parts:
            self.say(f"  {name:<10}{where:<20}pid {pid}")

    def open(self, title: str, promise: str) -> None:
        self.say(f"\n{title}", "bold")
        self.say(f"  {promise}", "dim")

    def submitted(self, agent: str, text: str, run: str) -> None:
        self.say(f'  POST /v1/runs {{"agent": "{agent}", "input": "{text}"}}')
        self.say(f"  202 {run}")

    def show(self, event: Json, first: Json) -> None:
        seconds = (_instant(event) - _instant(first)).total_seconds()
        style = COLOURS.get(event["type"].partition(".")[0], "")
        kind = f"[{style}]{event['type']:<22}[/]" if style else f"{event['type']:<22}"
        note = escape(_describe(event))
        self._console.print(f"  {seconds:7.2f} s  {kind} {note}", soft_wrap=True)

    def ask(self, wait: Json) -> None:
        """The question, and what it is judged by."""
        self.say(f"  GET /v1/waits/{wait['id']}")
        self.say(f"  200 {wait['state']}: {wait['question']}", "magenta")
        for part in ("arguments", "evidence"):
            self.say(f"      {part:<10}{json.dumps(wait[part])}")

    def decide(self, wait: str) -> None:
        self.act("Two people allow it at the same moment:")
        self.say(f"  POST /v1/waits/{wait}/resolve")

    def answered(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            said = f'{{"decision": "allow", "on_behalf_of": "{answer.person}"}}'
            first = answer.told.get("on_behalf_of", "nobody")
            self.say(f"      {said:<51}{answer.status}, allowed by {first}")

    def close_act(self, seen: Seen) -> None:
        usage, rows = seen.run["usage"], seen.ledger
        table = Table(box=box.SIMPLE, pad_edge=False)
        for heading in ("step", f"worker {_pid(seen.killed)}", f"worker {_pid(seen.successor)}"):
            table.add_column(heading)
        table.add_column("attempts", justify="right")
        for step in list_steps(seen):
            table.add_row(step.name, step.first, step.second, str(step.attempts))
        self._console.print()
        self._console.print(table)
        for row in rows:
            money = f"{row['cents'] / 100:.2f}"
            self.say(f"  ledger   {row['kind']} of {money}, requested {times(row['calls'])}")
        self.say(
            f"  model    {usage['model_calls']} calls paid, "
            f"{usage['repaid_model_calls']} of them twice"
        )
        name, remark = seen.remark
        self.say(f"  {name:<9}{remark}")
        self.say(f"  answer   {seen.run['output']['text'] if seen.run['output'] else '-'}\n")

    def report(self, checks: Sequence[Check]) -> None:
        for check in checks:
            mark, style = ("ok  ", "green") if check.holds else ("FAIL", "bold red")
            self._console.print(f"  [{style}]{mark}[/] {escape(check.text)}", soft_wrap=True)

    def close(self, *, kept: bool) -> None:
        if not kept:
            self.fail("Not everything was as promised; see FAIL above and .perdure/demo.log")
            return
        self.say("\nAll three runs kept their promises.", "bold green")
        self.say("  make dev     the same service, to kill by hand: see README.md")
        self.say("  README.md    what a tool promises, and what Perdure then guarantees")

    def fail(self, text: str) -> None:
        self.say(f"\n{text}", "bold red")


def _describe(event: Json) -> str:
    data = event["data"]
    match event["type"].split("."):
        case ["run", "taken_over"]:
            return f"{_by(data)} from worker {_pid(data['from_worker'])}"
        case ["run", "resumed"]:
            steps = data["replayed_steps"]
            return f"{steps} steps from the journal" if steps else _by(data)
        case ["run", "started"]:
            return _by(data)
        case ["run", "waiting"]:
            return "for " + ", ".join(wait["kind"] for wait in data["waits"])
        case ["wait", "opened"]:
            return f"{data['kind']}: may {data['tool']} be run?"
        case ["wait", "resolved"]:
            return f"{data['kind']}: {data.get('answer', '')}"
        case ["model", "completed"]:
            return f"turn {data['turn']}: {data['stop_reason']}"
        case ["call", "proposed"]:
            return str(data["tool"])
        case ["call", _]:
            return f"{data['tool']}, attempt {data['attempt']}"
        case _:
            return ""


def _by(data: Json) -> str:
    return f"by worker {_pid(data['worker'])}"


def _pid(worker: str) -> str:
    """A worker's name holds its host, its pid and something fresh."""
    return worker.rsplit("-", 2)[1] if worker.count("-") >= 2 else worker


def _instant(event: Json) -> datetime:
    return datetime.fromisoformat(event["at"])
