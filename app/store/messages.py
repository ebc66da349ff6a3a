"""What people say to a run that is under way."""

from app.domain.canonical import encode
from app.store.db import Connection, Row, row


async def insert(
    connection: Connection, message: str, run: str, text: str, content: object = None
) -> Row:
    """`content`: blocks, where what was said is more than text."""
    found = await row(
        connection,
        """insert into perdure.messages (id, run, text, content)
           values (%(message)s, %(run)s, %(text)s, %(content)s)
           returning id, run, text, state, turn, created_at""",
        message=message,
        run=run,
        text=text,
        content=None if content is None else encode(content),
    )
    assert found is not None
    return found


async def find(connection: Connection, run: str, message: str) -> Row | None:
    return await row(
        connection,
        """select id, run, text, state, turn, created_at from perdure.messages
           where id = %(message)s and run = %(run)s for no key update""",
        run=run,
        message=message,
    )


async def delete(connection: Connection, message: str) -> None:
    await row(
        connection,
        "delete from perdure.messages where id = %(message)s returning id",
        message=message,
    )
