"""Runs, waits and the fleet as a person reads them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.cli.remote import asking
from app.cli.remote.screen import age, ago, print_fields, print_line, print_table, span
from app.cli.remote.text import shortened, shown

if TYPE_CHECKING:
    from app.client.models import Agent, Call, RunData, Tool, Wait, Worker

LONGEST_CELL = 200


def print_runs(runs: "Sequence[RunData]") -> None:
    columns = ("ID", "AGENT", "STATUS", "AGE", "TURNS", "COST", "INPUT")
    rows = [
        (
            run.id,
            run.agent,
            run.status,
            age(run.created_at),
            str(run.turn_count),
            str(run.usage.cost_usd),
            shortened(_said(run.input), LONGEST_CELL),
        )
        for run in runs
    ]
    droppable = ("COST", "TURNS", "AGE", "INPUT")
    print_table(columns, rows, "There are no such runs.", droppable)


def print_run(run: "RunData", calls: "Sequence[Call]") -> None:
    usage = run.usage
    print_fields(
        [
            ("run", run.id),
            ("agent", f"{run.agent}, version {run.agent_version}"),
            ("session", run.session),
            ("parent", run.parent or ""),
            ("forked from", run.forked_from or ""),
            ("target", run.target or ""),
            ("status", run.status),
            ("reason", run.reason or ""),
            ("stalled", run.stalled or ""),
            ("error", shown(run.error) if run.error else ""),
            ("created", ago(run.created_at)),
            ("turns", f"{run.turn_count}, leg {run.leg}, attempt {run.attempt}"),
            ("worker", run.worker or ""),
            ("tokens", f"{usage.input_tokens} in, {usage.output_tokens} out"),
            ("cost", f"{usage.cost_usd} USD"),
            ("children", ", ".join(run.children)),
            ("input", _said(run.input)),
            ("output", run.text or ""),
        ]
    )
    if calls:
        print_line("")
        print_calls(calls)
    for wait in run.waiting_for:
        print_line("")
        print_asked(wait)


def print_calls(calls: "Sequence[Call]") -> None:
    rows = [
        (f"{call.turn}.{call.index}", call.tool, call.state, call.id, shown(call.arguments))
        for call in calls
    ]
    print_table(("CALL", "TOOL", "STATE", "ID", "ARGUMENTS"), rows, "There are no such calls.")


def print_asked(wait: "asking.Asked") -> None:
    """An open wait and what settles it."""
    print_line(f"{wait.id} ({wait.kind}) {asking.describe(wait)}", "yellow")
    if wait.evidence is not None:
        print_line(f"  evidence: {shown(wait.evidence)}")
    if wait.deadline is not None:
        print_line(f"  expires {age(wait.deadline)}")
    for command in asking.commands(wait):
        print_line(f"  {command}")


def print_waits(waits: "Sequence[Wait]") -> None:
    rows = [
        (wait.id, wait.kind, wait.state, age(wait.created_at), wait.run, asking.describe(wait))
        for wait in waits
    ]
    columns = ("ID", "KIND", "STATE", "AGE", "RUN", "ASKS")
    print_table(columns, rows, "There are no such waits.", droppable=("RUN", "STATE", "AGE"))


def print_wait(wait: "Wait") -> None:
    print_fields(
        [
            ("wait", wait.id),
            ("run", wait.run),
            ("kind", wait.kind),
            ("state", wait.state),
            ("call", wait.call or ""),
            ("tool", wait.tool or ""),
            ("question", wait.question),
            ("arguments", shown(wait.arguments) if wait.tool else ""),
            ("hash", wait.arguments_hash or ""),
            ("evidence", shown(wait.evidence) if wait.evidence is not None else ""),
            ("asked", ago(wait.created_at)),
            ("expires", age(wait.deadline)),
            ("resolution", shown(wait.resolution) if wait.resolution is not None else ""),
            ("by", _who(wait)),
        ]
    )
    if wait.state == "open":
        for command in asking.commands(wait):
            print_line(f"  {command}")


def print_workers(workers: "Sequence[Worker]") -> None:
    rows = [
        (
            worker.id,
            _lease(worker),
            _up(worker),
            age(worker.last_beat_at),
            str(len(worker.legs)),
            worker.version,
            ", ".join(worker.agents),
        )
        for worker in workers
    ]
    columns = ("ID", "LEASE", "UP", "LAST BEAT", "RUNS", "VERSION", "AGENTS")
    nothing = "There is no worker: start one with `perdure worker`."
    print_table(columns, rows, nothing, droppable=("UP",))


def print_agents(agents: "Sequence[Agent]") -> None:
    rows = [
        (agent.name, agent.version, str(agent.worker_count), agent.model, ", ".join(agent.tools))
        for agent in agents
    ]
    print_table(("NAME", "VERSION", "WORKERS", "MODEL", "TOOLS"), rows, "There are no agents.")


def print_tools(tools: "Sequence[Tool]") -> None:
    rows = [(tool.name, tool.agent, tool.replay, tool.approval, tool.description) for tool in tools]
    columns = ("NAME", "AGENT", "REPLAY", "APPROVAL", "DESCRIPTION")
    print_table(columns, rows, "There are no tools.")


def _lease(worker: "Worker") -> str:
    """One that was told to stop is no accident."""
    return "left" if worker.lease == "lost" and worker.leaving else worker.lease


def _up(worker: "Worker") -> str:
    """One that is lost was up until its last beat, as far as is known."""
    if worker.lease == "held":
        return age(worker.started_at)
    return span(worker.last_beat_at - worker.started_at)


def _said(content: object) -> str:
    """The text of an input or, if it has other parts, all of them."""
    return content if isinstance(content, str) else shown(content)


def _who(wait: "Wait") -> str:
    who = wait.resolved_by or ""
    return f"{who} for {wait.on_behalf_of}" if wait.on_behalf_of else who
