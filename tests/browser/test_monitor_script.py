"""The scripts that poll pending requests, in a real browser whose clock the test moves.

The intervals are those of `queue_engine/core/timing/backoff.py` for the same random numbers.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route

from bot.web.pages.render import monitor_numbers
from queue_engine.core.timing.backoff import MONITOR, MonitorEntry
from tests.acceptance.world import LABEL, World
from tests.browser.test_pages import url
from tests.support.browsing import Visit, log_in, visiting

STATIC = Path(__file__).parents[2] / "bot/web/static"
NUMBERS = (0.0, 0.999, 0.5, 0.25, 0.75)
"""What chance gives, again and again: both ends of the jitter, too."""
RECORD = """
window.waits = [];
const set = window.setTimeout;
window.setTimeout = (callback, ms) => { window.waits.push(ms); return set(callback, ms); };
let given = 0;
Math.random = () => NUMBERS[given++ % NUMBERS.length];
"""


def schedule(numbers: Iterator[float], polls: int, *, failing: bool = False) -> list[float]:
    """The waits of the engine's monitor before so many polls, in milliseconds."""
    now = datetime(2026, 11, 23, tzinfo=UTC)
    entry: MonitorEntry | None = MonitorEntry.started(now)
    waits: list[float] = []
    while entry is not None and len(waits) < polls:
        waits.append((entry.next_at - now).total_seconds() * 1000)
        now, step = entry.next_at, MonitorEntry.failed if failing else MonitorEntry.answered
        entry = step(entry, MONITOR, now, lambda: next(numbers))
    return waits


async def test_script_waits_as_the_engine_does(browser: str) -> None:
    """The same random numbers give the same intervals, from the shortest to the longest and within both."""

    async def serve(route: Route) -> None:
        path = STATIC / route.request.url.rpartition("/")[2]
        if path.suffix == ".js":
            await route.fulfill(path=path, content_type="text/javascript")
        else:
            await route.fulfill(body="<!doctype html><title>Nothing</title>", content_type="text/html")

    async with visiting(browser) as visit:
        await visit.page.route("**/*", serve)
        await visit.page.goto("http://127.0.0.1/page")
        got = await visit.page.evaluate(
            """async ([config, numbers, polls]) => {
                const { RequestMonitors } = await import("/static/monitor.js");
                const waits = [], given = numbers.values();
                let due = null;
                const timers = {
                    set: (callback, ms) => { waits.push(ms); due = callback; return 1; },
                    clear: () => { due = null; },
                    random: () => given.next().value,
                };
                const monitors = new RequestMonitors(config, {
                    isPending: () => waits.length < polls, fetchStatus: async () => {},
                }, timers);
                monitors.startAutoMonitor("one");
                while (due) {
                    const callback = due;
                    due = null;
                    callback();
                    for (let tick = 0; tick < 5; tick++) await null;
                }
                return waits;
            }""",
            [monitor_numbers(), list(NUMBERS) * 8, 40],
        )
    expected = schedule(cycle(NUMBERS), 40)
    assert got == pytest.approx(expected, abs=0.01)
    assert (min(expected[1:]), max(expected)) == (1000, 60_000)


@dataclass
class Polled:
    """The page of requests with one pending request, whose status the test answers."""

    page: Page
    visit: Visit
    answer: dict[str, Any]
    status: int = 200
    polls: int = 0
    bulk: int = 0

    async def waits(self) -> list[float]:
        """All intervals so far, in milliseconds."""
        found: list[float] = await self.page.evaluate("window.waits")
        return found

    async def until_wait(self, count: int) -> float:
        """Wait until the monitor has chosen so many intervals; returns the last."""
        await self.page.wait_for_function("count => window.waits.length >= count", arg=count)
        found = await self.waits()
        assert len(found) == count
        return found[-1]

    async def poll(self, times: int) -> None:
        """Let the clock reach the next poll, so many times."""
        for _ in range(times):
            count = len(await self.waits())
            await self.page.clock.run_for(ceil((await self.waits())[-1]))
            await self.until_wait(count + 1)

    async def hour(self) -> None:
        """Let an hour pass; polls that were due in it have been counted, as requests come in their order."""
        await self.page.clock.run_for(3_600_000)
        await self.page.evaluate("fetch('/static/icon.svg').then(each => each.text())")

    async def respond(self, route: Route) -> None:
        """Answer a question about the request."""
        self.polls += 1
        await route.fulfill(status=self.status, json=self.answer)


