"""Waits and verdicts on the page of statistics."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

from tests.store.examples import NOW
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
    assert "What landings wait for, in minutes" in text
    for name, time, pulls in (("Checks", "40 s", 2), ("Others ahead", "3 min", 1)):
        bar = re.search(rf'<a href="([^"]+/pulls\?[^"]+)"><title>{name}: {time}', text)
        cell = re.search(rf'<a href="([^"]+)">{name}</a></th><td[^>]*>{time}</td>', text)
        assert bar is not None
        assert cell is not None
        assert bar[1] == cell[1]
        assert await browser.rows(unescape(bar[1])) == pulls
        assert "Waited for" in await browser.get(unescape(bar[1]))


async def test_few_departures_have_no_verdict(browser: Browser) -> None:
    """Statistics judge the median from five departures on, and what five in a hundred may do from twenty on."""
    for count, expected in ((4, 3), (5, 2), (19, 2), (20, 0)):
        await put(browser.store, *(replace(LANDED, id=number, number=number) for number in range(1, count + 1)))
        assert (await browser.get(QUEUE)).count("too few to judge") == expected


async def test_chart_of_landings_begins_with_the_first_and_its_unit_fits(browser: Browser) -> None:
    """Ninety days without a landing say nothing, and a wait of two days is not 2,880 minutes."""
    day = timedelta(days=1)
    waits = ((1, 10 * day), (2, day))
    await put(
        browser.store,
        *(
            replace(LANDED, id=n, number=n, left_at=NOW - ago, waited=5 * 86400.0, capacity=5 * 86400.0)
            for n, ago in waits
        ),
    )
    text = await browser.get(f"{QUEUE}?days=90")
    assert "Landings since the first" in text
    assert text.count("</span></a></td>") == 11, "from the first landing to today"
    assert "What landings wait for, in days" in text
    assert "Others ahead: 5 d" in text
