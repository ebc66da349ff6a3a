"""Tools that a client runs or a person answers, some only for a while."""

from dataclasses import replace
from datetime import timedelta

from pydantic import BaseModel

from app import ToolContext, ask_user, tool
from tests.support.outside import Reply

SOON = timedelta(seconds=1)


class Signed(BaseModel):
    by: str
    pages: int


@tool(external=True, result=Signed)
async def sign(ctx: ToolContext, document: str) -> Reply:
    """Have the client sign a document."""
    raise AssertionError("a client runs it")


@tool(external=True, expires=SOON)
async def sign_soon(ctx: ToolContext, document: str) -> Reply:
    """Have the client sign a document within a second."""
    raise AssertionError("a client runs it")


@tool(external=True, expires=timedelta(seconds=4))
async def sign_today(ctx: ToolContext, document: str) -> Reply:
    """Have the client sign a document in time to be reminded of it."""
    raise AssertionError("a client runs it")


@tool(external=True, expires=timedelta(hours=1))
async def sign_later(ctx: ToolContext, document: str) -> Reply:
    """Have the client sign a document within the hour."""
    raise AssertionError("a client runs it")


ask_soon = replace(ask_user, name="ask_soon", expires=SOON)
