"""The service as it is deployed: database, API and worker, with the scripted model beside it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql

from app.cli.embedded import Cluster

ROOT = Path(__file__).parents[1]
START_SECONDS = 60.0
RUN_SECONDS = 300.0
POLL_SECONDS = 0.25
LONGEST_HOLD = 25
PAGE = 200


class Stuck(Exception):
    """Something that should have happened did not."""


@dataclass(frozen=True)
class Service:
    """One worker, one API and one model over a database of their own; more workers on demand."""

    database: str
    api: httpx.Client
    model: httpx.Client
    worker: int
    server: int
    start: "Starter"

    def submit(self, text: str, agent: str = "runner", **fields: str) -> str:
        body = {"agent": agent, "input": text} | fields
        answer = self.api.post("/v1/runs", json=body).raise_for_status()
        return str(answer.json()["id"])

    def settled(self, run: str) -> dict[str, Any]:
        """The run, once it has ended or needs a person."""
        headers = {"Prefer": f"wait={LONGEST_HOLD}"}
        answer = self.api.get(f"/v1/runs/{run}", headers=headers).raise_for_status()
        return dict(answer.json())

    def open_waits(self) -> list[str]:
        """The ids of all that people or clients have been asked."""
        found: list[str] = []
        query: dict[str, Any] = {"state": "open", "limit": PAGE}
        while query.get("after", "") is not None:
            page = self.api.get("/v1/waits", params=query).raise_for_status().json()
            found += [wait["id"] for wait in page["data"]]
            query["after"] = page["next"]
        return found

    def allow(self, wait: str) -> None:
        answer = self.api.post(f"/v1/waits/{wait}/resolve", json={"decision": "allow"})
        answer.raise_for_status()

    def start_worker(self, *, await_it: bool = True) -> int:
        """The process id of one more worker."""
        alive = self.live_workers()
        pid = self.start("worker", "-m", "app.cli", "worker")
        if await_it:
            until(lambda: self.live_workers() > alive, "one more worker lives", START_SECONDS)
        return pid

    def live_workers(self) -> int:
        with psycopg.connect(self.database) as connection:
            found = connection.execute(
                "select count(*) from perdure.workers where dead_at is null"
            ).fetchone()
        assert found is not None
        return int(found[0])

    def owner(self, run: str) -> int:
        """The process id of the worker that carries the run."""
        worker = self.api.get(f"/v1/runs/{run}").raise_for_status().json()["worker"]
        workers = self.api.get("/v1/workers").raise_for_status().json()["data"]
        return next(int(each["pid"]) for each in workers if each["id"] == worker)

    def wait(self, *runs: str) -> None:
        """Until all have succeeded."""
        for run in runs:
            until(partial(self._succeeded, run), f"{run} succeeds", RUN_SECONDS)

    def carry_out(self, text: str) -> None:
        self.wait(self.submit(text))

    def _succeeded(self, run: str) -> bool:
        found = self.api.get(f"/v1/runs/{run}").raise_for_status().json()
        if found["status"] in ("failed", "cancelled", "dead_letter"):
            raise Stuck(f"{run} {found['status']}: {found['error']}")
        return bool(found["status"] == "succeeded")

    def arrivals(self) -> list[dict[str, Any]]:
        """The last requests that reached the model: {at, body}."""
        kept = self.model.get("/bench/arrivals").raise_for_status().json()["kept"]
        return [{"at": each["at"], "body": json.loads(each["body"])} for each in kept]

    def tally(self) -> int:
        """How many requests have reached the model."""
        return int(self.model.get("/bench/tally").raise_for_status().text)

    def effects(self) -> list[dict[str, Any]]:
        """What tools have done outside: {at, key}."""
        return list(self.model.get("/bench/effects").raise_for_status().json())

    def tell_model(self, what: str) -> int:
        """`forget`, `pause?ms=N` before each answer, `shut`, or `release`, which answers when."""
        answer = self.model.post(f"/bench/{what}").raise_for_status()
        return int(answer.json() or 0)


@contextmanager
def running(cluster: Cluster, name: str, logs: Path, **settings: str) -> Iterator[Service]:
    """A service over a new database; nothing of it is left running."""
    database = _create_database(cluster, name)
    ports = {part: free_port() for part in ("api", "model")}
    environment = _environment(database, ports) | settings
    _run("migrate", environment, logs / f"{name}-migrate.log")
    with ExitStack() as stack:
        start = Starter(stack, environment, logs, name)
        start("model", "-m", "bench.model", str(ports["model"]), lifeline="")
        server = start("api", "-m", "app.cli", "api")
        worker = start("worker", "-m", "app.cli", "worker")
        urls = {part: f"http://127.0.0.1:{port}" for part, port in ports.items()}
        api = stack.enter_context(httpx.Client(base_url=urls["api"], timeout=30))
        model = stack.enter_context(httpx.Client(base_url=urls["model"], timeout=60))
        service = Service(database, api, model, worker, server, start)
        try:
            until(partial(_is_up, service), "the service is up", START_SECONDS)
            yield service
        except Stuck as error:
            raise Stuck(f"{error}\n{_tails(logs, name)}") from None


@dataclass(frozen=True)
class Starter:
    """Starts processes that end with the stack, or with this process, however it ends."""

    stack: ExitStack
    environment: Mapping[str, str]
    logs: Path
    name: str
    processes: dict[int, tuple[str, "subprocess.Popen[bytes]"]] = field(default_factory=dict)

    def __call__(self, part: str, *program: str, lifeline: str = "--lifeline") -> int:
        read_end, write_end = os.pipe()
        self.stack.callback(os.close, write_end)
        line = [lifeline, str(read_end)] if lifeline else [str(read_end)]
        with (self.logs / f"{self.name}-{part}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *program, *line],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[read_end],
            )
        os.close(read_end)
        self.stack.callback(_kill, process)
        self.processes[process.pid] = part, process
        return process.pid

    def workers(self) -> list[int]:
        """The process ids of those that have not ended."""
        return [pid for pid, (part, _) in self.processes.items() if part == "worker"]

    def kill(self, pid: int) -> None:
        """kill -9; it is gone when this returns."""
        _, process = self.processes.pop(pid)
        _kill(process)


def until(condition: Callable[[], bool], what: str, within: float) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise Stuck(f"not within {within:g} s: {what}")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _environment(database: str, ports: Mapping[str, int]) -> dict[str, str]:
    own = ("PERDURE_", "ANTHROPIC_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return inherited | {
        "PERDURE_DATABASE_URL": database,
        "PERDURE_AGENTS": "bench.agents",
        "PERDURE_PORT": str(ports["api"]),
        "ANTHROPIC_API_KEY": "bench",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{ports['model']}",
    }


def _create_database(cluster: Cluster, name: str) -> str:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return cluster.url(name)


def _run(command: str, environment: Mapping[str, str], log: Path) -> None:
    with log.open("wb") as output:
        subprocess.run(
            [sys.executable, "-m", "app.cli", command],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )


def _tails(logs: Path, name: str) -> str:
    """What each process said last."""
    found = {
        log.stem: log.read_text(errors="replace") for log in sorted(logs.glob(f"{name}-*.log"))
    }
    return "\n".join(f"--- {stem}\n{text[-2000:]}" for stem, text in found.items())


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _is_up(service: Service) -> bool:
    try:
        ready = service.api.get("/health/ready").status_code == 200
        service.tally()
    except httpx.TransportError:
        return False
    return ready and service.live_workers() == 1