@pytest.fixture
async def polled(site: World, browser: str) -> AsyncIterator[Polled]:
    """A label that IMQ has stored and not handled yet; the stream of its page neither opens nor fails."""
    pull = site.open("change")
    await site.settle()
    pull.label(LABEL, by="mona")
    await site.github.schedule.run_due()
    async with visiting(browser) as visit:
        page = visit.page
        await log_in(page, url(site), "mona")
        await page.clock.install()
        await page.clock.pause_at(datetime(2100, 1, 1, tzinfo=UTC))
        await page.add_init_script(f"const NUMBERS = {list(NUMBERS)}; {RECORD}")
        listed = await page.request.get(f"{url(site)}/requests/status?state=pending")
        (request,) = (await listed.json())["requests"]
        found = Polled(page, visit, request)
        await page.route("**/events*", lambda _route: None)
        await page.route(f"**/requests/{request['id']}/status", found.respond)

        def count(asked: Any) -> None:
            found.bulk += "/requests/status" in asked.url

        page.on("request", count)
        await page.goto(f"{url(site)}/requests")
        await found.until_wait(1)
        yield found
        await page.unroute_all(behavior="ignoreErrors")


async def test_pending_request_is_polled_ever_less_often_until_it_is_done(site: World, polled: Polled) -> None:
    """At once, after a second, then a fifth longer each time; never again once it is no longer pending."""
    await polled.page.clock.run_for(1)
    await polled.until_wait(2)
    await polled.poll(5)
    assert await polled.waits() == pytest.approx(schedule(cycle(NUMBERS), 7), abs=0.01)
    assert polled.polls == 6
    await site.settle()
    polled.answer |= {"status": "done", "state": "done"}
    async with polled.page.expect_response("**/requests"):
        await polled.page.clock.run_for(60_000)
    await polled.page.locator("main").get_by_text("done", exact=True).first.wait_for()
    await polled.hour()
    assert polled.polls == 7
    await polled.page.reload()
    await polled.page.locator("main").get_by_text("done", exact=True).first.wait_for()
    await polled.hour()
    assert polled.polls == 7
    assert [line for line in polled.visit.faults() if "favicon" not in line] == []


async def test_refresh_button_asks_at_once_and_begins_at_the_shortest_interval(polled: Polled) -> None:
    """All statuses come by one request, and no earlier poll is left."""
    await polled.page.clock.run_for(1)
    await polled.until_wait(2)
    await polled.poll(8)
    before = len(await polled.waits())
    assert (await polled.waits())[-1] > 3000
    async with polled.page.expect_response("**/requests/status*"):
        await polled.page.get_by_role("link", name="Refresh").click()
    await polled.page.get_by_text("Refreshed.").wait_for()
    after = (await polled.waits())[before:]
    assert polled.bulk == 1
    assert after
    assert all(1000 <= each <= 1100 for each in after)
    polls = polled.polls
    await polled.page.clock.run_for(1100)
    await polled.until_wait(before + len(after) + 1)
    assert polled.polls == polls + 1
    assert (await polled.waits())[-1] < 1400


async def test_more_than_five_errors_in_a_row_end_the_polling_until_a_person_refreshes(polled: Polled) -> None:
    """Four errors and an answer begin the count again; the page says what it knows no longer."""
    polled.status = 500
    await polled.page.clock.run_for(1)
    await polled.until_wait(2)
    await polled.poll(3)
    polled.status = 200
    await polled.poll(1)
    polled.status = 500
    await polled.poll(5)
    count = len(await polled.waits())
    await polled.page.clock.run_for(60_000)
    await polled.page.get_by_text("cannot be had").wait_for()
    await polled.hour()
    assert polled.polls == 4 + 1 + 6
    assert len(await polled.waits()) == count
    polled.status = 200
    await polled.page.get_by_role("link", name="Refresh").click()
    await polled.page.get_by_text("Refreshed.").wait_for()
    await polled.page.clock.run_for(1100)
    await polled.page.wait_for_function("count => window.waits.length > count + 2", arg=count)
    assert polled.polls == 12
    assert [line for line in polled.visit.faults() if "500" not in line and "favicon" not in line] == []
