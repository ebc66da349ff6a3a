"""What a model call costs. List prices in USD per million tokens, as of 2026-11-10.

Cache writes are the five-minute kind, the only one Perdure asks for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

from app.llm.client import Usage

SCRIPTED = "scripted"
_MILLION = Decimal(1_000_000)
# A tool may have changed its process's own.
_ARITHMETIC = Context()


@dataclass(frozen=True)
class Price:
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


def _price(input_: str, output: str, cache_read: str, cache_write: str) -> Price:
    return Price(Decimal(input_), Decimal(output), Decimal(cache_read), Decimal(cache_write))


_FABLE_5 = _price("10", "50", "1", "12.50")
_FABLE_5_1 = _price("10", "50", "0.25", "12.50")
_FABLE_5_2 = _price("8", "40", "0.20", "10")
_OPUS_4 = _price("15", "75", "1.50", "18.75")
_OPUS_4_5 = _price("5", "25", "0.50", "6.25")
_SONNET_4 = _price("3", "15", "0.30", "3.75")

_PRICES = {
    "claude-fable-5-2": _FABLE_5_2,
    "claude-mythos-5-2": _FABLE_5_2,
    "claude-fable-5-1": _FABLE_5_1,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-fable-5": _FABLE_5,
    "claude-mythos-5": _FABLE_5,
    "claude-opus-5-5": _price("4", "20", "0.20", "5"),
    "claude-opus-5": _OPUS_4_5,
    "claude-opus-4-8": _OPUS_4_5,
    "claude-opus-4-7": _OPUS_4_5,
    "claude-opus-4-6": _OPUS_4_5,
    "claude-opus-4-5": _OPUS_4_5,
    "claude-opus-4-1": _OPUS_4,
    "claude-opus-4": _OPUS_4,
    "claude-sonnet-5-5": _price("2", "10", "0.10", "2.50"),
    "claude-sonnet-5": _price("2", "10", "0.20", "2.50"),
    "claude-sonnet-4-6": _SONNET_4,
    "claude-sonnet-4-5": _SONNET_4,
    "claude-sonnet-4": _SONNET_4,
    "claude-haiku-5-5": _price("0.10", "0.50", "0.01", "0.125"),
    "claude-haiku-4-5": _price("1", "5", "0.10", "1.25"),
}
_FREE = _price("0", "0", "0", "0")
_DEAREST = max(_PRICES.values(), key=lambda price: price.output)

# Haiku 5.5 bills every token of a request at the second price once its prompt is longer than this.
_LONG_PROMPT = 100_000
_LONG_PROMPT_PRICES = {"claude-haiku-5-5": _price("0.50", "2.50", "0.05", "0.625")}

# A region's prefix, a date, "latest", a platform's version: the same model at the same price.
# Another number is another model, so `claude-opus-5-9` is unknown and not an opus-5.
_NAME = re.compile(
    r"(?:[a-z]+\.)*(?P<model>claude-[a-z]+-\d+(?:-\d)?)"
    r"(?:[-@](?:\d{8}|latest|default))?(?:-v\d+(?::\d+)?)?(?:\[1m\])?"
)


def known(model: str) -> bool:
    return model == SCRIPTED or _find(model) in _PRICES


def cost(model: str, usage: Usage) -> Decimal:
    """In USD. An unknown model costs as much as the dearest one, so that a limit still bounds."""
    price = _price_of(model, usage)
    with localcontext(_ARITHMETIC):
        millionths = (
            price.input * usage.input_tokens
            + price.output * usage.output_tokens
            + price.cache_read * usage.cache_read_tokens
            + price.cache_write * usage.cache_write_tokens
        )
        return millionths / _MILLION


def _price_of(model: str, usage: Usage) -> Price:
    if model == SCRIPTED:
        return _FREE
    name = _find(model)
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    if prompt > _LONG_PROMPT and name in _LONG_PROMPT_PRICES:
        return _LONG_PROMPT_PRICES[name]
    return _PRICES.get(name, _DEAREST)


def _find(model: str) -> str:
    """The table's name for `model`; itself if there is none. `-0` was once an alias's ending."""
    match = _NAME.fullmatch(model)
    return match["model"].removesuffix("-0") if match else model
