"""Hears of each question that a run asks, in the moment in which it is committed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

ANNOUNCE = """
    create function public.announce() returns trigger language plpgsql as $$
    begin
        perform pg_notify('questions', new.run || ' ' || new.id);
        return new;
    end $$;
    create trigger announce after insert on perdure.waits
        for each row execute function public.announce();
    listen questions;
"""


@asynccontextmanager
async def announced_questions(database_url: str) -> AsyncIterator["Questions"]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(ANNOUNCE)
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
