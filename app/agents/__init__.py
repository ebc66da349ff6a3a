"""The agents that come with Perdure; `PERDURE_AGENTS=app.agents` serves them."""

from app.agents.refund_desk import refund_desk

__all__ = ["refund_desk"]
