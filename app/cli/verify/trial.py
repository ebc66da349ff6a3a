"""One trial: a new world, one run through it, at most one blow, and what was seen."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import httpx
import psycopg

from app.cli.dev import free_port
from app.cli.verify.clients import Clients
from app.cli.verify.database import Trialed
from app.cli.verify.evidence import Evidence
from app.cli.verify.model import Model, Served
from app.cli.verify.processes import Processes
from app.cli.verify.recorder import Recorder, Request
from app.cli.verify.scenario import Json, load_app
from app.cli.verify.seen import Plan, Seen
from app.cli.verify.statements import Reader
from app.cli.verify.testimony import Testimony
from app.cli.verify.trap import Target, Trap, Victim
from app.cli.verify.wire import WireProxy
from app.domain.states import ENDED
from app.store.audit import audit

TICK_SECONDS = 0.03
LAST_SECONDS = 0.5
# A run may end a moment before its leg does; a breach that lasts longer is one.
SETTLING_SECONDS = 5.0


class Trial:
    def __init__(self, plan: Plan, database: Trialed, target: Target | None, number: int) -> None:
        self._plan = plan
        self._database = database
        self.seen = Seen(target)
        self._struck = asyncio.Event()
        self._trap = Trap(target, self._strike)
        self._model = Model()
        self._finished: set[tuple[str, int]] = set()
        self._asked_before = 0
        self._log = plan.home / f"{number}.log"
        self._log.unlink(missing_ok=True)
        testimony = plan.home / f"{number}.witness"
        testimony.unlink(missing_ok=True)
        self._testimony = Testimony(testimony, self.seen.names)
        self._port = free_port()
        self._processes: Processes | None = None

    async def run(self) -> Seen:
        served = Served(self._model)
        services = {
            name: Served(load_app(service.app))
            for name, service in self._plan.scenario.services.items()
            if service.app
        }
        urls = {name: each.url for name, each in services.items()} | {
            name: each.url for name, each in self._plan.scenario.services.items() if each.url
        }
        reader = Reader(self._plan.writers, self.seen.names)
        url = self._database.url
        evidence = Evidence(url) if self._trap.target is None else None
        parts: tuple[Victim, Victim] = ("api", "worker")
        wires = {part: WireProxy(url, reader, self._trap, part, evidence) for part in parts}
        recorder = Recorder(self._testimony, self.seen.names, self._trap, urls, served.url)
        try:
            for wire in wires.values():
                await wire.start()
            await recorder.start()
            await self._carry_out(wires, recorder, served.url)
            await self._look(wires["worker"], recorder, urls, served.url)
        finally:
            if self._processes is not None:
                self._processes.close()
            await recorder.stop()
            for wire in wires.values():
                await wire.stop()
            for each in (served, *services.values()):
                each.stop()
            self._testimony.path.unlink()
        return self.seen

    def _strike(self) -> None:
        if self._trap.kills:
            assert self._processes is not None
            self._processes.kill(self._victim)
        self._struck.set()

    @property
    def _victim(self) -> Victim:
        return "worker" if self.seen.target is None else self.seen.target.window.victim

    async def _carry_out(
        self, wires: Mapping[Victim, WireProxy], recorder: Recorder, model: str
    ) -> None:
        environment = self._environment(recorder, model)
        self._processes = Processes(self._plan.nursery, environment, self._log)
        processes = self._processes
        api = f"http://127.0.0.1:{self._port}"
        async with Clients(api, self._plan.scenario, self._database) as clients:
            for part, wire in wires.items():
                processes.start(part, wire.url)
            supervise = asyncio.ensure_future(processes.supervise())
            follow = asyncio.ensure_future(self._follow(clients))
            struck = asyncio.ensure_future(self._struck.wait())
            await asyncio.wait(
                {follow, struck},
                timeout=self._plan.patience,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._trap.target is not None:
                # The very last window is struck in the moment in which all is over.
                await asyncio.wait({struck}, timeout=LAST_SECONDS)
            if self._struck.is_set():
                await self._after_the_blow(processes)
            struck.cancel()
            try:
                await asyncio.wait_for(follow, self._plan.patience)
                self.seen.ended = True
            except TimeoutError:
                self.seen.ended = False
            supervise.cancel()
            self.seen.broken_answers = clients.broken

    async def _after_the_blow(self, processes: Processes) -> None:
        self.seen.was_struck = True
        self._finished = await asyncio.to_thread(self._database.finished_turns)
        self._asked_before = len(self._model.requests)
        if self._trap.kills:
            processes.start(self._victim, self._database.url)

    def _environment(self, recorder: Recorder, model: str) -> dict[str, str]:
        proxies = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        netloc = model.split("://", 1)[1]
        return {
            **self._plan.environment,
            **self._plan.scenario.environment,
            **dict.fromkeys(proxies, recorder.url),
            "NO_PROXY": netloc,
            "no_proxy": netloc,
            "PERDURE_HOST": "127.0.0.1",
            "PERDURE_PORT": str(self._port),
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "scripted",
            "WITNESS": str(self._testimony.path),
            **recorder.urls,
        }

    async def _follow(self, clients: Clients) -> None:
        """Until every run and its last leg have ended, answering what is asked on the way."""
        await clients.ready()
        await clients.submit(self._plan.agent)
        while True:
            statuses = [run["status"] for run in await asyncio.to_thread(self._database.runs)]
            if all(status in ENDED for status in statuses):
                if await asyncio.to_thread(self._database.is_quiet):
                    return
            elif "waiting" in statuses:
                await clients.answer()
            await asyncio.sleep(TICK_SECONDS)

    async def _look(
        self, wire: WireProxy, recorder: Recorder, urls: Mapping[str, str], model: str
    ) -> None:
        seen = self.seen
        seen.breaches = await self._audit() if seen.ended else []
        assert self._processes is not None
        self._processes.kill_all()
        seen.windows, seen.requests = self._trap.windows, recorder.requests
        seen.asked, seen.log = self._model.requests, self._log
        seen.runs, seen.calls = self._database.runs(), self._database.calls()
        seen.events, seen.counts = self._database.events(), self._database.counts()
        seen.paid_again = self._paid_again()
        seen.ledgers = await self._read_ledgers(urls)
        seen.not_tried = self._not_tried(wire, recorder, model)
        seen.in_earnest = in_earnest(seen.requests, urls.values())
        if wire.held is not None and seen.ended:
            before = self._database.everything()
            seen.late_answer = await asyncio.to_thread(wire.held.deliver)
            after = self._database.everything()
            seen.late = [name for name in before if before[name] != after[name]]

    def _paid_again(self) -> list[str]:
        """After the blow each answer of the model must become a turn that was not there before."""
        if not self.seen.was_struck:
            return []
        texts = {run["id"]: str(run["input"]) for run in self._database.runs()}
        new = Counter(texts[run] for run, _ in self._database.finished_turns() - self._finished)
        later = self._model.requests[self._asked_before :]
        paid = Counter(asked.text for asked in later if asked.is_paid)
        return [
            f"after the blow the model was paid {paid[text]} times for {new[text]} new turns"
            for text in paid
            if paid[text] > new[text]
        ]

    async def _audit(self) -> list[str]:
        waited = 0.0
        async with await psycopg.AsyncConnection.connect(
            self._database.url, autocommit=True
        ) as connection:
            while True:
                found = await audit(connection)
                if not found or waited > SETTLING_SECONDS:
                    return found
                await asyncio.sleep(0.1)
                waited += 0.1

    async def _read_ledgers(self, urls: Mapping[str, str]) -> dict[str, list[Json]]:
        found = {}
        async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
            for name, service in self._plan.scenario.services.items():
                if service.ledger is not None:
                    answer = await http.get(urls[name].rstrip("/") + service.ledger)
                    found[name] = answer.raise_for_status().json()["rows"]
        return found

    def _not_tried(self, wire: WireProxy, recorder: Recorder, model: str) -> set[tuple[str, str]]:
        """Tools that spoke to somebody past both proxies, and to whom."""
        self._testimony.look()
        netlocs = {url.split("@", 1)[-1].split("://", 1)[-1] for url in (wire.url, model)}
        known = {netloc.split("/", 1)[0] for netloc in netlocs} | recorder.addresses
        return {
            (each.caller.tool, each.address)
            for each in self._testimony.connections
            if each.caller is not None and each.address not in known
        }


def in_earnest(requests: Iterable[Request], services: Iterable[str]) -> set[tuple[str, str]]:
    """Tools that asked a host which the script names nowhere, and the host."""
    named = {urlsplit(url).netloc for url in services}
    return {
        (each.caller.tool if each.caller else "somebody", host)
        for each in requests
        if (host := urlsplit(each.url).netloc) not in named
    }
