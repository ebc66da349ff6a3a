"""The model's answers, whole and as received."""

from dataclasses import dataclass
from typing import Any

from app.domain.canonical import encode, scrub
from app.store.db import Connection, Row, row, rows


@dataclass(frozen=True)
class Asked:
    """What is recorded with a turn about the request it made."""

    model: str
    parameters: dict[str, Any]
    prompt_hash: str
    tools_hash: str


async def begin(
    connection: Connection,
    run: str,
    fence: int,
    turn: int,
    worker: str,
    asked: Asked,
    *,
    take_messages: bool,
) -> str:
    """'call', or why the model may not be called: see the function."""
    found = await row(
        connection,
        """select perdure.begin_turn(%(run)s, %(fence)s, %(turn)s, %(worker)s, %(model)s, %(parameters)s,
               %(prompt_hash)s, %(tools_hash)s, %(take_messages)s) as verdict""",
        run=run,
        fence=fence,
        turn=turn,
        worker=worker,
        model=asked.model,
        parameters=encode(asked.parameters),
        prompt_hash=asked.prompt_hash,
        tools_hash=asked.tools_hash,
        take_messages=take_messages,
    )
    assert found is not None
    return str(found["verdict"])


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
    cost: object,
    asked_for: list[dict[str, Any]],
) -> str:
    """`asked_for`: the tool_use blocks that become calls."""
    found = await row(
        connection,
        """select perdure.finish_turn(%(run)s, %(fence)s, %(turn)s, %(model)s, %(stop_reason)s, %(content)s,
               %(usage)s, %(cost)s, %(ids)s, %(tools)s, %(inputs)s::json[]) as verdict""",
        run=run,
        fence=fence,
        turn=turn,
        model=scrub(model),
        stop_reason=scrub(stop_reason),
        content=encode(content),
        usage=encode(usage),
        cost=cost,
        ids=[scrub(str(block.get("id"))) for block in asked_for],
        tools=[scrub(str(block.get("name"))) for block in asked_for],
        inputs=[encode(block.get("partial_json", block.get("input"))) for block in asked_for],
    )
    assert found is not None
    return str(found["verdict"])


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
) -> str:
    found = await row(
        connection,
        """select perdure.fail_turn(%(run)s, %(fence)s, %(turn)s, %(outcome)s, %(detail)s, %(maybe_paid)s,
               %(retry_seconds)s::float8) as verdict""",
        run=run,
        fence=fence,
        turn=turn,
        outcome=scrub(outcome),
        detail=scrub(detail),
        maybe_paid=maybe_paid,
        retry_seconds=retry_seconds,
    )
    assert found is not None
    return str(found["verdict"])


async def stored(connection: Connection, run: str, turn: int) -> Row:
    """A finished turn: {stop_reason, content, calls: [{tool, state, result}]}."""
    found = await row(
        connection,
        """select t.stop_reason, t.content,
               (select coalesce(json_agg(json_build_object('tool', c.tool, 'state', c.state, 'result', c.result)
                    order by c.index), '[]')
                from perdure.calls c where c.run = t.run and c.turn = t.number) as calls
           from perdure.turns t where t.run = %(run)s and t.number = %(turn)s""",
        run=run,
        turn=turn,
    )
    assert found is not None
    return found


async def history(connection: Connection, run: str) -> list[Row]:
    """The session's runs up to this one, oldest first, each with all that the model has said and been told."""
    return await rows(
        connection,
        """select x.id, x.input, x.model_failures,
               (select json_agg(json_build_object('number', t.number, 'stop_reason', t.stop_reason,
                    'content', t.content, 'calls', (
                        select coalesce(json_agg(json_build_object('provider_id', c.provider_id, 'state', c.state,
                            'result', c.result, 'told_unknown', c.told_unknown) order by c.index), '[]')
                        from perdure.calls c where c.run = x.id and c.turn = t.number)) order by t.number)
                from perdure.turns t where t.run = x.id and t.finished_at is not null) as turns,
               (select json_agg(json_build_object('turn', m.turn, 'text', m.text) order by m.place)
                from perdure.messages m where m.run = x.id and m.turn is not null) as messages
           from perdure.runs me join perdure.runs x on x.session = me.session and x.place <= me.place
           where me.id = %(run)s order by x.place""",
        run=run,
    )
