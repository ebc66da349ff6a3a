"""A service for commands that answers as it is told, and the commands."""

from dataclasses import dataclass, field
from functools import partial

import httpx
import pytest
from typer.testing import CliRunner, Result

from app.cli import application
from app.client import Perdure


@dataclass
class Served:
    """`answers` are given once each; `asked` is what arrived."""

    answers: list[httpx.Response] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def say(self, status: int, body: object) -> None:
        self.answers.append(httpx.Response(status, json=body))

    def refuse(self, status: int, code: str, detail: str = "No.", **more: object) -> None:
        self.say(status, {"type": f"/problems/{code}", "detail": detail} | more)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path}")
        return self.answers.pop(0)


def serve(monkeypatch: pytest.MonkeyPatch) -> Served:
    served = Served()
    transport = httpx.MockTransport(served.answer)
    monkeypatch.setattr("app.client.Perdure", partial(Perdure, transport=transport))
    return served


def run(*arguments: str) -> Result:
    return CliRunner().invoke(application, arguments)
