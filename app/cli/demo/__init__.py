"""`perdure demo`: kill -9 in the middle of a payment, and of everything before an approval."""

import os
import signal
import threading
from functools import partial
from types import FrameType

import httpx
import typer

from app.cli.demo import approval
from app.cli.demo.acts import REFUND, WIRE, play
from app.cli.demo.screen import Screen
from app.cli.demo.stage import Broken, Interrupted, Stage, staged
from app.cli.dev import HOME

OPENING = "Starting database, API, worker, model and payment provider"
INTERRUPTED = 130


def run() -> None:
    """Exit code 0 only if everything was seen to be as promised."""
    screen = Screen()
    stop = _await_signal()
    try:
        with screen.busy(OPENING) as tell, staged(HOME, os.environ, stop, tell) as stage:
            kept = _play(screen, stage)
    except Interrupted:
        screen.say("Stopped; nothing is left running.")
        raise typer.Exit(INTERRUPTED) from None
    except (Broken, httpx.HTTPError) as error:
        screen.fail(str(error))
        raise typer.Exit(1) from None
    screen.close(kept=kept)
    if not kept:
        raise typer.Exit(1)


def _play(screen: Screen, stage: Stage) -> bool:
    screen.introduce(stage.cast())
    kept = True
    for act in (partial(play, REFUND), partial(play, WIRE), approval.play):
        checks = act(stage, screen)
        screen.report(checks)
        kept = kept and all(check.holds for check in checks)
    return kept


def _await_signal() -> threading.Event:
    """Set by a signal; what is under way looks at it, so that everything is stopped in order."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)
    return stop
