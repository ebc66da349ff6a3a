"""The command line of Perdure in a process that notes whom it connects to.

Each connection is written down, before it is made, with the call that makes it. WITNESS names the
file. A connection to this machine is bound to its port first, so that its other end is known by it.
"""

import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from app.tools.context import ToolContext
from app.tools.declare import Tool

FILE = "WITNESS"
HOOKS = ("run_before", "needs_approval", "ask_reconcile", "read_precondition")

_doing: ContextVar[dict[str, Any] | None] = ContextVar("doing", default=None)


def install(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for hook in HOOKS:
        _replace(Tool, hook, _around(hook, getattr(Tool, hook)))
    bind = Tool.bind

    def bind_watched(tool: Tool, ctx: ToolContext, arguments: Any) -> Callable[[], object]:  # noqa: ANN401
        call = bind(tool, ctx, arguments)

        def watched() -> object:
            token = _doing.set(_describe("body", tool, ctx))
            try:
                result = call()
            finally:
                _doing.reset(token)
            return _awaited(result, "body", tool, ctx) if isinstance(result, Awaitable) else result

        return watched

    _replace(Tool, "bind", bind_watched)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            _note_connect(descriptor, *arguments)
        elif event == "subprocess.Popen" and _doing.get() is not None:
            _write(descriptor, f"program {arguments[0]}", None)

    sys.addaudithook(note)


def _replace(kind: type, name: str, method: Any) -> None:  # noqa: ANN401
    setattr(kind, name, method)


def _around(part: str, hook: Any) -> Any:  # noqa: ANN401 - a method of Tool
    async def watched(tool: Tool, ctx: ToolContext, *arguments: Any) -> object:
        return await _awaited(hook(tool, ctx, *arguments), part, tool, ctx)

    return watched


async def _awaited(work: Awaitable[object], part: str, tool: Tool, ctx: ToolContext) -> object:
    token = _doing.set(_describe(part, tool, ctx))
    try:
        return await work
    finally:
        _doing.reset(token)


def _describe(part: str, tool: Tool, ctx: ToolContext) -> dict[str, Any]:
    where = {"run": ctx.run_id, "turn": ctx.turn, "index": ctx.index, "attempt": ctx.attempt}
    return {"part": part, "tool": tool.name, **where}


def _note_connect(descriptor: int, sock: socket.socket, address: object) -> None:
    if not isinstance(address, tuple):
        _write(descriptor, f"unix {os.fsdecode(address)}", None)  # type: ignore[arg-type]
        return
    if sock.type & 0xF != socket.SOCK_STREAM:
        return
    port = None
    if sock.family == socket.AF_INET and str(address[0]).startswith("127."):
        try:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        except OSError:
            port = None
    _write(descriptor, f"{address[0]}:{address[1]}", port)


def _write(descriptor: int, address: str, port: int | None) -> None:
    line = {"pid": os.getpid(), "address": address, "port": port, **(_doing.get() or {})}
    os.write(descriptor, (json.dumps(line) + "\n").encode())


def main() -> None:
    path = os.environ.pop(FILE, None)
    if path is not None:
        install(path)
    from app.cli import main as perdure

    perdure()
