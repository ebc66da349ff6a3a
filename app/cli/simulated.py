"""Stand-ins for the outside world, served on a loopback port."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, assert_never

import typer
import uvicorn

from app.cli import Part
from app.errors import ConfigurationError

HOST = "127.0.0.1"


def serve(part: Part, port: int, ledger: str, *, quiet: bool) -> None:
    """Until SIGTERM or SIGINT; a port in use refuses the start."""
    name, application = _build(part, ledger)
    with _listener(part, port) as listener:
        if not quiet:
            typer.echo(f"{name} on http://{HOST}:{listener.getsockname()[1]}")
        config = uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listener])


def _build(part: Part, ledger: str) -> tuple[str, Callable[..., Any]]:
    match part:
        case Part.MODEL:
            from app.llm.scripted import create_app as create_model

            return "Model", create_model()
        case Part.PROVIDER:
            from app.agents.provider import create_app as create_provider

            return "Payments", create_provider(ledger)
        case _:
            assert_never(part)


def _listener(part: Part, port: int) -> socket.socket:
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise ConfigurationError(
            f"Perdure cannot listen on {HOST}, port {port}: {error.strerror}.",
            hint="Stop what listens there, or choose another: "
            f"perdure simulate {part.value} {port + 1}",
        ) from error
    # Connections inherit it; an event loop that is given a socket does not see that it is TCP.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
