"""Clients that do not stay for their answer."""

from starlette.types import Receive


async def client_gone(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
