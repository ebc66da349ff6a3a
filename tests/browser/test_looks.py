"""What the pages look like to whom, and that nobody else gets anything of a service without key."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.evil import ATTEMPTS, evil_site
from tests.browser.looking import Looking
from tests.integration.http.hostile import HOSTILE
from tests.support.client import Client, Json
from tests.support.deployment import Deployment
from tests.support.scripts import answer, say, use

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "word-" * 60


async def hostile_run(client: Client) -> Json:
    """Parked on an approval, with hostile text wherever a client or a model can put some."""
    thought = answer(
        {"type": "text", "text": HOSTILE},
        {"type": "tool_use", "id": "t1", "name": "refund", "input": {"ref": HOSTILE + LONG}},
        {"type": "tool_use", "id": "t2", "name": HOSTILE, "input": {HOSTILE: LONG}},
        stop_reason="tool_use",
    )
    fields: Json = {"target": HOSTILE[:100], "metadata": {"m": HOSTILE}}
    run = await client.submit(thought, say(HOSTILE), preface=HOSTILE + LONG, **fields)
    await client.open_wait(run["id"])
    assert (await client.send(run["id"], HOSTILE)).status_code == 202
    return run


async def pages_of(client: Client) -> list[str]:
    run = await hostile_run(client)
    wait = (await client.open_wait(run["id"]))["id"]
    return ["/", "/inbox", f"/runs/{run['id']}", f"/waits/{wait}", "/workers", "/agents", "/rules"]


async def test_hostile_text_does_nothing_and_fits_any_screen(
    looking: Looking, client: Client
) -> None:
    paths = await pages_of(client)
    dialogs: list[str] = []
    for options in ({"viewport": {"width": 360, "height": 740}}, {"color_scheme": "dark"}):
        context = await looking.context(**options)
        page = await context.new_page()
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for path in [*paths, "/nowhere"]:
            if path == "/nowhere":
                looking.expected.append("404")
            await page.goto(looking.url + path)
            await open_all(page)
            width = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, f"{path} scrolls sideways by {width}"
            assert await page.locator("img[onerror]").count() == 0
    assert dialogs == []


async def open_all(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")


async def test_a_script_that_got_into_a_page_would_not_run(
    looking: Looking, client: Client
) -> None:
    looking.expected.append("Content Security Policy")
    page = await looking.at("/")
    await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = true";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<p style='color: red' id=styled>x</p>");
        }"""
    )
    assert await page.evaluate("window.hacked") is None
    assert len(looking.complaints) == 2


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
async def test_colours_follow_the_reader(
    looking: Looking, client: Client, scheme: str, is_dark: bool
) -> None:
    page = await looking.at("/inbox", color_scheme=scheme)
    brightness = """(name) => {
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.body)[name];
        probe.fillRect(0, 0, 1, 1);
        return probe.getImageData(0, 0, 1, 1).data.slice(0, 3).reduce((a, b) => a + b) / 765;
    }"""
    paper, ink = [await page.evaluate(brightness, n) for n in ("backgroundColor", "color")]
    assert (paper < ink) == is_dark
    assert abs(paper - ink) > 0.6


async def test_pages_can_be_read_without_scripts(looking: Looking, client: Client) -> None:
    run = await client.submit(use("refund", ref="bare"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    page = await looking.at(f"/runs/{run['id']}", java_script_enabled=False)
    await expect(page.locator(f"#{wait}")).to_contain_text("bare")
    await expect(page.get_by_text("acting on them needs it")).to_be_visible()
    await expect(page.get_by_role("button", name="Allow")).to_be_disabled()
    await expect(page.locator("time").first).to_contain_text("UTC")
    await client.deny(wait)
    await client.ended(run["id"])


async def test_a_page_that_lost_its_service_says_so_and_comes_back(
    looking: Looking, client: Client, deployment: Deployment
) -> None:
    looking.expected.append("Failed to load resource")
    page = await looking.at("/inbox")
    await page.evaluate("document.querySelector('#main').dataset.refresh")
    deployment.kill9_api()
    await expect(page.locator("#said")).to_contain_text("does not answer", timeout=12_000)
    await deployment.restart_api()
    await expect(page.locator("#said")).to_be_hidden(timeout=12_000)


async def untouched(client: Client, run: str, known: int) -> None:
    """Nothing was submitted, decided or cancelled."""
    assert await count(client) == known
    (wait,) = await client.waits(run, kind="approval")
    assert wait["state"] == "open"
    assert (await client.run(run))["status"] == "waiting"


async def count(client: Client) -> int:
    return len((await client.http.get("/v1/runs", params={"limit": 200})).json()["data"])


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
async def test_a_page_of_another_port_or_host_gets_nothing_and_changes_nothing(
    looking: Looking, client: Client, host: str
) -> None:
    looking.expected.append("")
    run = await client.submit(use("refund", ref=host), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    known = await count(client)
    page = await (await looking.context()).new_page()
    with evil_site() as port:
        await page.goto(f"http://{host}:{port}/")
        saw = await page.evaluate(ATTEMPTS, [looking.url, wait, run["id"]])

    assert {name: text for name, text in saw.items() if text} == {}
    assert len(saw) > 40
    await untouched(client, run["id"], known)
    await client.deny(wait)
    await client.ended(run["id"])


async def test_a_name_that_was_rebound_to_this_machine_gets_nothing(
    looking: Looking, client: Client, deployment: Deployment
) -> None:
    """A page of evil.example, whose name now leads here: its requests are of one origin."""
    looking.expected.append("")
    run = await client.submit(use("refund", ref="rebound"), say("done"))
    wait = (await client.open_wait(run["id"]))["id"]
    known = await count(client)
    origin = f"http://evil.example:{deployment.port}"
    # A document of that origin; the browser's own protections are not what is tried here.
    page = await (await looking.context(bypass_csp=True)).new_page()
    refused = await page.goto(origin)
    assert refused is not None
    assert refused.status == 403
    saw = await page.evaluate(ATTEMPTS, [origin, wait, run["id"]])

    read = {name: text for name, text in saw.items() if text}
    assert read, "in one origin answers can be read"
    assert all("as localhost or 127.0.0.1" in text for text in read.values()), read
    await untouched(client, run["id"], known)
    await client.deny(wait)
    await client.ended(run["id"])
