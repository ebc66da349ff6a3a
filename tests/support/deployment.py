"""The service as it is deployed: an API process and workers, each a real process."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.database import live_worker_pids
from tests.support.environment import of_service
from tests.support.inspection import pid_of_worker
from tests.support.polling import eventually
from tests.support.processes import Process, free_port
from tests.support.world import World

START_TIMEOUT = 40.0


@dataclass
class Deployment:
    """One service over one database and one world; `stop` leaves nothing behind."""

    database_url: str
    world: World
    logs: Path
    env: dict[str, str] = field(default_factory=dict)
    workers: list[Process] = field(default_factory=list)
    api: Process | None = None
    started: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def worker(self) -> Process:
        """The only worker."""
        (worker,) = self.workers
        return worker

    def worker_named(self, worker: str) -> Process:
        """The process behind a worker's id."""
        pid = pid_of_worker(self.database_url, worker)
        return next(process for process in self.workers if process.pid == pid)

    async def start(self, workers: int = 1) -> None:
        """Returns when requests are accepted and the workers have announced themselves."""
        self.start_api()
        for _ in range(workers):
            self.launch_worker()
        await self.ready()
        for worker in self.workers:
            await self._announced(worker)

    def start_api(self, **env: str) -> Process:
        self.api = self._launch("api", PERDURE_PORT=str(self.port), PERDURE_HOST="127.0.0.1", **env)
        return self.api

    async def start_another_api(self) -> str:
        """One more API process beside the first; its URL."""
        port = free_port()
        process = self._launch("api", PERDURE_PORT=str(port), PERDURE_HOST="127.0.0.1")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await eventually(
                lambda: _is_ready(http, process), self._why("API not ready"), START_TIMEOUT
            )
        return f"http://127.0.0.1:{port}"

    async def doctor(self) -> int:
        """The exit code of `perdure doctor`."""
        return await asyncio.to_thread(self._launch("doctor").wait)

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.url) as http:
            await eventually(
                lambda: _is_ready(http, self.api), self._why("API not ready"), START_TIMEOUT
            )

    def launch_worker(self, **env: str) -> Process:
        """Starts one more worker, without waiting for it."""
        worker = self._launch("worker", **env)
        self.workers.append(worker)
        return worker

    async def start_worker(self, **env: str) -> Process:
        """Starts one more worker; returns when its lease is in the database."""
        worker = self.launch_worker(**env)
        await self._announced(worker)
        return worker

    def kill9(self, worker: Process | None = None) -> None:
        """Kills one worker (the only one, if none is named) with all its children."""
        victim = worker or self.worker
        victim.kill9()
        self.workers.remove(victim)

    async def thaw(self, worker: Process) -> int:
        """Lets a frozen worker go on that others have given up; its exit code."""
        self.workers.remove(worker)
        worker.thaw()
        return await asyncio.to_thread(worker.wait)

    async def crash(self, worker: Process | None = None, **env: str) -> Process:
        """kill -9, then the same command again."""
        self.kill9(worker)
        return await self.start_worker(**env)

    async def replace_the_dead(self) -> None:
        """For ever: starts a worker for each that has ended, as whoever deploys them would."""
        while True:
            for worker in [worker for worker in self.workers if worker.exit_code is not None]:
                self.kill9(worker)
                self.launch_worker()
            await asyncio.sleep(0.1)

    async def mend(self) -> None:
        """One API process and one worker again, after a test that killed or added some."""
        if self.api is None or self.api.exit_code is not None:
            await self.restart_api()
        for worker in self.workers[1:]:
            self.kill9(worker)
        if not self.workers:
            await self.start_worker()

    def kill9_api(self) -> None:
        assert self.api is not None
        self.api.kill9()

    async def restart_api(self) -> None:
        """Starts the API process again, which has ended; returns when it accepts requests."""
        assert self.api is None or self.api.exit_code is not None
        self.start_api()
        await self.ready()

    async def restart(self, **env: str) -> None:
        """Kills every process with -9 and starts as many again."""
        count = len(self.workers)
        self.kill_all()
        self.start_api(**env)
        for _ in range(count):
            self.launch_worker(**env)
        await self.ready()

    async def terminate(self, worker: Process | None = None) -> int:
        """SIGTERM to one worker; its exit code."""
        leaver = worker or self.worker
        self.workers.remove(leaver)
        leaver.terminate()
        return await asyncio.to_thread(leaver.wait)

    def kill_all(self) -> None:
        for process in self.started:
            process.kill9()
        self.workers.clear()
        self.api = None

    def tails(self) -> list[tuple[str, str]]:
        """What each process said last, for the report of a failed test."""
        return [(f"{p.command} {p.pid} (exit {p.exit_code})", p.tail()) for p in self.started]

    async def _announced(self, worker: Process) -> None:
        async def probe() -> bool:
            if worker.exit_code is not None:
                raise RuntimeError(f"the worker ended ({worker.exit_code}):\n{worker.tail()}")
            return worker.pid in await asyncio.to_thread(live_worker_pids, self.database_url)

        await eventually(probe, self._why("no such worker"), START_TIMEOUT)

    def _launch(self, command: str, **env: str) -> Process:
        environment = of_service(self.database_url, self.world.url) | self.env | env
        log = self.logs / f"{len(self.started)}-{command}.log"
        process = Process(command, environment, log)
        self.started.append(process)
        return process

    def _why(self, what: str) -> "Why":
        return Why(self, what)


@dataclass(frozen=True)
class Why:
    """Says what the processes logged, only when somebody asks."""

    deployment: Deployment
    what: str

    def __call__(self) -> str:
        logs = "\n".join(f"--- {title}\n{tail}" for title, tail in self.deployment.tails())
        return f"{self.what}\n{logs}"


async def _is_ready(http: httpx.AsyncClient, api: Process | None) -> bool:
    if api is None or api.exit_code is not None:
        raise RuntimeError("the API process ended: " + (api.tail() if api else "not started"))
    try:
        return (await http.get("/health/ready")).status_code == 200
    except httpx.TransportError:
        return False
