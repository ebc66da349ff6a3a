"""The commands as scripts use them: real processes, their exit codes and their JSON."""

import asyncio
import json
import signal

import pytest

from tests.support.client import Client
from tests.support.commands import Commands
from tests.support.deployment import Deployment
from tests.support.polling import in_time
from tests.support.processes import free_port
from tests.support.scripts import give, refuse, say, script, use
from tests.support.world import World

EVIL = "\x1b[2Jgone\x07\u202e [bold]loud[/bold]"
HARMLESS = "\\x1b[2Jgone\\x07\\u202e [bold]loud[/bold]"


@pytest.fixture
def perdure(deployment: Deployment) -> Commands:
    return Commands(deployment.url)


@pytest.mark.calm
async def test_the_exit_code_says_how_a_run_ended(client: Client, perdure: Commands) -> None:
    done, failed = await asyncio.gather(
        perdure.run("runs", "submit", "desk", script(say("Done.")), "--wait", "--json"),
        perdure.run("runs", "submit", "desk", script(refuse(400)), "--wait", "--json"),
    )

    assert (done.code, done.document["status"]) == (0, "succeeded")
    assert (failed.code, failed.document["status"]) == (4, "failed")
    watched = await perdure.run("runs", "show", done.document["id"], "--json")
    assert watched.document["output"]["text"] == "Done."


@pytest.mark.calm
async def test_a_person_is_asked_and_decides_from_the_command_line(
    client: Client, perdure: Commands, world: World
) -> None:
    asked = await perdure.run(
        "runs", "submit", "desk", script(use("refund", ref="c1"), say("Refunded.")), "--wait"
    )
    assert asked.code == 5
    (run,) = [line.split()[1] for line in asked.out.splitlines() if line.startswith("run ")]
    (allow,) = [line for line in asked.out.splitlines() if "perdure waits allow" in line]

    listed = await perdure.run("waits", "list", "--run", run, "--json")
    (wait,) = listed.document
    assert allow.split() == ["perdure", "waits", "allow", wait["id"]]
    stale = await perdure.run("waits", "allow", wait["id"], "--hash", "other", "--json")
    assert stale.code == 1
    assert '"/problems/stale-arguments"' in stale.err
    assert stale.out == ""

    allowed = await perdure.run("waits", "allow", wait["id"], "--reason", "fine", "--json")
    assert allowed.document["resolution"]["reason"] == "fine"
    ended = await perdure.run("runs", "wait", run)
    denied = await perdure.run("waits", "deny", wait["id"])

    assert ended.code == 0
    assert "Refunded." in ended.out
    assert denied.code == 1
    assert [row.ref for row in world.payments.ledger if row.ref == "c1"] == ["c1"]


@pytest.mark.calm
async def test_an_outcome_that_nobody_knows_is_settled_from_the_command_line(
    client: Client, perdure: Commands
) -> None:
    run = await client.submit(use("times_out"), say("Unknown."))
    await client.succeeded(run["id"])
    (call,) = (await perdure.run("waits", "unknown", "--run", run["id"], "--json")).document

    settled = await perdure.run("waits", "settle", call["id"], "happened", "--result", "7")
    again = await perdure.run("waits", "unknown", "--run", run["id"], "--json")

    assert settled.out == f"{call['id']} is succeeded.\n"
    assert again.document == []


@pytest.mark.calm
async def test_what_is_refused_unknown_or_misspelt_has_a_code_of_its_own(
    client: Client, perdure: Commands
) -> None:
    nowhere = Commands(f"http://127.0.0.1:{free_port()}")
    missing, unreachable, misspelt, nothing = await asyncio.gather(
        perdure.run("runs", "show", "run_nothing"),
        nowhere.run("workers", "--json"),
        perdure.run("runs", "list", "--status", "sleeping"),
        Commands("perdure.example").run("agents"),
    )

    assert (missing.code, missing.out) == (1, "")
    assert "run_nothing" in missing.err
    assert (unreachable.code, unreachable.out) == (3, "")
    assert misspelt.code == 2
    assert nothing.code == 2
    assert "PERDURE_URL" in nothing.err


@pytest.mark.calm
async def test_time_that_is_over_is_told_and_the_run_goes_on(
    client: Client, perdure: Commands, world: World
) -> None:
    gate = world.gate("llm:arrive")
    run = await client.submit(say("Done."))
    await gate.reached()

    over = await perdure.run("runs", "wait", run["id"], "--timeout", "0.1")

    assert over.code == 6
    gate.open()
    await client.succeeded(run["id"])


@pytest.mark.calm
async def test_text_of_the_model_is_no_command_to_a_terminal_and_no_markup(
    client: Client, perdure: Commands
) -> None:
    done = await perdure.run("runs", "submit", "desk", script(say(EVIL)), "--wait")
    listed = await perdure.run("runs", "list", "--limit", "1")

    assert HARMLESS in done.out
    for output in (done.out, listed.out):
        assert not any(mark in output for mark in ("\x1b", "\x07", "\u202e"))


@pytest.mark.calm
async def test_the_fleet_is_listed(client: Client, perdure: Commands) -> None:
    workers, agents, tools = await asyncio.gather(
        perdure.run("workers", "--json"), perdure.run("agents"), perdure.run("tools", "--json")
    )

    assert [worker["lease"] for worker in workers.document] == ["held"]
    assert "desk" in [line.split("\t")[0] for line in agents.out.splitlines()[1:]]
    assert {"refund", "pay_once"} <= {tool["name"] for tool in tools.document}
    assert agents.err == ""


