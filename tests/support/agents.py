"""Agents for the workers under test."""

import json
import os

from app import Agent, Limits, ask_user, delegate, sleep_for, sleep_until
from tests.support.deadly_tools import deadly, deadly_read
from tests.support.odd_tools import (
    big,
    big_read,
    count,
    count_sync,
    crash_idem,
    crash_once,
    crash_read,
    crash_tx,
    echo,
    flaky,
    interpreter_exit,
    nap,
    nul,
    shout,
    times_out,
    unencodable,
    until_cancelled,
    user_error,
    with_secret,
)
from tests.support.saga_tools import (
    book,
    book_asked,
    book_by_client,
    book_for_good,
    book_once,
    book_sync,
    book_too_late,
    book_tx,
    book_tx_for_good,
    book_until_deploy,
)
from tests.support.tools import (
    doc_read,
    edit,
    note_tx,
    note_tx_sync,
    pay_idem,
    pay_once,
    pay_once_ask,
    pay_once_own,
    pay_once_r,
    pay_once_unsure,
    refund,
    refund_once,
    refund_soon,
)
from tests.support.waiting_tools import ask_soon, sign, sign_later, sign_soon, sign_today

TOOLS = [
    *(doc_read, pay_idem, pay_once, pay_once_r, pay_once_own, pay_once_unsure, pay_once_ask),
    *(note_tx, note_tx_sync, refund, refund_once, refund_soon, edit),
    *(deadly, deadly_read),
    *(user_error, crash_read, crash_idem, crash_once, crash_tx, flaky, times_out),
    *(interpreter_exit, big, big_read, echo, nul, unencodable),
    *(count, count_sync, nap, until_cancelled, with_secret, shout),
    *(ask_user, sleep_for, sleep_until, delegate),
    *(book, book_once, book_tx, book_asked, book_sync, book_by_client),
    *(book_for_good, book_tx_for_good, book_too_late, book_until_deploy),
    *(ask_soon, sign, sign_soon, sign_today, sign_later),
]
MODEL = "claude-sonnet-5"
INSTRUCTIONS = "You are the desk of the tests."

desk = Agent(
    name="desk", model=MODEL, instructions=INSTRUCTIONS, tools=TOOLS, limits=Limits(turns=200)
)
saga = Agent(
    name="saga", model=MODEL, instructions=INSTRUCTIONS, tools=TOOLS, on_denial="compensate"
)
brief = Agent(
    name="brief", model=MODEL, instructions=INSTRUCTIONS, tools=TOOLS, limits=Limits(turns=1)
)
reader = Agent(name="reader", model=MODEL, instructions=INSTRUCTIONS, tools=[doc_read])
cautious = Agent(
    name="cautious",
    model=MODEL,
    instructions=INSTRUCTIONS,
    tools=[pay_idem, pay_once, refund, sign, delegate],
    approvals={
        **dict.fromkeys(("pay_idem", "pay_once", "sign", "delegate"), "always"),
        "refund": "never",
    },
)
changing = Agent(
    name="changing",
    model=os.environ.get("CHANGING_MODEL", MODEL),
    thinking=json.loads(os.environ.get("CHANGING_THINKING", "null")),
    instructions=INSTRUCTIONS,
    tools=[refund],
)
