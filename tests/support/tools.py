"""Tools of every replay policy, as the acceptance cases name them."""

from datetime import timedelta

from sqlalchemy import text as sql

from app import CannotTell, DidNotHappen, Happened, ToolContext, tool
from tests.support.outside import Reply, effect, get, pay

INSERT_NOTE = sql("insert into public.notes (run, text) values (:run, :text)")


async def find_payment(ctx: ToolContext, args: Reply) -> Happened | DidNotHappen:
    found = await get("/pay", ref=args["ref"])
    return Happened(found["payment"]) if found["payment"] else DidNotHappen()


async def find_own_payment(ctx: ToolContext, args: Reply) -> Happened | DidNotHappen:
    found = await get("/pay", ref=args["ref"], key=ctx.idempotency_key)
    return Happened(found["payment"]) if found["payment"] else DidNotHappen()


async def never_sure(ctx: ToolContext, args: Reply) -> CannotTell:
    await effect("never_sure")
    return CannotTell()


async def doc_version(ctx: ToolContext, args: Reply) -> Reply:
    await effect("precondition", ctx)
    return {"version": (await get("/doc", name=args["name"]))["version"]}


@tool(replay="read_only", timeout=60)
async def doc_read(ctx: ToolContext, name: str) -> Reply:
    """Read a document."""
    return await get("/doc", name=name)


@tool(replay="idempotent", timeout=60)
async def pay_idem(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay with an idempotency key."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(timeout=60)
async def pay_once(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay without a key; nobody can be asked afterwards."""
    return await pay(ref, amount)


@tool(reconcile=find_payment, timeout=60)
async def pay_once_r(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay without a key; the provider can be asked afterwards."""
    return await pay(ref, amount)


@tool(reconcile=find_own_payment, timeout=60)
async def pay_once_own(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay with a key by which this very payment can be found afterwards."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(reconcile=never_sure, timeout=60)
async def pay_once_unsure(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay without a key; the provider can be asked, and does not know."""
    return await pay(ref, amount)


@tool(on_unknown="ask", timeout=60)
async def pay_once_ask(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Pay without a key; a person settles what nobody knows."""
    return await pay(ref, amount)


@tool(replay="transactional", timeout=60)
async def note_tx(ctx: ToolContext, text: str) -> Reply:
    """Write one note in the transaction that records the outcome."""
    await ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": text})
    await effect("note_tx", ctx)
    return {"noted": text}


@tool(replay="transactional", timeout=60)
def note_tx_sync(ctx: ToolContext, text: str) -> Reply:
    """The same from a thread."""
    ctx.connection.execute(INSERT_NOTE, {"run": ctx.run_id, "text": text})
    return {"noted": text}


@tool(replay="idempotent", approval="always", timeout=60)
async def refund(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Refund a payment, with a person's approval."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(approval="always", timeout=60)
async def refund_once(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """Refund without a key, with a person's approval."""
    return await pay(ref, amount)


@tool(replay="idempotent", approval="always", expires=timedelta(seconds=1), timeout=60)
async def refund_soon(ctx: ToolContext, ref: str, amount: int = 100) -> Reply:
    """A refund whose approval must come within a second."""
    return await pay(ref, amount, ctx.idempotency_key)


@tool(replay="idempotent", approval="always", precondition=doc_version, timeout=60)
async def edit(ctx: ToolContext, name: str) -> Reply:
    """Edit a document as it was when the edit was approved."""
    return await effect("edit", ctx)
