"""Hears of each question that a run asks, in the moment in which it is committed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

ANNOUNCE = """
    create function public.announce() returns trigger language plpgsql as $$
    begin
        perform pg_notify('questions', new.run || ' ' || new.id);
        return new;
    end $$;
    listen questions;
"""
TRIGGER = sql.SQL(
    "create trigger announce after insert on perdure.waits "
    "for each row when (new.kind = {}) execute function public.announce()"
)


@asynccontextmanager
async def announced_questions(
    database_url: str, kind: str = "approval"
) -> AsyncIterator["Questions"]:
    """Waits of this kind, while it is open."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(ANNOUNCE)
        await connection.execute(TRIGGER.format(kind))
        try:
            yield Questions(connection)
        finally:
            await connection.execute("drop function public.announce cascade")


@dataclass(frozen=True)
class Questions:
    connection: psycopg.AsyncConnection

    async def next(self, count: int, within: float) -> AsyncIterator[tuple[str, str]]:
        """Run and wait of the next `count` questions, or of as many as come `within` seconds."""
        async for notice in self.connection.notifies(stop_after=count, timeout=within):
            run, _, wait = notice.payload.partition(" ")
            yield run, wait
