"""`perdure` as a person or a script calls it: a process of its own, without a terminal."""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.environment import ROOT, inherited

COMMAND = (sys.executable, "-P", "-m", "app.cli")
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - any JSON
        """Its whole output is one."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """Those that ask the service at `url`."""

    url: str

    def environment(self) -> Mapping[str, str]:
        return inherited() | {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PERDURE_URL": self.url,
        }

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            env=self.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_hear_interrupts,
        )

    async def run(self, *arguments: str) -> Done:
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


def _hear_interrupts() -> None:
    """Also where the tests run in the background of a shell, which has them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
