"""`perdure workers`, `agents` and `tools`: who works, and with what."""

from app.cli.remote.calling import service
from app.cli.remote.options import Json


def workers(as_json: Json = False) -> None:
    """List the workers and what each of them has in hand."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = list(client.workers.list())
    if as_json:
        screen.print_json(screen.raw(found))
    else:
        showing.print_workers(found)


def agents(as_json: Json = False) -> None:
    """List the agents, and how many workers carry each."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = list(client.agents.list())
    if as_json:
        screen.print_json(screen.raw(found))
    else:
        showing.print_agents(found)


def tools(as_json: Json = False) -> None:
    """List the tools of all agents, with their replay policies."""
    from app.cli.remote import screen, showing

    with service(as_json=as_json) as client:
        found = list(client.tools.list())
    if as_json:
        screen.print_json(screen.raw(found))
    else:
        showing.print_tools(found)
