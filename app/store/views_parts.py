"""What a run is made of, in pages: turns, calls, events, messages."""

from app.store.db import Connection, Row, row, rows


async def turns(connection: Connection, run: str, after: int, limit: int) -> list[Row]:
    return await rows(
        connection,
        """
        select * from perdure.turns where run = %(run)s and number > %(after)s
        order by number limit %(limit)s
        """,
        run=run,
        after=after,
        limit=limit,
    )


async def turns_over(connection: Connection, run: str) -> int:
    """The number of the last turn that is finished."""
    found = await row(
        connection,
        """select coalesce(max(number), 0) as number from perdure.turns
           where run = %(run)s and finished_at is not null""",
        run=run,
    )
    assert found is not None
    return int(found["number"])


async def calls(connection: Connection, run: str, after: tuple[int, int], limit: int) -> list[Row]:
    return await rows(
        connection,
        """
        select * from perdure.calls
        where run = %(run)s and (turn, index) > (%(turn)s, %(index)s)
        order by turn, index limit %(limit)s
        """,
        run=run,
        turn=after[0],
        index=after[1],
        limit=limit,
    )


async def call(connection: Connection, call_id: str) -> Row | None:
    return await row(connection, "select * from perdure.calls where id = %(id)s", id=call_id)


async def events(connection: Connection, run: str, after: int, limit: int) -> list[Row]:
    return await rows(
        connection,
        """
        select * from perdure.events where run = %(run)s and seq > %(after)s
        order by seq limit %(limit)s
        """,
        run=run,
        after=after,
        limit=limit,
    )


async def messages(connection: Connection, run: str, after: int, limit: int) -> list[Row]:
    return await rows(
        connection,
        """
        select * from perdure.messages where run = %(run)s and place > %(after)s
        order by place limit %(limit)s
        """,
        run=run,
        after=after,
        limit=limit,
    )
