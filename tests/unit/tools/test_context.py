"""The context: its connection, its secrets and what it lets out."""

import asyncio
import threading

import pytest

from app import ToolContext
from app.tools.errors import MissingSecret
from tests.unit.tools.contexts import make_context

SECRETS = {"KEY": "s3cr3t-value", "LONG": "s3cr3t-value-and-more", "PIN": "123", "ODD": 'a"b/c d'}


@pytest.fixture
def ctx() -> ToolContext:
    context = make_context(secrets=SECRETS.__getitem__)
    for name in SECRETS:
        context.secret(name)
    return context


def test_a_connection_is_for_transactional_tools() -> None:
    with pytest.raises(RuntimeError, match="replay='transactional'"):
        _ = make_context().connection


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_KEY", "first")
    context = make_context()
    assert context.secret("BANK_KEY") == "first"
    monkeypatch.setenv("BANK_KEY", "rotated")
    assert context.secret("BANK_KEY") == "rotated"
    assert context.redact("first, rotated") == "[secret BANK_KEY], [secret BANK_KEY]"


def test_a_missing_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BANK_KEY", raising=False)
    with pytest.raises(MissingSecret, match="BANK_KEY is not set"):
        make_context().secret("BANK_KEY")
    assert make_context().secret("BANK_KEY", default="demo") == "demo"


def test_nothing_is_redacted_before_it_was_handed_out() -> None:
    context = make_context(secrets=SECRETS.__getitem__)
    assert context.redact("s3cr3t-value") == "s3cr3t-value"


def test_values_are_replaced_by_their_names(ctx: ToolContext) -> None:
    assert ctx.redact("401 for s3cr3t-value, s3cr3t-value") == "401 for [secret KEY], [secret KEY]"


def test_the_longest_value_wins(ctx: ToolContext) -> None:
    assert ctx.redact("s3cr3t-value-and-more") == "[secret LONG]"


def test_short_values_are_left_alone(ctx: ToolContext) -> None:
    assert ctx.redact("123") == "123"


@pytest.mark.parametrize("written", ['a"b/c d', r"a\"b/c d", "a%22b%2Fc%20d"])
def test_values_are_found_in_json_and_in_addresses(ctx: ToolContext, written: str) -> None:
    assert ctx.redact(f"<{written}>") == "<[secret ODD]>"


def test_redaction_reaches_keys_and_every_depth(ctx: ToolContext) -> None:
    value = {"s3cr3t-value": [{"a": "x s3cr3t-value"}, 1, None, True, 1.5]}
    assert ctx.redact_json(value) == {
        "[secret KEY]": [{"a": "x [secret KEY]"}, 1, None, True, 1.5],
    }


def test_progress_is_redacted() -> None:
    heard: list[str] = []
    context = make_context(secrets=SECRETS.__getitem__, on_progress=heard.append)
    context.progress(f"using {context.secret('KEY')}")
    assert heard == ["using [secret KEY]"]


def test_the_representation_shows_no_secret(ctx: ToolContext) -> None:
    assert repr(ctx) == "ToolContext('run_1/1/0', attempt=1)"


async def test_a_cancel_is_seen_from_a_thread() -> None:
    cancelled = threading.Event()
    context = make_context(cancelled=cancelled)
    assert not await asyncio.to_thread(lambda: context.cancelled)
    cancelled.set()
    assert await asyncio.to_thread(lambda: context.cancelled)


def test_a_context_is_never_cancelled_by_another_ones_event() -> None:
    first, second = threading.Event(), threading.Event()
    first.set()
    assert make_context(cancelled=first).cancelled
    assert not make_context(cancelled=second).cancelled
    assert not make_context().cancelled
