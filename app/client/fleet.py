"""Who works, with what, and what was sent to callbacks."""

from app.client.listing import Listing, query_of
from app.client.models import Agent, Delivery, Session, Tool, Transcript, Worker
from app.client.wire import Flow, Request, fetch, path


def workers() -> Listing[Worker]:
    return Listing(Worker, "/v1/workers")


def agents() -> Listing[Agent]:
    return Listing(Agent, "/v1/agents")


def tools() -> Listing[Tool]:
    return Listing(Tool, "/v1/tools")


def session(session: str) -> Flow[Session]:
    return (yield from fetch(Request("GET", path("sessions", session)), Session.model_validate))


def transcript(session: str) -> Flow[Transcript]:
    """The conversation as the model would be sent it."""
    request = Request("GET", path("sessions", session, "transcript"))
    return (yield from fetch(request, Transcript.model_validate))


def deliveries(*, run: str | None = None, state: str | None = None) -> Listing[Delivery]:
    """What was sent to the callbacks of runs: `pending`, `delivered` or `dead`."""
    return Listing(Delivery, "/v1/webhooks/deliveries", query_of(run=run, state=state))


def redeliver(delivery: str) -> Flow[Delivery]:
    """Sends it again, under the same webhook-id. Never asked for twice."""
    request = Request(
        "POST", path("webhooks", "deliveries", delivery, "redeliver"), repeatable=False
    )
    return (yield from fetch(request, Delivery.model_validate))
