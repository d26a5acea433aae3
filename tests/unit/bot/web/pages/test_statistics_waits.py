"""Waits and verdicts on the page of statistics."""

import re
from dataclasses import replace
from html import unescape

from tests.store.test_departures import LANDED
from tests.unit.bot.web.pages.statistics_pages import QUEUE, Browser, put


async def test_each_part_of_the_wait_leads_to_the_landings_that_waited_for_it(browser: Browser) -> None:
    """Bars and table alike; a landing that never waited for checks is not among those that did."""
    await put(
        browser.store,
        replace(LANDED, id=1, number=1, checks=90.0, capacity=0.0),
        replace(LANDED, id=2, number=2, checks=0.0, capacity=600.0),
        replace(LANDED, id=3, number=3, checks=30.0, capacity=0.0),
    )
    text = await browser.get(QUEUE)
    for name, minutes, pulls in (("Checks", "0.7", 2), ("Others ahead", "3.3", 1)):
        bar = re.search(rf'<a href="([^"]+/pulls\?[^"]+)"><title>{name}: {minutes} minutes', text)
        cell = re.search(rf'<a href="([^"]+)">{name}</a></th><td[^>]*>{minutes}</td>', text)
        assert bar is not None
        assert cell is not None
        assert bar[1] == cell[1]
        assert await browser.rows(unescape(bar[1])) == pulls
        assert "Waited for" in await browser.get(unescape(bar[1]))


async def test_few_departures_have_no_verdict(browser: Browser) -> None:
    """The overview and the statistics judge a queue from five departures on."""
    for count, expected in ((4, True), (5, False)):
        await put(browser.store, *(replace(LANDED, id=number, number=number) for number in range(1, count + 1)))
        assert ("too few departures" in await browser.get(QUEUE)) is expected
