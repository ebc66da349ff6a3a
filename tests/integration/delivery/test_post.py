"""One request goes to the very address that was looked at, under the name of the URL."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.delivery.post import Answer, Poster
from app.delivery.signature import sign
from tests.support.receiver import Receiver

NAME = "hooks.example"
BODY = '{"type":"run.queued"}'
HEADERS = sign([b"key"], "hook_1", 1, BODY)


class Names:
    """What the loop is told that names stand for, in turn; the last answer repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def getaddrinfo(self, host: str, port: int | None, **_: Any) -> list[Any]:
        self.asked.append(host)
        found = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if not found:
            raise socket.gaierror("unknown")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, 1, 6, "", (each, port))
            for each in found
        ]


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Speaks TLS as hooks.example, with a certificate that is trusted here."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    receiver = Receiver(key=key, certificate=certificate)
    receiver.start()
    yield receiver
    receiver.stop()


async def send(
    monkeypatch: pytest.MonkeyPatch, names: Names, url: str, *, allow_private: bool = True
) -> Answer:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
    return await Poster(allow_private=allow_private).post(url, HEADERS, BODY)


async def test_a_name_is_asked_for_once_and_stays_the_name(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    answer = await send(monkeypatch, names, f"http://{NAME}:{receiver.port}/hook")

    assert (answer, names.asked) == (Answer(200), [NAME])
    (heard,) = receiver.heard
    assert heard.headers["host"] == f"{NAME}:{receiver.port}"
    assert heard.body == BODY


@pytest.mark.parametrize("inside", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"])
async def test_one_private_address_among_several_is_one_too_many(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    names = Names(["192.0.1.1", inside])
    url = f"http://{NAME}:{receiver.port}/hook"
    answer = await send(monkeypatch, names, url, allow_private=False)

    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith(f"the URL leads to {NAME}, which is ")
    assert receiver.heard == []


async def test_a_second_address_is_tried_if_the_first_cannot_be_reached(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(["::1", "127.0.0.1"])
    answer = await send(monkeypatch, names, f"http://{NAME}:{receiver.port}/hook")

    assert answer == Answer(200)


async def test_a_certificate_is_one_of_the_name(
    certified: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(["127.0.0.1"])
    right = await send(monkeypatch, names, f"https://{NAME}:{certified.port}/hook")
    dotted = await send(monkeypatch, names, f"https://{NAME}.:{certified.port}/hook")
    wrong = await send(monkeypatch, names, f"https://other.example:{certified.port}/hook")
    literal = await send(monkeypatch, names, f"https://127.0.0.1:{certified.port}/hook")

    assert (right, dotted) == (Answer(200), Answer(200))
    for answer in (wrong, literal):
        assert answer.error is not None
        assert "certificate verify failed" in answer.error
    assert len(certified.heard) == 2


async def test_a_proxy_of_the_environment_is_not_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await Poster(allow_private=True).post(receiver.url, HEADERS, BODY) == Answer(200)


async def test_a_name_that_is_not_there_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await send(monkeypatch, Names([]), f"http://{NAME}/")

    assert answer == Answer(None, f"the URL leads to {NAME}, which cannot be resolved: unknown")
