"""A run in a real browser: submitted, watched, taken over."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.looking import Looking
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import by_attempt, say, script, use
from tests.support.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Sooner than a page looks by itself: only the stream of events is so fast.
SOON_MS = 6000


async def submit(page: Page, text: str, agent: str = "desk") -> str:
    """Through the form; the id of the run, whose page has opened."""
    await page.get_by_text("Submit a run").click()
    form = page.locator("#submit")
    await form.get_by_label("Agent").select_option(agent)
    await form.get_by_label("Task").fill(text)
    await form.get_by_role("button", name="Submit").click()
    await page.wait_for_url("**/runs/run_*")
    return page.url.rsplit("/", 1)[1]


async def test_a_run_is_submitted_and_followed_to_its_end(
    looking: Looking, client: Client, world: World
) -> None:
    gate = world.gate("pay:before")
    page = await looking.at("/")
    run = await submit(page, script(use("pay_idem", ref="followed"), say("It is paid.")))
    await gate.reached()
    await page.evaluate("window.isSame = true")
    call = page.locator("details.call")
    await expect(call.locator(".badge")).to_have_text("started", timeout=SOON_MS)
    await expect(page.locator("#live")).to_have_text("live")
    gate.open()

    await expect(page.locator("#state .badge")).to_have_text("succeeded", timeout=SOON_MS)
    await expect(page.locator("#conversation")).to_contain_text("It is paid.")
    await expect(call.locator(".badge")).to_have_text("succeeded")
    assert await page.evaluate("window.isSame"), "the page was loaded anew"
    assert (await client.run(run))["status"] == "succeeded"
    assert len(world.payments.rows_for("followed")) == 1


async def test_what_the_model_says_is_read_as_it_says_it(looking: Looking, client: Client) -> None:
    held = {"text": "The first half <b>and</b> the other", "stall": "mid_text"}
    run = await client.submit(by_attempt(held, say("never asked")))
    page = await looking.at(f"/runs/{run['id']}")
    streaming = page.locator(".streaming")
    await expect(streaming).to_contain_text("The first half", timeout=SOON_MS)
    await expect(page.locator("#state .badge")).to_have_text("running")

    assert (await client.cancel(run["id"])).is_success
    await expect(page.locator("#state .badge")).to_have_text("cancelled")
    await client.ended(run["id"])


# An event each 50 ms, for as long as the page is open.
BUSY = """
window.EventSource = class extends EventTarget {
    readyState = 1;
    constructor() {
        super();
        setInterval(() => this.dispatchEvent(new Event("call.started")), 50);
    }
    close() {}
};
"""


async def test_a_run_that_never_pauses_is_followed_too(looking: Looking, client: Client) -> None:
    run = await client.submit(use("refund", ref="busy"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    context = await looking.context()
    await context.add_init_script(BUSY)
    page = await context.new_page()
    await page.goto(f"{looking.url}/runs/{run['id']}")
    async with page.expect_request(
        lambda request: request.resource_type == "fetch", timeout=SOON_MS
    ):
        pass
    await client.deny(wait)
    await client.ended(run["id"])


async def test_what_a_reader_has_opened_stays_open(
    looking: Looking, client: Client, world: World
) -> None:
    gate = world.gate("pay:before")
    run = await client.submit(use("pay_idem", ref="opened"), say("paid"))
    await gate.reached()
    page = await looking.at(f"/runs/{run['id']}")
    await page.get_by_text("Events").click()
    message = page.get_by_label("Message to the model")
    await message.fill("half a sentence")
    gate.open()

    await expect(page.locator("#events")).to_contain_text("call.succeeded", timeout=SOON_MS)
    assert await page.locator("#events").evaluate("element => element.open")
    await client.succeeded(run["id"])


async def test_a_submission_that_is_refused_says_why_and_keeps_what_was_typed(
    looking: Looking, client: Client
) -> None:
    looking.expected.append("422")
    page = await looking.at("/")
    await page.get_by_text("Submit a run").click()
    form = page.locator("#submit")
    await form.get_by_label("Task").fill("do it")
    await form.get_by_label("Session").fill("not a session id!")
    await form.get_by_role("button", name="Submit").click()

    await expect(form.locator(".answer")).to_contain_text("session")
    assert await form.get_by_label("Task").input_value() == "do it"
    assert (await client.http.get("/v1/runs", params={"session": "x"})).json()["data"] == []


async def test_a_takeover_is_seen_as_it_happens(
    looking: Looking, client: Client, world: World, deployment: Deployment
) -> None:
    gate = world.gate("pay:after")
    run = await client.submit(use("pay_idem", ref="taken"), say("It is paid."))
    await gate.reached()
    page = await looking.at(f"/runs/{run['id']}")
    await expect(page.locator("#state .badge")).to_have_text("running")
    killed = (await client.run(run["id"]))["worker"]
    deployment.kill9()
    await deployment.start_worker()
    gate.open()

    await expect(page.locator(".marks")).to_contain_text(f"taken over from {killed}")
    await expect(page.locator("#state .badge")).to_have_text("succeeded")
    await expect(page.locator("svg .bar.lost")).to_have_count(1)
    await expect(page.locator("svg .mark.run-taken_over")).not_to_have_count(0)
    call = page.locator("details.call")
    await expect(call).to_contain_text("2 attempts")
    assert len(world.payments.rows_for("taken")) == 1

    workers = await looking.at("/workers")
    await expect(workers.locator("tr", has_text=killed)).to_contain_text("lost")
    await expect(workers.locator("tr", has_text="held")).to_have_count(1)


async def test_a_run_is_spoken_to_cancelled_resumed_and_forked(
    looking: Looking, client: Client, world: World
) -> None:
    run = await client.submit(use("refund", ref="acted"), say("done"))
    await client.open_wait(run["id"])
    page = await looking.at(f"/runs/{run['id']}")
    await page.get_by_label("Message to the model").fill("and be quick")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("#conversation")).to_contain_text("and be quick")
    await page.locator("#act-cancel summary").click()
    await page.get_by_role("button", name="Cancel the run").click()
    await expect(page.locator("#state .badge")).to_have_text("cancelled")

    few = await client.submit(use("doc_read", name="a"), say("read"), agent="brief")
    assert (await client.ended(few["id"]))["reason"] == "limit_turns"
    page = await looking.at(f"/runs/{few['id']}")
    await page.locator("#resume-run").get_by_label("turns").fill("5")
    await page.get_by_role("button", name="Resume the run").click()
    await expect(page.locator("#state .badge")).to_have_text("succeeded")

    await page.locator("#act-fork summary").click()
    await page.get_by_label("After turn").fill("1")
    await page.get_by_role("button", name="Fork").click()
    await page.wait_for_url(lambda url: few["id"] not in url)
    await expect(page.locator(".crumbs")).to_contain_text("forked from")
    await client.ended(page.url.rsplit("/", 1)[1])
