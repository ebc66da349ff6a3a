"""Database, API, worker, model and payment provider as real processes that can be killed."""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from app.cli import account as accounts
from app.cli.dev import URL, free_port
from app.cli.supervise import command
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.cli.demo.database import Database

Json = dict[str, Any]

TICK_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
GRACE_SECONDS = 5.0
# Of these the service consists; model and payment provider are the world around it.
SERVICE = ("database", "api", "worker")
FOREIGN = ("PERDURE_", "ANTHROPIC_", "PAYMENTS_")


class Interrupted(Exception):
    """The person at the keyboard has seen enough."""


class Broken(Exception):
    """The demo cannot go on."""


class Process:
    """A subcommand of `perdure`."""

    def __init__(self, name: str, started: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._started = started

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def has_ended(self) -> bool:
        return self._started.poll() is not None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._started.wait()

    def terminate(self) -> None:
        self._started.terminate()

    def await_end(self, seconds: float) -> None:
        try:
            self._started.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()


class Stage:
    """The parts of a small production, and the ways to reach them."""

    def __init__(
        self,
        environ: Mapping[str, str],
        log: Path,
        stop: threading.Event,
        database: "Database",
    ) -> None:
        ports = {name: free_port() for name in ("api", "model", "payments")}
        bases = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self._ports = ports
        self._log = log
        self._stop = stop
        self._database = database
        self._environment = _hermetic(environ) | {
            "PERDURE_PORT": str(ports["api"]),
            "ANTHROPIC_BASE_URL": bases["model"],
            "ANTHROPIC_API_KEY": "scripted",
            "PAYMENTS_URL": bases["payments"],
        }
        # Open for as long as this process lives; its end ends the children, however it came.
        self._read_end, self._write_end = os.pipe()
        self._processes: list[Process] = []
        self.worker: Process
        self.api, self.model, self.payments = map(self.connect, ports)

    def connect(self, name: str = "api") -> httpx.Client:
        base = f"http://127.0.0.1:{self._ports[name]}"
        return httpx.Client(base_url=base, timeout=30, trust_env=False)

    def start(self) -> None:
        self._environment[URL] = self._database.start()
        self._migrate()
        self._launch("model", "simulate", "model", str(self._ports["model"]))
        self._launch("payments", "simulate", "provider", str(self._ports["payments"]))
        self.start_service()

    def start_service(self) -> None:
        self._database.start()
        self._launch("api", "api")
        self.start_worker()
        self.until(self._all_answer, "the processes are ready")
        self.until(lambda: self.worker_id() is not None, "the worker is ready")

    def start_worker(self) -> Process:
        self.worker = self._launch("worker", "worker")
        return self.worker

    def kill_worker(self) -> None:
        """kill -9: it gets no chance to say anything."""
        self.worker.kill()
        self._processes.remove(self.worker)

    def kill_service(self) -> None:
        """kill -9 to all of the service, database first: nobody can write anything down."""
        if self._database.pid is None:
            raise Broken(f"The database has ended; see {self._log}")
        self._database.kill()
        for process in [each for each in self._processes if each.name in SERVICE]:
            process.kill()
            self._processes.remove(process)
        self.until(lambda: self._database.pid is None, "the database is dead")

    def worker_id(self) -> str | None:
        """What the service calls the worker, once it works."""
        for worker in self.get("/v1/workers")["data"]:
            if worker["pid"] == self.worker.pid and worker["lease"] == "held":
                return str(worker["id"])
        return None

    def cast(self) -> list[tuple[str, str, int | None]]:
        addresses = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        parts = [(each.name, addresses.get(each.name, ""), each.pid) for each in self._processes]
        return [("database", "embedded Postgres", self._database.pid), *parts]

    def service(self) -> list[tuple[str, str, int | None]]:
        return [part for part in self.cast() if part[0] in SERVICE]

    def pids(self) -> dict[str, int | None]:
        """The processes of the service."""
        return {name: pid for name, _, pid in self.service()}

    def get(self, path: str, **query: Any) -> Json:
        return answer(self.api.get(path, params=query))

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Returns once `happened` is true; a part that dies meanwhile is told of."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            if self._stop.wait(TICK_SECONDS):
                raise Interrupted
            for process in self._processes:
                if process.has_ended:
                    raise Broken(f"{process.name} {process.pid} has ended; see {self._log}")
            if time.monotonic() > deadline:
                raise Broken(f"Waited {PATIENCE_SECONDS:.0f} s until {what}; see {self._log}")

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.await_end(GRACE_SECONDS)
        for client in (self.api, self.model, self.payments):
            client.close()
        os.close(self._read_end)
        os.close(self._write_end)

    def _migrate(self) -> None:
        with self._log.open("ab") as log:
            done = subprocess.run(
                command("migrate"), env=self._environment, stdout=log, stderr=log, process_group=0
            )
        if done.returncode != 0:
            raise Broken(f"The database could not be migrated; see {self._log}")

    def _launch(self, name: str, *arguments: str) -> Process:
        with self._log.open("ab") as log:
            started = subprocess.Popen(
                command(*arguments, "--lifeline", str(self._read_end)),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self._read_end],
                process_group=0,
            )
        self._processes.append(Process(name, started))
        return self._processes[-1]

    def _all_answer(self) -> bool:
        try:
            self.payments.get("/ledger")
            self.model.get("/")
            return self.api.get("/health/ready").is_success
        except httpx.TransportError:
            return False


def answer(response: httpx.Response) -> Json:
    if response.is_error:
        raise Broken(f"{response.request.url} answered {response.status_code}: {response.text}")
    body: Json = response.json()
    return body


@contextmanager
def staged(
    home: Path, environ: Mapping[str, str], stop: threading.Event, tell: Callable[[str], None]
) -> Iterator[Stage]:
    """Everything up and new; nothing of it is left afterwards but its log."""
    accounts.programs(None)  # before the import, which fails without the extra `embedded`
    from app.cli.demo.database import Database

    with _alone(home):
        log = home / "demo.log"
        log.write_bytes(b"")
        database = Database(home / "demo")
        database.destroy()  # what a killed demo has left
        stage = Stage(environ, log, stop, database)
        try:
            stage.start()
            yield stage
        except ConfigurationError:
            if stop.is_set():  # Ctrl-C ends the programs of Postgres too
                raise Interrupted from None
            raise
        finally:
            tell("Stopping")
            stage.stop()
            database.destroy()


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold this directory; the kernel lets go of it however the holder ends."""
    home.mkdir(exist_ok=True)
    with (home / "demo-running.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Broken("`perdure demo` is already running in this directory.") from None
        yield


def _hermetic(environ: Mapping[str, str]) -> dict[str, str]:
    """Without the settings of another deployment, keys, and proxies for the internet."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(FOREIGN) and not name.lower().endswith("_proxy")
    }
