"""A memory control group of the tests' own, in which the kernel kills what takes too much."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MOST_BYTES = 400 << 20
LETTING_GO_SECONDS = 10.0


@dataclass(frozen=True)
class Group:
    """A process takes part with what it takes from then on."""

    path: Path

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def killed(self) -> int:
        """How many processes the kernel has ended in it."""
        for name in ("memory.oom_control", "memory.events"):
            file = self.path / name
            if file.exists():
                told = dict(line.split() for line in file.read_text().splitlines())
                return int(told["oom_kill"])
        raise AssertionError(f"{self.path} does not count")


@contextmanager
def tight_group(name: str) -> Iterator[Group | None]:
    """Below this process's own group; None where that may not be made."""
    made = None
    for parent, limit in _places():
        made = parent / f"{name}-{os.getpid()}"
        try:
            made.mkdir()
            (made / limit).write_text(str(MOST_BYTES))
        except OSError:
            _remove(made)
            made = None
            continue
        break
    try:
        yield Group(made) if made else None
    finally:
        if made is not None:
            _remove(made)


def _places() -> Iterator[tuple[Path, str]]:
    """Of the first kind of groups and of the second, with the file that holds the limit."""
    try:
        own = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in own:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            place, limit = ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        elif not controllers:
            place, limit = ROOT / path.lstrip("/"), "memory.max"
        else:
            continue
        if (place / "cgroup.procs").exists():
            yield place, limit


def _remove(group: Path) -> None:
    """What is left in it ends; the kernel lets go of the group a moment later."""
    deadline = time.monotonic() + LETTING_GO_SECONDS
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)
