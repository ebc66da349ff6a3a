"""The payment provider and the documents behave like the real ones."""

import pytest

from tests.support.documents import Documents, Effects
from tests.support.payments import KeyReused, Payments


def pay(payments: Payments, ref: str, amount: int = 5, key: str | None = None) -> None:
    headers = {"idempotency-key": key} if key else {}
    payments.book(payments.receive(ref, amount, headers))


def test_one_key_books_one_row_and_counts_each_call() -> None:
    payments = Payments()
    pay(payments, "a", key="k")
    pay(payments, "a", key="k")
    assert (len(payments.rows_for("a")), len(payments.calls_for("a"))) == (1, 2)


def test_payments_without_a_key_are_booked_each_time() -> None:
    payments = Payments()
    pay(payments, "a")
    pay(payments, "a")
    assert len(payments.rows_for("a")) == 2


def test_a_key_is_not_good_for_another_payment() -> None:
    payments = Payments()
    pay(payments, "a", amount=5, key="k")
    with pytest.raises(KeyReused):
        pay(payments, "a", amount=6, key="k")


def test_a_look_up_finds_only_what_was_booked() -> None:
    payments = Payments()
    payments.receive("a", 5, {})
    assert payments.look_up("a") is None
    pay(payments, "a")
    assert payments.look_up("a") is not None
    assert payments.lookups == ["a", "a"]


def test_a_document_has_a_version_for_each_write() -> None:
    documents = Documents()
    documents.write("d", "one")
    documents.write("d", "two")
    assert documents.read("d") == {"name": "d", "version": 2, "text": "two"}


def test_effects_are_counted_by_name() -> None:
    effects = Effects()
    effects.record("a", {"n": 1})
    effects.record("b", {})
    effects.record("a", {"n": 2})
    assert (effects.count("a"), effects.details("a")) == (2, [{"n": 1}, {"n": 2}])
