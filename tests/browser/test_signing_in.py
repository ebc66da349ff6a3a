"""A service with a key, in a browser: signing in, and what other pages can do with the cookie."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.evil import ATTEMPTS, evil_site
from tests.browser.looking import Looking
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.scripts import say, use

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "k-4711.secret"
ENV = {"PERDURE_API_KEY": KEY}


async def sign_in(page: Page, key: str = KEY) -> None:
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


async def test_a_key_opens_the_page_that_was_asked_for_and_signing_out_closes_it(
    looking: Looking, client: Client
) -> None:
    looking.expected.append("401")
    run = await client.submit(use("refund", ref="signed"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at(f"/runs/{run['id']}?from=1")
    await expect(page).to_have_title("Sign in · Perdure")
    await sign_in(page, "wrong")
    await expect(page.locator(".answer")).to_contain_text("This is not the key")
    await sign_in(page)

    await page.wait_for_url(f"**/runs/{run['id']}?from=1")
    (cookie,) = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert KEY not in str(cookie)
    assert await page.evaluate("document.cookie") == ""
    await page.locator(f"#{wait}").get_by_role("button", name="Allow").click()
    await expect(page.locator("#state .badge")).to_have_text("succeeded")
    assert (await client.waits(run["id"], kind="approval"))[0]["resolved_by"] == "default"
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    await page.goto(looking.url + "/inbox")
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_a_cookie_outlives_the_process_that_gave_it(
    looking: Looking, deployment: Deployment, client: Client
) -> None:
    looking.expected += ["401", "Failed to load resource"]
    page = await looking.at("/")
    await sign_in(page)
    await expect(page.locator("#stats")).to_be_visible()
    deployment.kill9_api()
    await deployment.restart_api()
    await page.goto(looking.url + "/inbox")
    await expect(page.locator("h1")).to_have_text("Inbox")


async def test_a_link_from_another_site_needs_no_second_sign_in(
    looking: Looking, deployment: Deployment
) -> None:
    looking.expected.append("401")
    page = await looking.at("/sign-in")
    await sign_in(page)
    await expect(page.locator("#stats")).to_be_visible()
    with evil_site() as port:
        await page.goto(f"http://evil.example:{port}/")
        await page.evaluate("url => { location.href = url }", looking.url + "/workers")
        await expect(page.locator("h1")).to_have_text("Workers")


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
async def test_another_page_can_do_nothing_with_the_cookie(
    looking: Looking, client: Client, host: str
) -> None:
    """A cookie is sent to all ports of a host: a page on another port has it with its requests."""
    looking.expected.append("")
    run = await client.submit(use("refund", ref=f"evil-{host}"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at("/")
    await sign_in(page)
    await expect(page.locator("#stats")).to_be_visible()
    known = len((await client.http.get("/v1/runs", params={"limit": 200})).json()["data"])
    with evil_site() as port:
        await page.goto(f"http://{host}:{port}/")
        saw = await page.evaluate(ATTEMPTS, [looking.url, wait, run["id"]])

    assert {name: text for name, text in saw.items() if text} == {}
    assert len(saw) > 40
    assert len((await client.http.get("/v1/runs", params={"limit": 200})).json()["data"]) == known
    (stored,) = await client.waits(run["id"], kind="approval")
    assert stored["state"] == "open"
    assert (await client.run(run["id"]))["status"] == "waiting"
    # The same cookie in a page of our own still works.
    await page.goto(f"{looking.url}/waits/{wait}")
    await page.get_by_role("button", name="Deny").click()
    await expect(page.locator(f"#{wait}")).to_contain_text("Denied by default")
    await client.ended(run["id"])
