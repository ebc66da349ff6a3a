"""The worker process: it carries out the legs of runs."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from types import FrameType

from app.delivery.post import Poster
from app.delivery.webhooks import Courier
from app.domain.ids import WorkerId, new_worker_id
from app.durable import runtime
from app.durable.duties import Duties
from app.durable.enqueue import Legs
from app.durable.execution import Bench, installed, is_at_work
from app.durable.isolation import Isolation, be_the_first_to_go
from app.durable.lease import Lease
from app.durable.liveness import own_identity
from app.errors import ConfigurationError
from app.llm.anthropic import AnthropicModel
from app.services.agents import register
from app.services.webhooks import compose
from app.settings import Settings
from app.store import migrate as schema
from app.store.checks import check_database
from app.store.db import Database, named
from app.store.db_errors import is_unavailable
from app.store.notify import Notifier
from app.tools.registry import Registry, load

log = logging.getLogger(__name__)

CONNECTIONS = 10
# A step that finds no connection asks again; this says how soon after an outage.
PATIENCE_SECONDS = 2.0
STOPPING_SECONDS = 1.0
# An isolated process is there for this long after its last run.
IDLE_SECONDS = 10.0
LOOK_SECONDS = 0.5
LONGEST_START_SECONDS = 60.0


def serve(settings: Settings, *, isolated: bool = False) -> None:
    """Until SIGTERM or SIGINT, which hand over what is under way; a second one exits at once.

    `isolated`: carries out only what workers have died of, and ends when there is no more.
    """
    stop, launched = _await_signal()
    runtime.prepare()
    registry = load(",".join(settings.agents))
    model = _model()
    url = settings.database_url.get_secret_value()
    asyncio.run(_introduce(url, registry, allow_unsafe=settings.allow_unsafe_database))
    worker = _worker_id()
    url = named(url, worker)
    bench = _bench(settings, worker, url, registry, model)
    lease = _lease(bench, settings, url, isolated=isolated)
    isolation = None if isolated else Isolation(worker)
    retention = settings.retention_days * 86400
    duties = Duties(bench, lease, url, lambda: _abandon(bench), isolation, retention)
    with installed(bench), nullcontext() if isolated else _webhooks(settings, url):
        duties.start()
        config = runtime.configure(
            url, worker, lambda: bench.draining.is_set() and not bench.active
        )
        if isolation is None:
            be_the_first_to_go()
            runtime.launch_isolated(config)
            launched.set()
            _stay_while_needed(bench, stop)
        else:
            runtime.launch(config, settings.worker_concurrency, _key_limits(settings))
            launched.set()
            log.info("worker %s is ready", bench.worker)
            stop.wait()
        _hand_over(bench, duties, settings.grace_seconds)
    # Bodies that outlived the grace time end with the process; threads cannot be stopped otherwise.
    logging.shutdown()
    os._exit(0)


def _hand_over(bench: Bench, duties: Duties, grace: float) -> None:
    log.info("worker %s hands over its runs", bench.worker)
    bench.draining.set()
    duties.leave(grace)
    runtime.leave(grace)
    duties.end()


def _stay_while_needed(bench: Bench, stop: threading.Event) -> None:
    idle = 0.0
    while idle < IDLE_SECONDS and not stop.wait(LOOK_SECONDS):
        idle = 0.0 if bench.active else idle + LOOK_SECONDS


def _model() -> AnthropicModel:
    """Refused without credentials: each run would fail at its first model call."""
    model = AnthropicModel()
    if not model.has_credentials:
        raise ConfigurationError(
            "There are no credentials for the model: ANTHROPIC_API_KEY is not set.",
            hint="Set it. `perdure dev` starts a scripted model instead, and `perdure simulate "
            "model` serves one for ANTHROPIC_BASE_URL, with any key.",
        )
    return model


def migrate(settings: Settings) -> None:
    """Brings DBOS's schema and ours to what this version needs, and makes its agents known."""
    url = settings.database_url.get_secret_value()
    registry = load(",".join(settings.agents))
    try:
        with schema.alone(url):
            runtime.migrate(url)
            schema.upgrade(url)
    except Exception as error:
        if not is_unavailable(error):
            raise
        raise ConfigurationError(
            f"The database cannot be migrated: {getattr(error, 'orig', None) or error}",
            hint="Start it, or correct PERDURE_DATABASE_URL. Its user must be allowed to make the "
            "schemas perdure and dbos.",
        ) from error
    asyncio.run(_register(url, registry))


async def _introduce(url: str, registry: Registry, *, allow_unsafe: bool) -> None:
    """A database that is away is waited for a while; then it is more likely a wrong URL."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    async with Database(url, size=1, patience=PATIENCE_SECONDS) as database:
        while True:
            try:
                async with database.connection() as connection:
                    problems = await check_database(connection, allow_unsafe=allow_unsafe)
                break
            except Exception as error:
                if not is_unavailable(error) or time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"The database cannot be reached: {error}",
                        hint="Start it, or correct PERDURE_DATABASE_URL.",
                    ) from error
                log.warning("waiting for the database: %s", error)
        if problems:
            raise ConfigurationError("This database cannot be used:", problems)
        await register(database, registry)


async def _register(url: str, registry: Registry) -> None:
    async with Database(url, size=1, patience=PATIENCE_SECONDS) as database:
        await register(database, registry)


def _worker_id() -> WorkerId:
    identity = own_identity()
    return new_worker_id(identity.host, identity.pid)


def _bench(
    settings: Settings, worker: WorkerId, url: str, registry: Registry, model: AnthropicModel
) -> Bench:
    database = Database(url, size=CONNECTIONS, patience=PATIENCE_SECONDS)
    return Bench(
        worker=worker,
        database=database,
        tools_database=Database(url, size=CONNECTIONS, patience=PATIENCE_SECONDS, lent=True),
        legs=Legs(url),
        registry=registry,
        model=model,
        model_attempts=settings.model_attempts,
        model_concurrency=settings.model_concurrency,
        notifier=Notifier(database),
    )


def _key_limits(settings: Settings) -> runtime.KeyLimits:
    return runtime.KeyLimits(
        settings.queue_key_concurrency,
        settings.queue_key_worker_concurrency,
        settings.queue_key_rate,
    )


@contextmanager
def _webhooks(settings: Settings, url: str) -> Iterator[None]:
    """Sent as long as this process lives, if there is something to sign them with."""
    if not settings.webhook_keys:
        yield
        return
    poster = Poster(allow_private=settings.webhook_allow_private)
    courier = Courier(url, settings.webhook_keys, poster, compose)
    courier.start()
    try:
        yield
    finally:
        courier.end()


def _lease(bench: Bench, settings: Settings, url: str, *, isolated: bool) -> Lease:
    return Lease(
        url=url,
        worker=bench.worker,
        identity=own_identity(),
        version=version("perdure"),
        agents=sorted(bench.registry.agents),
        seconds=settings.lease_seconds,
        proof=bench.proof,
        isolated=isolated,
    )


def _await_signal() -> tuple[threading.Event, threading.Event]:
    """The first is set by a signal; before the second one is, there is nothing to hand over."""
    stop, launched = threading.Event(), threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(1)
        if not launched.is_set() and not is_at_work():
            os._exit(0)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop, launched


def _abandon(bench: Bench) -> None:
    """Others have taken this worker's runs: whatever it still does is too much."""
    log.critical("worker %s has been given up; it stops", bench.worker)
    for body in bench.bodies.in_hand():
        body.cancel()
    threading.Event().wait(STOPPING_SECONDS)
    os._exit(1)
