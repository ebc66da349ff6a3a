"""A worker that freezes in the commit of a record: it is kept whole or lost whole."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.acceptance.conftest import deployed
from tests.acceptance.test_frozen import paid, state
from tests.support.client import Client
from tests.support.database import Cluster
from tests.support.deployment import Deployment
from tests.support.inspection import notes
from tests.support.sabotage import commits_to_hold
from tests.support.scripts import Step, say, use
from tests.support.world import World

# Which runs stop in the commit of which event; later events are held last.
STOPS: dict[str, dict[str, Step]] = {
    "run.succeeded": {"settled": say("done")},
    "call.succeeded": {
        "once": use("pay_once", ref="once"),
        "idem": use("pay_idem", ref="idem"),
    },
    "call.started": {
        "note": use("note_tx", text="note"),  # tells of both in one commit
        "once started": use("pay_once", ref="once started"),
        "idem started": use("pay_idem", ref="idem started"),
    },
    "model.completed": {"answered": say("done")},
}
# By what became of the commit: the call's state and attempts; requests and payments.
PAID = {
    "committed": {
        "once": (("succeeded", 1), (1, 1)),
        "idem": (("succeeded", 1), (1, 1)),
        "once started": (("outcome_unknown", 1), (0, 0)),
        "idem started": (("succeeded", 2), (1, 1)),
    },
    "cut off": {
        "once": (("outcome_unknown", 1), (1, 1)),
        "idem": (("succeeded", 2), (2, 1)),
        "once started": (("succeeded", 1), (1, 1)),
        "idem started": (("succeeded", 1), (1, 1)),
    },
}


@pytest_asyncio.fixture
async def own_deployment(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    logs = tmp_path_factory.mktemp("logs")
    async with deployed(cluster, logs, PERDURE_LEASE_SECONDS="3") as deployment:
        yield deployment


@pytest.mark.parametrize("how", PAID)
async def test_freeze_in_the_commit_of_a_record_keeps_it_or_does_it_again(
    world: World, client: Client, deployment: Deployment, how: str
) -> None:
    runs: dict[str, str] = {}
    process = deployment.worker
    with commits_to_hold(deployment.database_url, *STOPS) as commits:
        for commit, steps in zip(commits, STOPS.values(), strict=True):
            commit.hold()
            for name, step in steps.items():
                accepted = await client.submit(step, say("done"), preface=f"<{name}>")
                runs[name] = accepted["id"]
            await commit.reached(holding=len(steps))
        process.freeze()
        if how == "committed":
            for commit in commits:
                commit.release()
        await deployment.start_worker()
        for commit in commits:
            await commit.cut_off()
    for run in runs.values():
        await client.succeeded(run)
    for name, expected in PAID[how].items():
        assert (name, await state(client, runs[name]), paid(world, name)) == (name, *expected)

    assert await deployment.thaw(process) == 1
    for name, (_, made) in PAID[how].items():
        assert (name, paid(world, name)) == (name, made)
    assert notes(deployment.database_url, runs["note"]) == ["note"]
    asked = [0] if how == "committed" else [0, 0]
    assert [world.model.steps(f"<{name}>") for name in ("answered", "settled")] == [asked, [0]]
    for run in runs.values():
        types = await client.event_types(run)
        assert types.count("run.succeeded") == 1
        assert set(types[types.index("run.succeeded") + 1 :]) <= {"call.reconciled"}
        assert await client.strandings(run) == []
