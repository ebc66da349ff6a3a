"""What the Postgres proxy makes of the bytes of a real session."""

import struct

import pytest

from app.cli.verify.protocol import Exchange, Message, Session, Splitter
from app.cli.verify.statements import Reader, Runs

READY = {"I": bytes.fromhex("5a0000000549"), "T": bytes.fromhex("5a0000000554")}
# `BEGIN` as a simple query, and its answer, as recorded.
BEGIN = bytes.fromhex("510000000a424547494e00")
BEGUN = bytes.fromhex("430000000a424547494e00") + READY["T"]
COMMIT = bytes.fromhex("510000000b434f4d4d495400")
COMMITTED = bytes.fromhex("430000000b434f4d4d495400") + READY["I"]
SYNC = bytes.fromhex("5300000004")
WRITERS = frozenset({"perdure.start_call", "perdure.take_run"})


def message(kind: str, *parts: bytes) -> bytes:
    return Message(kind, b"".join(parts)).raw


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def bind(*values: bytes | None, name: str = "", formats: tuple[int, ...] = (0,)) -> bytes:
    parts = [text(""), text(name), struct.pack(f"!h{len(formats)}h", len(formats), *formats)]
    parts.append(struct.pack("!h", len(values)))
    for value in values:
        parts.append(struct.pack("!i", -1 if value is None else len(value)) + (value or b""))
    return message("B", *parts, struct.pack("!h", 0))


def extended(sql: str, *values: bytes | None, name: str = "", known: bool = False) -> bytes:
    parse = b"" if known else message("P", text(name), text(sql), struct.pack("!h", 0))
    execute = message("E", text(""), struct.pack("!i", 0))
    return parse + bind(*values, name=name) + execute + SYNC


def done(tag: str, status: str = "I") -> bytes:
    return message("C", text(tag)) + READY[status]


def talk(session: Session, *turns: bytes) -> list[Exchange]:
    """What was sent and what was answered, by turns; the exchanges that were sent."""
    found = []
    for place, raw in enumerate(turns):
        for each in Splitter().feed(raw):
            if place % 2:
                session.answered(each)
            elif (exchange := session.sent(each)) is not None:
                found.append(exchange)
    return found


def name_of(exchange: Exchange) -> str | None:
    act = Reader(WRITERS, Runs()).read(exchange)
    return None if act is None else act.name


def test_messages_are_cut_wherever_the_bytes_are_parted() -> None:
    raw = BEGIN + COMMIT + SYNC
    for at in range(len(raw)):
        splitter = Splitter()
        found = [*splitter.feed(raw[:at]), *splitter.feed(raw[at:])]
        assert [each.kind for each in found] == ["Q", "Q", "S"]
        assert b"".join(each.raw for each in found) == raw


def test_a_statement_by_itself_is_a_commit() -> None:
    (exchange,) = talk(Session(), extended("insert into public.notes values ($1)", b"a"))
    assert exchange.commits
    assert name_of(exchange) == "insert public.notes"


def test_a_read_by_itself_is_none() -> None:
    (exchange,) = talk(Session(), extended("select * from perdure.runs where id = $1", b"a"))
    assert name_of(exchange) is None


def test_a_transaction_commits_once_and_is_named_for_what_it_wrote() -> None:
    insert = "INSERT INTO dbos.operation_outputs (workflow_uuid, function_name) VALUES ($1, $2)"
    begin, write, commit = talk(
        Session(),
        *(BEGIN, BEGUN),
        *(extended(insert, b"run_1:1", b"perdure.model"), done("INSERT 0 1", "T")),
        COMMIT,
    )
    assert [begin.commits, write.commits, commit.commits] == [False, False, True]
    assert name_of(commit) == "journal perdure.model"


@pytest.mark.parametrize("tag", ["UPDATE 0", "INSERT 0 0", "DELETE 0"])
def test_a_transaction_that_wrote_nothing_is_no_commit(tag: str) -> None:
    write = extended("update perdure.runs set status = $1", b"x")
    *_, commit = talk(Session(), BEGIN, BEGUN, write, done(tag, "T"), COMMIT)
    assert commit.commits
    assert name_of(commit) is None


def test_the_next_transaction_begins_with_nothing() -> None:
    session = Session()
    write = extended("delete from public.notes")
    talk(session, BEGIN, BEGUN, write, done("DELETE 3", "T"), COMMIT, COMMITTED)
    *_, commit = talk(session, BEGIN, BEGUN, extended("select 1"), done("SELECT 1", "T"), COMMIT)
    assert name_of(commit) is None


def test_a_failed_transaction_commits_nothing() -> None:
    failed = bytes.fromhex("5a0000000545")
    write = extended("insert into public.notes values (1)")
    *_, commit = talk(Session(), BEGIN, BEGUN, write, failed, COMMIT)
    assert not commit.commits


def test_a_prepared_statement_is_known_again() -> None:
    session, sql = Session(), "insert into public.notes values ($1)"
    talk(session, extended(sql, b"a", name="_pg3_0"), done("INSERT 0 1"))
    (again,) = talk(session, extended(sql, b"b", name="_pg3_0", known=True))
    assert again.statements[0].sql == sql
    assert again.statements[0].values == ("b",)


def test_a_transition_is_named_with_its_call() -> None:
    sql = "select * from perdure.start_call(p_run => $1, p_fence => $2, p_call => $3)"
    raw = (
        message("P", text(""), text(sql), struct.pack("!h", 0))
        + bind(b"run_7", b"\0\3", b"call_7_2_1", formats=(0, 1, 0))
        + message("E", text(""), struct.pack("!i", 0))
        + SYNC
    )
    (exchange,) = talk(Session(), raw)
    act = Reader(WRITERS, Runs()).read(exchange)
    assert act is not None
    assert exchange.statements[0].values == ("run_7", "3", "call_7_2_1")
    assert act.name == "start_call 2/1"
    assert act.is_fenced
    assert str(act.place) == "r1/2/1"


def test_the_second_run_is_told_apart() -> None:
    runs = Runs()
    sql = "select * from perdure.take_run(p_run => $1, p_leg => $2)"
    (exchange,) = talk(Session(), extended(sql, b"run_b", b"1"))
    runs.name("run_a")
    act = Reader(WRITERS, runs).read(exchange)
    assert act is not None
    assert act.name == "take_run r2 leg 1"


def test_the_beat_of_the_lease_does_not_count() -> None:
    beat = "update perdure.workers set last_beat_at = clock_timestamp() where id = $1"
    (exchange,) = talk(Session(), extended(beat, b"w"))
    assert name_of(exchange) is None


def test_locking_rows_is_not_writing() -> None:
    lock = "select id from perdure.runs where id = $1 for no key update"
    (exchange,) = talk(Session(), extended(lock, b"a"))
    assert name_of(exchange) is None


def test_parameters_are_kept_to_the_byte() -> None:
    raw = (
        message("P", text(""), text("select $1, $2, $3"), struct.pack("!hIII", 3, 25, 21, 0))
        + bind(b"a", b"\0\7", None, formats=(0, 1, 0))
        + message("E", text(""), struct.pack("!i", 0))
        + SYNC
    )
    (exchange,) = talk(Session(), raw)
    (statement,) = exchange.statements
    assert statement.values == ("a", "7", None)
    assert statement.raw == (b"a", b"\0\7", None)
    assert (statement.formats, statement.types) == ((0, 1, 0), (25, 21, 0))
