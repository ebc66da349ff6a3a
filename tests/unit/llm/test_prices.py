from decimal import Context, Decimal, Inexact, localcontext

import pytest

from app.llm.client import Usage
from app.llm.prices import cost, known

MILLION = 1_000_000


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-5",
        "claude-sonnet-5-20260201",
        "claude-opus-4-20250514",
        "claude-opus-4-0",
        "claude-opus-4-5@20251101",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "claude-haiku-5-5[1m]",
        "scripted",
    ],
)
def test_a_model_is_known_under_every_spelling_of_its_name(model: str) -> None:
    assert known(model)


@pytest.mark.parametrize("model", ["claude-opus-5-9", "claude-next-1", "gpt", "", "claude-opus-6"])
def test_another_number_is_another_model(model: str) -> None:
    assert not known(model)


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(MILLION, MILLION, MILLION, MILLION)

    assert cost("claude-opus-4-8", usage) == Decimal("5") + Decimal("25") + Decimal("6.75")
    assert cost("claude-sonnet-5", Usage(input_tokens=1)) == Decimal("0.000002")


def test_the_longest_name_wins() -> None:
    usage = Usage(output_tokens=MILLION)

    assert cost("claude-opus-4-8", usage) < cost("claude-opus-4-1", usage)
    assert cost("claude-opus-5-5", usage) < cost("claude-opus-5", usage)


def test_an_unknown_model_costs_as_much_as_the_dearest() -> None:
    usage = Usage(MILLION, MILLION)

    assert cost("claude-next-1", usage) == cost("claude-opus-4", usage) == Decimal(90)


def test_a_long_prompt_has_its_own_price_cache_included() -> None:
    short, long = Usage(cache_read_tokens=100_000), Usage(1, 0, 100_000)

    assert cost("claude-haiku-5-5", short) == Decimal("0.001")
    assert cost("claude-haiku-5-5", long) == Decimal("0.0050005")


def test_the_scripted_model_is_free() -> None:
    assert cost("scripted", Usage(MILLION, MILLION, MILLION, MILLION)) == 0


def test_a_process_that_counts_otherwise_changes_no_cost() -> None:
    usage = Usage(input_tokens=1234, output_tokens=567)
    exact = cost("claude-sonnet-5", usage)
    with localcontext(Context(prec=1, traps=[Inexact])):
        assert cost("claude-sonnet-5", usage) == exact
