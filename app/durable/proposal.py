"""Before a call's first start: what is decided once, and what needs a person."""

from dataclasses import replace

from app.domain.canonical import digest, readable
from app.domain.rules import fits
from app.durable import ledger
from app.durable.context import context_for, log_failure, told_by, within
from app.durable.execution import bench
from app.durable.ledger import Call
from app.store import rules
from app.store.calls import Hold, Intent
from app.tools.context import ToolContext
from app.tools.declare import Tool
from app.tools.errors import InvalidArguments
from app.tools.outcomes import ToolError

SECRET_IN_ARGUMENTS = (
    "The before hook put a secret into the arguments, which are stored and shown; "
    "read it in the tool instead."
)


async def propose(call: Call) -> Intent | None:
    """Decides the arguments and whether a person is asked; the intent, if it may run now."""
    if call.tool is None or call.agent is None:
        await refuse(call, "tool_missing", missing(call))
        return None
    ctx = context_for(call, call.tool, attempt=0)
    try:
        arguments = call.tool.parse(call.row["proposed"])
        arguments = await within(call.tool, call.tool.run_before(ctx, arguments))
    except (InvalidArguments, ToolError) as error:
        await refuse(call, "invalid_arguments", told_by(ctx, error))
        return None
    except Exception as error:  # noqa: BLE001 - it is the hook's
        log_failure(ctx, f"the before hook of {call.tool.name} failed", error)
        await refuse(call, "hook_failed", f"{call.tool.name} could not be prepared: {_name(error)}")
        return None
    if ctx.redact_json(arguments) != arguments:
        await refuse(call, "secret_in_arguments", SECRET_IN_ARGUMENTS)
        return None
    asked = await _needs_person(call, call.tool, ctx, arguments)
    intent = Intent(
        arguments, digest(arguments), call.policy(call.tool), "always" if asked else "never"
    )
    if not asked:
        return intent
    await ask(call, call.tool, intent, await read_evidence(call.tool, ctx, arguments))
    return None


async def _needs_person(
    call: Call, tool: Tool, ctx: ToolContext, arguments: dict[str, object]
) -> bool:
    # While an earlier call may or may not have happened, no rule lets another one through.
    if call.row["guarded"]:
        return True
    assert call.agent is not None
    try:
        return await within(tool, call.agent.needs_approval(tool, ctx, arguments))
    except Exception as error:  # noqa: BLE001 - it is the hook's
        log_failure(ctx, f"the approval rule of {tool.name} failed; a person is asked", error)
        return True


async def read_evidence(tool: Tool, ctx: ToolContext, arguments: dict[str, object]) -> object:
    """What the precondition hook sees now; a failing hook's evidence equals no finding."""
    try:
        return await within(tool, tool.read_precondition(ctx, arguments))
    except Exception as error:  # noqa: BLE001 - it is the hook's
        log_failure(ctx, f"the precondition of {tool.name} failed", error)
        return {"error": "precondition_failed", "detail": _name(error), "key": ctx.idempotency_key}


async def ask(call: Call, tool: Tool, intent: Intent, evidence: object) -> None:
    wait = _approval(call, tool, evidence)
    if not call.row["guarded"]:
        wait = replace(wait, rule=await standing_rule(call, intent.arguments))
    await ledger.hold(call, intent, wait)


async def _ask_anew(call: Call, tool: Tool, evidence: object) -> None:
    """What has changed since it was allowed is for a person to see, whatever rules there are."""
    shown = readable(call.row["shown"])
    changed = f" Since it was allowed, {shown} has become {readable(evidence)}."
    wait = replace(_approval(call, tool, evidence, changed), supersedes=call.row["allowed"])
    await ledger.hold(call, call.intent(tool), wait)


def _approval(call: Call, tool: Tool, evidence: object, changed: str = "") -> Hold:
    question = f"May {call.row['agent']} run {tool.name}?{changed}"
    if call.row["guarded"]:
        question += f" The outcome of an earlier {tool.name} is still unknown."
    seconds = None if tool.expires is None else tool.expires.total_seconds()
    return Hold("waiting", "approval", question, evidence, seconds)


async def standing_rule(call: Call, arguments: dict[str, object]) -> str | None:
    """The rule that allows these arguments without a person, if somebody has made one."""
    place = {name: call.row[name] for name in ("run", "session", "agent", "tool")}
    standing = await bench().store(lambda c: rules.standing(c, **place))
    return next((rule["id"] for rule in standing if fits(rule["conditions"], arguments)), None)


async def may_run(call: Call, tool: Tool) -> bool:
    """Whether a call proposed earlier is allowed, and the world is as it was shown."""
    if call.row["approval"] != "always" or call.attempt > 0:
        return True
    evidence = await read_evidence(tool, context_for(call, tool, attempt=0), call.arguments)
    if call.row["allowed"] is None:
        await ask(call, tool, call.intent(tool), evidence)
        return False
    if evidence == call.row["shown"]:
        return True
    await _ask_anew(call, tool, evidence)
    return False


def unfit(call: Call, tool: Tool) -> str | None:
    """Why the tool no longer takes the recorded arguments, if that is so after a deploy."""
    try:
        tool.parse(call.arguments)
    except InvalidArguments as error:
        return str(error)
    return None


async def refuse(call: Call, error: str, detail: str) -> None:
    """The call ends without having been run, and the model is told why."""
    await ledger.finish(call, "failed", {"error": error, "detail": detail})


def missing(call: Call) -> str:
    known = ", ".join(tool.name for tool in call.agent.tools) if call.agent else ""
    return f"There is no tool {call.row['tool']!r} (any more). There are: {known or 'none'}."


def _name(error: BaseException) -> str:
    return type(error).__name__
