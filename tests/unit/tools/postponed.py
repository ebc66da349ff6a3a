"""A tool in a module whose annotations are strings, with names imported for typing only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import tool

if TYPE_CHECKING:
    from app import ToolContext


@tool(replay="transactional")
async def note(ctx: ToolContext, text: str, tags: list[str] | None = None) -> int:
    """Write a note."""
    return len(text) + len(tags or [])
