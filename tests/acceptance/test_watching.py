"""`perdure runs watch` on a terminal, while the worker dies in the middle of an answer."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.client import Client
from tests.support.commands import COMMAND, Commands
from tests.support.deployment import Deployment
from tests.support.polling import eventually, in_time
from tests.support.scripts import by_attempt, say

SENTENCE = "The quick brown fox jumps over the lazy dog. " * 4
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """What has come out on a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.text = ""

    async def until(self, text: str) -> None:
        async def appears() -> bool:
            # The last reader's side of a terminal whose programs have ended is an error on Linux.
            with suppress(BlockingIOError, OSError):
                self.text += os.read(self._terminal, 65536).decode(errors="replace")
            return text in self.text

        await eventually(appears, lambda: f"{text!r} on the screen: {self.text}", in_time(30))


@contextmanager
def on_a_terminal(url: str, *arguments: str) -> Iterator[tuple[Screen, "subprocess.Popen[bytes]"]]:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    env = {**Commands(url).environment(), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        yield Screen(ours), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def test_the_words_are_seen_as_they_are_said_and_again_from_the_next_attempt(
    client: Client, deployment: Deployment
) -> None:
    stalled = {"text": SENTENCE, "stall": "mid_text"}
    run = await client.submit(by_attempt(stalled, say("And \x1b[2J done.")))
    with on_a_terminal(deployment.url, "runs", "watch", run["id"]) as (screen, process):
        await screen.until("The quick brown fox")
        assert "model.completed" not in screen.text
        await deployment.crash()
        await screen.until("run.succeeded")
        await screen.until("And \\x1b[2J done.")
        assert await asyncio.to_thread(process.wait, in_time(30)) == 0

    assert "run.taken_over" in screen.text
    assert "\x1b" not in COLOURS.sub("", screen.text)
    assert screen.text.count("The quick brown fox") < 5
