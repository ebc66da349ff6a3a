"""`perdure dev`: the whole service on one machine, as real processes that can be killed."""

import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from app.cli import account as accounts
from app.cli.supervise import Family, Program, command
from app.client import ClientError, Perdure
from app.errors import ConfigurationError
from app.settings import Settings, load
from app.tools.registry import load as load_agents

HOME = Path(".perdure")
URL = "PERDURE_DATABASE_URL"
EXAMPLE = "refund-desk"
TICK_SECONDS = 0.1


def run(environ: Mapping[str, str]) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP."""
    # Told before the database starts; its URL is known only afterwards.
    settings = load({URL: "postgresql:///embedded", **_without_empty_url(environ)})
    agents = sorted(load_agents(",".join(settings.agents)).agents)
    with _alone(HOME):
        _check_port(settings.host, settings.port)
        family = Family(typer.echo)
        stop = _await_signal(family)
        with _database(environ) as url:
            environment = {**environ, URL: url}
            _migrate(environment)
            try:
                _start(family, environment)
                _watch(family, settings, agents, stop)
            finally:
                typer.echo("Stopping.")
                family.stop(settings.grace_seconds + 2)


def clear() -> None:
    """Stop and delete the embedded databases of this directory."""
    from app.cli.embedded import Cluster

    with _alone(HOME):
        for configuration in HOME.glob("*/perdure.conf"):
            Cluster(configuration.parent).destroy()


def _without_empty_url(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name != URL or value}


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold this directory; the kernel lets go of it however the holder ends."""
    home.mkdir(exist_ok=True)
    with (home / "dev.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigurationError(
                f"`perdure dev` is already running in this directory, as process {file.read()}."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _check_port(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ConfigurationError(
            f"Perdure cannot listen on {host}, port {port}: {error.strerror}.",
            hint=f"Stop what listens there, or choose another: PERDURE_PORT={port + 1}",
        ) from error


def _await_signal(family: Family) -> threading.Event:
    """Set by the first signal; the second one kills what is still there."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            family.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handle)
    return stop


@contextmanager
def _database(environ: Mapping[str, str]) -> Iterator[str]:
    given = environ.get(URL)
    if given:
        yield given
        return
    accounts.programs(None)  # before the import, which fails without the extra `embedded`
    from app.cli.embedded import Cluster

    cluster = Cluster(HOME / "postgres")
    url = cluster.start()
    typer.echo(f"Database: embedded Postgres {cluster.pid}, in {HOME / 'postgres'}")
    typer.echo(f"  {URL}={shlex.quote(url)}")
    try:
        yield url
    finally:
        cluster.stop()


def _migrate(environment: Mapping[str, str]) -> None:
    done = subprocess.run(command("migrate"), env=environment, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ConfigurationError("The database could not be migrated; see above.")


def _start(family: Family, environment: dict[str, str]) -> None:
    environment = {**environment, **_start_model(family, environment)}
    environment = {**environment, **_start_provider(family, environment)}
    for name in ("api", "worker"):
        family.add(Program(name, [name], environment))


def _start_model(family: Family, environment: Mapping[str, str]) -> dict[str, str]:
    if environment.get("ANTHROPIC_API_KEY") or environment.get("ANTHROPIC_AUTH_TOKEN"):
        typer.echo("Model: the Anthropic API")
        return {}
    port = free_port()
    family.add(Program("model", ["simulate", "model", str(port)], environment))
    typer.echo("Model: scripted, because ANTHROPIC_API_KEY is not set")
    return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "scripted"}


def _start_provider(family: Family, environment: Mapping[str, str]) -> dict[str, str]:
    if environment.get("PAYMENTS_URL"):
        return {}
    port = free_port()
    # Its ledger outlives it, as a real one would: a run that goes on must find what it paid.
    simulate = ["simulate", "provider", str(port), "--ledger", str(HOME / "payments.db")]
    family.add(Program("provider", simulate, environment))
    typer.echo("Payments: a pretend provider, because PAYMENTS_URL is not set")
    return {"PAYMENTS_URL": f"http://127.0.0.1:{port}"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _watch(
    family: Family, settings: Settings, agents: Sequence[str], stop: threading.Event
) -> None:
    told = False
    while not stop.wait(TICK_SECONDS):
        family.revive()
        if not told and _is_ready(family, settings):
            told = True
            _tell(family, settings, agents)


def _is_ready(family: Family, settings: Settings) -> bool:
    """Whether requests are accepted, and the worker is there to carry them out."""
    pids = {child.pid for child in family.children if child.program.name == "worker"}
    key = settings.api_key.get_secret_value() if settings.api_key else None
    try:
        with Perdure(base_url(settings), key, patience=0) as client:
            return any(w.pid in pids and w.lease == "held" for w in client.workers.list())
    except ClientError:
        return False


def _tell(family: Family, settings: Settings, agents: Sequence[str]) -> None:
    pids = ", ".join(f"{child.program.name} {child.pid}" for child in family.children)
    typer.echo(f"Processes: {pids}")
    typer.echo(f"Ready on {base_url(settings)}. Submit a run:\n\n  {_curl(settings, agents)}\n")


def _curl(settings: Settings, agents: Sequence[str]) -> str:
    if EXAMPLE in agents:
        body = {"agent": EXAMPLE, "input": "Order 1001 arrived broken. Please refund it."}
    else:
        body = {"agent": agents[0], "input": "Hello"}
    parts = ["curl", "-sS", f"{base_url(settings)}/v1/runs"]
    if settings.api_key:
        parts += ["-H", "Authorization: Bearer $PERDURE_API_KEY"]
    parts += ["-H", "Content-Type: application/json", "-H", "Prefer: wait=30"]
    parts += ["-d", json.dumps(body)]
    # The shell must still fill in the key.
    return " ".join(f'"{part}"' if "$" in part else shlex.quote(part) for part in parts)


def base_url(settings: Settings) -> str:
    """Where this machine reaches the API."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
