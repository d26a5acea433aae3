"""Live pages in a real browser: they follow the stream, poll where there is none, and keep what a person is doing."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Page, Route

from bot.web.live.streams import CHECK_INTERVAL
from tests.acceptance.failed_requests import dead_label
from tests.acceptance.test_event_streams import rest
from tests.acceptance.world import LABEL, World
from tests.browser.test_pages import QUEUE, url
from tests.support.browsing import Visit, findings, log_in, visiting

STREAM = re.compile("/events([?]|$)")


async def told(page: Page, word: str) -> None:
    """Wait until the header tells this state of the page."""
    await page.locator("#live-status").get_by_text(word).wait_for()


async def queue(world: World, name: str) -> Any:
    """A pull request that a person has labeled."""
    pull = world.open(name)
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    return pull


async def shown(page: Page, pull: Any) -> None:
    """Wait until the page has this pull request."""
    await page.locator("main").get_by_role("link", name=f"#{pull.number}").first.wait_for()


async def refuse(route: Route) -> None:
    """Answer as a server does that has no stream left."""
    await route.fulfill(status=503, body="no stream left")


def faults(visit: Visit) -> list[str]:
    """What the console has but the refusals that the test caused."""
    return [line for line in visit.faults() if "503" not in line and "favicon" not in line]


async def test_label_appears_on_the_queue_page_and_a_person_is_not_interrupted(site: World, browser: str) -> None:
    """The page is not loaded again: focus, what was typed, and open details stay as they are."""
    first = await queue(site, "first")
    async with visiting(browser) as visit:
        page = visit.page
        await log_in(page, url(site), "rhea")
        await page.goto(f"{url(site)}{QUEUE}")
        await told(page, "Live")
        await page.evaluate("window.loadedOnce = true")
        await page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
        opened = await page.locator("main details[open]").count()
        field = page.locator("main input:not([type=hidden]):visible").first
        await field.fill("half a sent")
        assert opened
        await shown(page, first)
        await shown(page, await queue(site, "second"))
        assert await page.evaluate("window.loadedOnce")
        assert await field.input_value() == "half a sent"
        assert await field.evaluate("each => each === document.activeElement")
        assert await page.locator("main details[open]").count() >= opened
        of = "document.querySelector('footer time').dateTime"
        before = await page.evaluate(of)
        await site.pass_time(timedelta(minutes=2))
        await shown(page, await queue(site, "third"))
        assert await page.evaluate(of) > before, "the page says of which instant it is"
        assert await findings(page) == []
        assert faults(visit) == []


async def test_page_without_a_stream_polls_and_takes_the_stream_when_there_is_one(site: World, browser: str) -> None:
    """A refused stream is asked for again after a minute; meanwhile the page is fetched at growing intervals."""
    await queue(site, "first")
    async with visiting(browser) as visit:
        page = visit.page
        await log_in(page, url(site), "rhea")
        await page.clock.install()
        await page.route(STREAM, refuse)
        await page.goto(f"{url(site)}{QUEUE}")
        await told(page, "Reconnecting")
        second = await queue(site, "second")
        await page.clock.run_for(1500)
        await shown(page, second)
        await page.unroute(STREAM)
        await page.clock.run_for(60_000)
        await told(page, "Live")
        assert faults(visit) == []


@pytest.mark.thorough
async def test_page_whose_server_is_gone_stops_and_says_so(site: World, browser: str) -> None:
    """After more than five errors in a row nothing is asked any more, but for the stream each minute."""
    await queue(site, "first")
    async with visiting(browser) as visit:
        page = visit.page
        await log_in(page, url(site), "rhea")
        await page.goto(f"{url(site)}/account")
        await page.clock.install()
        await page.route(STREAM, refuse)
        await page.goto(f"{url(site)}{QUEUE}")
        await told(page, "Reconnecting")
        asked: list[str] = []

        async def fail(route: Route) -> None:
            asked.append(route.request.url)
            await refuse(route)

        await page.route(f"**{QUEUE}", fail)
        for _ in range(12):
            await page.clock.run_for(3000)
        await told(page, "Stopped")
        assert len(asked) == 6
        await page.unroute(STREAM)
        await page.unroute(f"**{QUEUE}")
        await page.clock.run_for(60_000)
        await told(page, "Live")
        assert faults(visit) == []


@pytest.mark.thorough
async def test_person_who_loses_the_right_sees_the_page_end(site: World, browser: str) -> None:
    """The stream says that it ends for good; the page goes away, and is not shown for longer."""
    await queue(site, "first")
    async with visiting(browser) as visit:
        page = visit.page
        site.github.create_user("reader")
        site.repository.record.collaborators["reader"] = site.repository.record.collaborators["mona"]
        await log_in(page, url(site), "reader")
        await page.goto(f"{url(site)}{QUEUE}")
        await told(page, "Live")
        site.repository.record.private = True
        del site.repository.record.collaborators["reader"]
        second = await queue(site, "second")
        ended = asyncio.ensure_future(page.get_by_text("IMQ has no such page").wait_for())
        while not ended.done():
            await rest()
            await site.pass_time(CHECK_INTERVAL)
        await ended
        assert await page.get_by_text(f"#{second.number}").count() == 0


@pytest.mark.parametrize("scripts", [True, pytest.param(False, marks=pytest.mark.thorough)])
async def test_dead_letter_is_retried_by_its_button(site: World, browser: str, scripts: bool) -> None:
    """A maintainer reads the error, presses the button, and sees the request done."""
    request = await dead_label(site, 1)
    async with visiting(browser, scripts=scripts) as visit:
        page = visit.page
        await log_in(page, url(site), "rhea")
        await page.goto(f"{url(site)}/dead-letters")
        row = page.locator(f"#request-{request}")
        await row.locator("summary").click()
        assert "403 for" in await row.locator("pre").inner_text()
        if scripts:
            assert await findings(page) == []
        await row.get_by_role("button", name="Retry").click()
        await page.get_by_text("IMQ tries it again.").wait_for()
        if scripts:
            await told(page, "Live")
            assert await findings(page) == []
        await site.settle()
        if not scripts:
            await page.get_by_role("link", name="Refresh").click()
        await row.get_by_text("done").wait_for()
        assert faults(visit) == []