@pytest.mark.calm
async def test_a_run_is_steered_from_the_command_line(
    client: Client, perdure: Commands, world: World
) -> None:
    gate = world.gate("llm:arrive")
    run = await client.submit(use("doc_read", name="a"), say("Done."))
    await gate.reached()
    sent = await perdure.run("runs", "send", run["id"], "Hurry.", "--json")
    assert sent.document["text"] == "Hurry."
    gate.open()
    await client.succeeded(run["id"])

    forked = await perdure.run("runs", "fork", run["id"], "--turn", "1", "--json")
    resumed = await perdure.run("runs", "resume", run["id"], "--limit", "turns=9")
    cancelled = await perdure.run("runs", "cancel", run["id"])

    assert forked.document["forked_from"] == run["id"]
    assert (resumed.code, cancelled.code) == (1, 1)
    await client.succeeded(forked.document["id"])


async def test_watching_goes_on_over_a_restart_of_the_api(
    client: Client, deployment: Deployment, perdure: Commands, world: World
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_idem", ref="w1"), say(EVIL))
    await gate.reached()
    for_people, for_programs = await asyncio.gather(
        perdure.start("runs", "watch", run["id"]),
        perdure.start("runs", "watch", run["id"], "--json"),
    )
    assert for_people.stdout is not None
    assert for_programs.stdout is not None
    async with asyncio.timeout(in_time(30)):
        first = [await stream.readline() for stream in (for_people.stdout, for_programs.stdout)]
    assert all(b"run.queued" in line for line in first)

    deployment.kill9_api()
    await deployment.restart_api()
    gate.open()
    async with asyncio.timeout(in_time(60)):
        (told, aside), (lines, _) = await asyncio.gather(
            for_people.communicate(), for_programs.communicate()
        )

    assert (for_people.returncode, for_programs.returncode) == (0, 0)
    events = [json.loads(line) for line in (first[1] + lines).splitlines()]
    assert events == await client.events(run["id"])
    assert b"trying again" in aside
    assert told.decode().count("call.succeeded") == 1
    assert HARMLESS in told.decode()
    assert "\x1b" not in told.decode()


@pytest.mark.calm
async def test_interrupting_the_waiting_leaves_a_run_that_can_be_found_again(
    client: Client, perdure: Commands, world: World
) -> None:
    gate = world.gate("llm:arrive")
    waiting = await perdure.start("runs", "submit", "desk", script(say("Done.")), "--wait")
    await gate.reached()
    assert waiting.stderr is not None
    async with asyncio.timeout(in_time(30)):
        told = (await waiting.stderr.readline()).decode()
    waiting.send_signal(signal.SIGINT)
    out, aside = await waiting.communicate()

    assert (waiting.returncode, out) == (130, b"")
    again = aside.decode().strip().partition(": ")[2]
    assert again.split()[-1] in told
    gate.open()
    assert (await perdure.run(*again.split()[1:])).code == 0


@pytest.mark.calm
async def test_who_watches_a_run_is_told_what_its_child_asks(
    client: Client, perdure: Commands, world: World
) -> None:
    gate = world.gate("pay:before")
    asks = [use("refund", ref=ref) for ref in ("k1", "k2")]
    child = give(use("pay_idem", ref="k0"), *asks, say("All paid."))
    run = await client.submit(child, say("Done."))
    watching = await perdure.start("runs", "watch", run["id"])
    await line_with("run.waiting", watching)
    gate.open()
    for _ in asks:
        allow = await line_with("perdure waits allow", watching)
        assert (await perdure.run(*allow.split()[1:])).code == 0
    _, aside = await watching.communicate()

    assert (watching.returncode, aside) == (0, b"")


@pytest.mark.calm
async def test_who_comes_late_is_told_what_is_asked_already(
    client: Client, perdure: Commands
) -> None:
    run = await client.submit(use("refund", ref="late"), say("Refunded."))
    wait = await client.open_wait(run["id"])
    await client.wait_for(run["id"], "waiting")
    last = (await client.events(run["id"]))[-1]["seq"]

    watching = await perdure.start("runs", "watch", run["id"], "--after", str(last))

    assert wait["id"] in await line_with("perdure waits allow", watching)
    await client.allow(wait["id"])
    await watching.communicate()


async def line_with(text: str, process: asyncio.subprocess.Process) -> str:
    """The next line of its output that holds `text`."""
    assert process.stdout is not None
    async with asyncio.timeout(in_time(30)):
        while text.encode() not in (line := await process.stdout.readline()):
            assert line
    return line.decode()


@pytest.mark.calm
async def test_interrupting_the_watching_leaves_the_run_alone(
    client: Client, perdure: Commands, world: World
) -> None:
    run = await client.submit(use("refund", ref="i1"), say("Refunded."))
    watching = await perdure.start("runs", "watch", run["id"])
    allow = await line_with("perdure waits allow", watching)
    watching.send_signal(signal.SIGINT)
    _, told = await watching.communicate()

    assert watching.returncode == 130
    assert b"the run goes on" in told
    assert (await client.run(run["id"]))["status"] == "waiting"
    assert (await perdure.run(*allow.split()[1:])).code == 0
    await client.succeeded(run["id"])
