"""`perdure runs watch`: a run's events as they come, over restarts of the service."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Event as Signal
from threading import RLock, Thread
from typing import NoReturn

import typer
from rich.text import Text

from app.cli.remote import showing
from app.cli.remote.exits import Exit, fail
from app.cli.remote.screen import (
    MARK,
    clock,
    console,
    print_json,
    print_line,
    print_said,
    say_aside,
)
from app.cli.remote.text import plain, shown
from app.client import ClientError, Perdure
from app.client.models import Event, RunData, WaitingFor

# A deploy or a database that comes back takes less; then somebody should look.
PATIENCE_SECONDS = 600.0
# What its children ask is in no event of a run: it is looked for this often.
LOOK_SECONDS = 2.0
STYLES = {
    "run.succeeded": "green",
    "run.failed": "red",
    "run.dead_letter": "red",
    "run.cancelled": "yellow",
    "run.taken_over": "magenta",
    "wait.opened": "yellow",
    "call.outcome_unknown": "red",
    "call.failed": "red",
    "model.failed": "red",
}
# What the line says already, or what only programs need.
UNTOLD = frozenset({"tool", "call", "wait", "waits", "index", "usage"})
# After these somebody may have been asked something.
ASKING = frozenset({"wait.opened", "run.waiting"})


def watch(client: Perdure, run: str, after: int, *, as_json: bool) -> NoReturn:
    view = JsonLines() if as_json else View()
    try:
        with view.asking(run):
            for event in client.runs.events(
                run, after=after, deltas=view.wants_deltas, on_lost=view.lose
            ):
                view.show(event)
    except KeyboardInterrupt:
        view.pause()
        again = f"perdure runs watch {run} --after {view.seen}"
        fail(Exit.INTERRUPTED, f"Stopped watching; the run goes on. Watch on with: {again}")
    found = client.runs.get(run)
    view.end(found)
    raise typer.Exit(Exit.OK if found.status == "succeeded" else Exit.UNSUCCESSFUL)


class JsonLines:
    """Stored events as the service sends them, one to a line."""

    wants_deltas = False

    def __init__(self) -> None:
        self.seen = 0

    def asking(self, run: str) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, event: Event) -> None:
        self.seen = event.seq or self.seen
        print_json(event.raw)

    def lose(self, error: Exception | None) -> None:
        pass

    def pause(self) -> None:
        pass

    def end(self, run: RunData) -> None:
        pass


class View:
    """A line for each event; on a terminal also the model's words as it says them."""

    def __init__(self) -> None:
        # A thread of its own looks for questions, and shows them between the events.
        self._lock = RLock()
        self._look = Signal()
        self._is_over = False
        self._asked: set[str] = set()
        self._is_speaking = False
        self._is_lost = False
        self.wants_deltas = console.is_terminal
        self.seen = 0

    @contextmanager
    def asking(self, run: str) -> Iterator[None]:
        """Shows what the run and its descendants ask for as long as this lasts."""
        Thread(target=self._keep_looking, args=(run,), daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._is_over = True
            self._look.set()

    def show(self, event: Event) -> None:
        with self._lock:
            self._is_lost = False
            if event.seq is None:
                self._speak(event)
                return
            self.pause()
            self.seen = event.seq
            console.print(
                Text(f"{event.seq:>4}  {clock(event.at)}  ", "dim"),
                Text(f"{plain(event.type):<20} ", STYLES.get(event.type, "")),
                Text(describe(event)),
                sep="",
            )
        if event.type in ASKING:
            self._look.set()

    def lose(self, error: Exception | None) -> None:
        """Told once for each time that the service is away."""
        with self._lock:
            if not self._is_lost:
                self._is_lost = True
                self.pause()
                say_aside("The service has closed the stream or is away; trying again.")

    def pause(self) -> None:
        """Ends the line that the model is speaking on."""
        with self._lock:
            if self._is_speaking:
                self._is_speaking = False
                console.print()

    def end(self, run: RunData) -> None:
        self.pause()
        if run.text:
            print_line("")
            print_said(run.text)
        if run.error:
            print_line(f"\n{shown(run.error)}", "red")

    def _speak(self, event: Event) -> None:
        said = event.data.get("text") if isinstance(event.data, dict) else None
        if isinstance(said, str) and said:
            start = "" if self._is_speaking else MARK
            text = plain(said, lines=True).replace("\n", f"\n{MARK}")
            self._is_speaking = True
            console.print(Text(start + text, "dim"), end="")

    def _keep_looking(self, run: str) -> None:
        with Perdure(patience=0) as client:
            while not self._is_over:
                self._look.clear()
                with suppress(ClientError):
                    self._tell_asked(client.runs.get(run).asks)
                self._look.wait(LOOK_SECONDS)

    def _tell_asked(self, waits: Iterable[WaitingFor]) -> None:
        with self._lock:
            for wait in waits:
                if wait.id not in self._asked and not self._is_over:
                    self._asked.add(wait.id)
                    self.pause()
                    showing.print_asked(wait)


def describe(event: Event) -> str:
    data = event.data if isinstance(event.data, dict) else {}
    parts = [shown(data["tool"])] if data.get("tool") else []
    parts += [
        f"{plain(name)}={shown(value)}"
        for name, value in data.items()
        if name not in UNTOLD and value not in (None, False, 0, "")
    ]
    return "  ".join(parts)
