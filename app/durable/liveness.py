"""Proof of death: a process that is gone for certain can act no more."""

import os
import platform
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from app.durable.execution import bench
from app.store import workers
from app.store.db import Row

# Asked as a value, so that both branches are type-checked everywhere.
LINUX = platform.system() == "Linux"
HIDDEN = "hidden"


@dataclass(frozen=True)
class Identity:
    """Which process, of which boot, in which pid namespace: a pid alone is soon another's."""

    host: str
    pid: int
    boot_id: str
    pid_namespace: str
    process_started: str


def own_identity() -> Identity:
    pid = os.getpid()
    return Identity(socket.gethostname(), pid, _boot_id(), _pid_namespace(), _started(pid) or "")


def is_gone(worker: Row, me: Identity) -> bool:
    """Whether the process behind a worker's row is proved to be gone, as seen from this one."""
    if worker["death"] == "exited":
        return True
    same_machine = bool(me.boot_id) and worker["boot_id"] == me.boot_id
    if not same_machine or worker["pid_namespace"] != me.pid_namespace:
        return False
    return _started(worker["pid"]) not in (worker["process_started"], HIDDEN)


async def is_proved_dead(worker: str) -> bool:
    found = await bench().store(lambda c: workers.find(c, worker))
    return found is not None and is_gone(found, own_identity())


def _boot_id() -> str:
    if LINUX:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return _ask("sysctl", "-n", "kern.boottime") or ""


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid") if LINUX else ""


def _started(pid: int) -> str | None:
    """When the process began, in the kernel's own words; None once it is gone."""
    if not LINUX:
        return _ask("ps", "-o", "lstart=", "-p", str(pid))
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return HIDDEN if _exists(pid) else None
    # Field 22, counted behind the command's name, which may hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def _exists(pid: int) -> bool:
    """Also where /proc hides the processes of others."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ask(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
