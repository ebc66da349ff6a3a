"""The inbox in a real browser: approvals, unknown outcomes, questions, rules."""

import asyncio

import pytest
from playwright.async_api import Page, expect

from tests.browser.looking import Looking
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, use
from tests.support.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALREADY = "409"


async def test_two_tabs_decide_at_once_and_one_decision_stands(
    looking: Looking, client: Client, world: World
) -> None:
    looking.expected.append(ALREADY)
    run = await client.submit(use("refund", ref="twice"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    tabs = [await looking.at("/inbox"), await looking.at(f"/runs/{run['id']}")]
    allow, deny = (
        tab.locator(f"#{wait}").get_by_role("button", name=name)
        for tab, name in zip(tabs, ("Allow", "Deny"), strict=True)
    )
    await asyncio.gather(allow.click(), deny.click())

    await client.ended(run["id"])
    (stored,) = await client.waits(run["id"], kind="approval")
    is_allowed = stored["resolution"]["decision"] == "allow"
    word, loser = ("Allowed", tabs[1]) if is_allowed else ("Denied", tabs[0])
    for tab in tabs:
        card = tab.locator(f"#{wait}, .decided").first
        await expect(card).to_contain_text(f"{word} by local")
    await expect(loser.locator("#said")).to_contain_text("local has resolved this wait otherwise")
    assert len(world.payments.rows_for("twice")) == is_allowed


async def test_who_decides_later_is_told_who_was_first(looking: Looking, client: Client) -> None:
    looking.expected.append(ALREADY)
    run = await client.submit(use("refund", ref="later"), say("done"))
    wait = await client.open_wait(run["id"])
    page = await looking.at(f"/waits/{wait['id']}")
    said = {"decision": "deny", "reason": "not this one", "on_behalf_of": "ann"}
    assert (await client.resolve(wait["id"], said)).status_code == 200
    await page.get_by_role("button", name="Allow").click()

    card = page.locator(f"#{wait['id']}")
    await expect(card).to_contain_text("Denied by local on behalf of ann")
    await expect(card).to_contain_text("not this one")
    await expect(card.locator(".answer.wrong")).to_be_visible()
    await client.ended(run["id"])


async def test_a_denial_takes_its_reason_to_the_model(
    looking: Looking, client: Client, world: World
) -> None:
    run = await client.submit(use("refund", ref="denied"), say("then not"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at("/inbox")
    card = page.locator(f"#{wait}")
    await expect(card).to_contain_text("idempotent")
    await card.get_by_label("Reason").fill("the order is too old")
    await card.get_by_role("button", name="Deny").click()

    await expect(card).to_contain_text("Denied by local")
    await client.succeeded(run["id"])
    (told,) = world.model.about("denied")[-1].last_results
    assert "the order is too old" in str(told["content"])
    assert world.payments.rows_for("denied") == []


async def test_a_rule_allows_others_like_it_until_it_is_revoked(
    looking: Looking, client: Client
) -> None:
    first = await client.submit(use("refund", ref="r1", amount=40), say("ok"), session="ruled")
    wait = (await client.open_wait(first["id"]))["id"]
    page = await looking.at("/inbox")
    card = page.locator(f"#{wait}")
    await card.get_by_text("Also allow others").click()
    await card.get_by_label("Where").select_option("session")
    await card.get_by_label("Condition on ref").select_option("")
    await card.get_by_label("Bound of amount").fill("9007199254740993")
    await card.get_by_role("button", name="Allow").click()
    await expect(card).to_contain_text("With a standing rule for this session")
    await client.succeeded(first["id"])
    (rule,) = [made for made in await client.rules() if made["wait"] == wait]
    assert (rule["scope"], rule["when"]) == ("session", {"amount": {"max": 9007199254740993}})

    second = await client.submit(use("refund", ref="r2", amount=50), say("ok"), session="ruled")
    await client.succeeded(second["id"])
    rules = await looking.at("/rules")
    row = rules.locator(f"#{rule['id']}")
    await expect(row).to_contain_text("at most 9007199254740993")
    await row.get_by_role("button", name="Revoke").click()
    await expect(row).to_contain_text("revoked")
    third = await client.submit(use("refund", ref="r3", amount=50), say("ok"), session="ruled")
    await client.deny((await client.open_wait(third["id"]))["id"])
    await client.ended(third["id"])


async def test_a_question_is_answered(looking: Looking, client: Client, world: World) -> None:
    run = await client.submit(use("ask_user", question="March or April?"), say("thanks"))
    wait = (await client.open_wait(run["id"], "input"))["id"]
    page = await looking.at(f"/runs/{run['id']}")
    card = page.locator(f"#{wait}")
    await expect(card).to_contain_text("March or April?")
    await card.get_by_role("button", name="Answer").click()
    await expect(card.locator(".answer")).to_have_text("Fill this in first.")
    await card.get_by_label("Your answer").fill("April, of course")
    await card.get_by_label("On behalf of").fill("ann")
    await card.get_by_role("button", name="Answer").click()

    await expect(page.locator("#state .badge")).to_have_text("succeeded")
    assert "April, of course" in str(world.model.about("March or April?")[-1].last_results)


async def test_a_result_from_outside_is_sent(looking: Looking, client: Client) -> None:
    run = await client.submit(use("sign", document="c-9"), say("signed"))
    wait = (await client.open_wait(run["id"], "external"))["id"]
    page = await looking.at("/inbox")
    card = page.locator(f"#{wait}")
    await card.locator("[name=result]").fill("{nonsense")
    await card.get_by_role("button", name="Send the result").click()
    await expect(card.locator(".answer")).to_contain_text("This must be JSON")
    await card.locator("[name=result]").fill('{"by": "ann", "pages": 12345678901234567890}')
    await card.get_by_role("button", name="Send the result").click()

    await expect(card).to_contain_text("Answered by local")
    assert (await client.succeeded(run["id"]))["status"] == "succeeded"
    assert (await client.call(run["id"]))["result"] == {"by": "ann", "pages": 12345678901234567890}


async def settle(page: Page, place: str, button: str, result: str | None = None) -> None:
    card = page.locator(place)
    if result is not None:
        await card.get_by_label("Result, if it happened").fill(result)
    await card.get_by_role("button", name=button).click()


async def test_an_unknown_outcome_is_settled_before_and_after_the_model_was_told(
    looking: Looking, client: Client, world: World
) -> None:
    told = await client.submit(use("crash_once"), say("who knows"))
    await client.succeeded(told["id"])
    call = (await client.call(told["id"]))["id"]
    page = await looking.at("/inbox")
    await expect(page.locator(f"#unknown-{call}")).to_contain_text("Did crash_once happen?")
    await settle(page, f"#unknown-{call}", "It happened", '{"receipt": "r-1"}')
    await expect(page.locator(f"#unknown-{call} form")).to_have_count(0)
    settled = await client.call(told["id"])
    assert (settled["state"], settled["result"]) == ("succeeded", {"receipt": "r-1"})

    await page.reload()
    await expect(page.locator(f"#unknown-{call}")).to_have_count(0)


async def test_who_decides_for_somebody_says_so_once(looking: Looking, client: Client) -> None:
    runs = [await client.submit(use("refund", ref=f"for-{n}"), say("done")) for n in range(2)]
    waits = [(await client.open_wait(run["id"]))["id"] for run in runs]
    page = await looking.at("/inbox")
    cards = [page.locator(f"#{wait}") for wait in waits]
    await cards[0].get_by_label("On behalf of").fill("ann")
    await cards[0].get_by_role("button", name="Deny").click()
    await expect(cards[0]).to_contain_text("Denied by local on behalf of ann")
    await expect(cards[1].get_by_label("On behalf of")).to_have_value("ann")
    await cards[1].get_by_role("button", name="Deny").click()
    await expect(cards[1]).to_contain_text("Denied by local on behalf of ann")
    for run in runs:
        await client.ended(run["id"])

    later = await client.submit(use("refund", ref="for-3"), say("done"))
    wait = (await client.open_wait(later["id"]))["id"]
    await page.reload()
    await expect(page.locator(f"#{wait}").get_by_label("On behalf of")).to_have_value("")
    await client.deny(wait)
    await client.ended(later["id"])


LOOK = "document.dispatchEvent(new Event('visibilitychange'))"


async def test_a_question_settled_elsewhere_is_told_of_once_it_can_be_read(
    looking: Looking, client: Client
) -> None:
    looking.expected.append("Failed to load resource")
    run = await client.submit(use("refund", ref="elsewhere"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at("/inbox")
    card = page.locator(f"#{wait}")
    await card.get_by_label("Reason").fill("half a")
    await page.route(f"**/waits/{wait}", lambda route: route.abort())
    await client.deny(wait)
    await client.ended(run["id"])
    async with page.expect_event("requestfailed"):
        await page.evaluate(LOOK)

    await page.unroute(f"**/waits/{wait}")
    await expect(card).to_contain_text("answered or closed elsewhere")


async def test_an_interrupted_call_that_did_not_happen_is_run_again(
    looking: Looking, client: Client, world: World, deployment: Deployment
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_once_ask", ref="absent"), say("noted"))
    await gate.reached()
    await deployment.crash()
    gate.open()
    wait = (await client.open_wait(run["id"], "outcome"))["id"]
    page = await looking.at(f"/runs/{run['id']}")
    card = page.locator(f"#{wait}")
    await expect(card).to_contain_text("no outcome came back")
    await card.get_by_role("button", name="It did not happen").click()

    await expect(page.locator("#state .badge")).to_have_text("succeeded")
    (stored,) = await client.waits(run["id"], kind="outcome")
    assert stored["resolution"] == {"outcome": "did_not_happen"}
    assert (await client.call(run["id"]))["attempts"] == 2


async def test_the_inbox_is_walked_with_the_keyboard_alone(
    looking: Looking, client: Client
) -> None:
    run = await client.submit(use("refund", ref="keys"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at("/inbox")
    await expect(page.locator(f"#{wait} fieldset")).to_be_enabled()
    for _ in range(80):
        await page.keyboard.press("Tab")
        at = await page.evaluate(
            """() => {
                const at = document.activeElement;
                const { outlineStyle, outlineWidth } = getComputedStyle(at);
                return { card: at.closest("[data-ask]")?.id, text: at.textContent.trim(),
                         seen: outlineStyle !== "none" && outlineWidth !== "0px" };
            }"""
        )
        assert at["seen"], f"the focus is not seen on {at}"
        if (at["card"], at["text"]) == (wait, "Allow"):
            break
    await page.keyboard.press("Enter")

    await expect(page.locator(f"#{wait}")).to_contain_text("Allowed by local")
    assert await page.evaluate("document.activeElement.id") == wait
    await client.succeeded(run["id"])
