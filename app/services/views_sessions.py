"""Sessions, and what was said in them, as JSON."""

from app.domain.transcript import ToldRun, conversation
from app.errors import NotFound
from app.services.context import Services
from app.services.views_shapes import Json, moment
from app.store import turns, views_sessions


async def get_session(services: Services, session: str) -> Json:
    async with services.database.connection() as connection:
        found = await views_sessions.get(connection, session)
    if found is None:
        raise _missing(session)
    return {
        "id": found["id"],
        "runs": found["runs"],
        "active_run": found["active_run"],
        "metadata": found["metadata"],
        "created_at": moment(found["created_at"]),
    }


async def get_transcript(services: Services, session: str) -> Json:
    """The conversation as the model gets it, up to now."""
    async with services.database.connection() as connection:
        speaking = await views_sessions.speaking(connection, session)
        if speaking is None:
            raise _missing(session)
        history = []
        if speaking["run"] is not None:
            history = await turns.history(connection, speaking["run"])
    runs = [ToldRun.read(run) for run in history]
    return {"session": session, "messages": conversation(runs, so_far=True)}


def _missing(session: str) -> NotFound:
    return NotFound(f"There is no session {session}; a run's `session` names its own.")
