"""The model's answers, whole and as received."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from app.domain.canonical import encode, scrub
from app.store.db import Connection, Row, call, row, rows, verdict


@dataclass(frozen=True)
class Asked:
    """What is recorded with a turn about the request it made."""

    model: str
    parameters: dict[str, Any]
    prompt_hash: str
    tools_hash: str
    provider: str


async def begin(
    connection: Connection,
    run: str,
    fence: int,
    turn: int,
    worker: str,
    asked: Asked,
    *,
    take_messages: bool,
    cap: int | None = None,
) -> str:
    """'call', or why the model may not be called: see the function.

    `cap`: how many calls to its provider may be under way.
    """
    return await verdict(
        connection,
        "begin_turn",
        run=run,
        fence=fence,
        turn=turn,
        worker=worker,
        model=asked.model,
        parameters=encode(asked.parameters),
        prompt_hash=asked.prompt_hash,
        tools_hash=asked.tools_hash,
        take_messages=take_messages,
        provider=asked.provider,
        cap=cap,
    )


async def finish(
    connection: Connection,
    run: str,
    fence: int,
    turn: int,
    *,
    model: str,
    stop_reason: str,
    content: list[dict[str, Any]],
    usage: dict[str, int],
    cost: Decimal,
    asked_for: list[dict[str, Any]],
) -> str:
    """`asked_for`: the tool_use blocks that become calls."""
    return await verdict(
        connection,
        "finish_turn",
        run=run,
        fence=fence,
        turn=turn,
        model=scrub(model),
        stop_reason=scrub(stop_reason),
        content=encode(content),
        usage=encode(usage),
        cost=cost,
        provider_ids=[scrub(str(block.get("id"))) for block in asked_for],
        tools=[scrub(str(block.get("name"))) for block in asked_for],
        # Input that was cut off or is no JSON is kept as the text it was, and refused at proposal.
        inputs=[encode(block.get("partial_json", block.get("input"))) for block in asked_for],
    )


async def fail(
    connection: Connection,
    run: str,
    fence: int,
    turn: int,
    *,
    outcome: str,
    detail: str,
    maybe_paid: bool,
    retry_seconds: float | None,
    told: float | None = None,
) -> str:
    """`told`: the seconds in which the provider, who complains, wants to hear from nobody."""
    return await verdict(
        connection,
        "fail_turn",
        run=run,
        fence=fence,
        turn=turn,
        outcome=scrub(outcome),
        detail=scrub(detail),
        maybe_paid=maybe_paid,
        retry_seconds=retry_seconds,
        told=told,
    )


async def let_in(connection: Connection) -> None:
    """Lets runs go that wait for room at their provider, as far as there is some."""
    await call(connection, "let_in")


async def asks_too_much(connection: Connection, run: str) -> bool:
    """Whether more calls were asked for than the run, or one above it, may make."""
    return bool((await call(connection, "asks_too_much", run=run))["asks_too_much"])


async def stored(connection: Connection, run: str, turn: int) -> Row:
    """A finished turn: {stop_reason, content, calls: [{tool, state, result}]}."""
    found = await row(
        connection,
        """select t.stop_reason, t.content, (
               select coalesce(json_agg(json_build_object(
                   'tool', c.tool, 'state', c.state, 'result', c.result) order by c.index), '[]')
               from perdure.calls c where c.run = t.run and c.turn = t.number) as calls
           from perdure.turns t where t.run = %(run)s and t.number = %(turn)s""",
        run=run,
        turn=turn,
    )
    assert found is not None
    return found


async def history(connection: Connection, run: str) -> list[Row]:
    """The session's runs up to this one, oldest first, with all that was said.

    `attempt`: the one at the turn that is not finished.
    A fork's session begins with what came before its source."""
    return await rows(
        connection,
        """with recursive line (session, place) as (
               select session, place from perdure.runs where id = %(run)s
               union all
               select source.session, source.place - 1 from line
               join perdure.runs fork
                   on fork.session = line.session and fork.forked_from is not null
               join perdure.runs source on source.id = fork.forked_from)
           select x.id, x.input, x.model_failures, x.status = 'cancelled' as cancelled, (
               select json_agg(json_build_object(
                   'number', t.number, 'stop_reason', t.stop_reason, 'content', t.content,
                   'calls', perdure.told_calls(t)) order by t.number)
               from perdure.turns t where t.run = x.id and t.finished_at is not null) as turns, (
               select json_agg(json_build_object(
                   'turn', m.turn, 'text', m.text, 'content', m.content) order by m.place)
               from perdure.messages m where m.run = x.id and m.turn is not null) as messages, (
               select t.attempts
               from perdure.turns t where t.run = x.id and t.finished_at is null
               order by t.number desc limit 1) as attempt
           from line join perdure.runs x on x.session = line.session and x.place <= line.place
           order by x.place""",
        run=run,
    )
