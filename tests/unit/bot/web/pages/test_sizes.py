"""How large the pages of many queues and of a long one are, and how many statements they take."""

from dataclasses import replace

import pytest

from tests.store.examples import NOW, REPOSITORY, changed, queue, stand
from tests.store.test_departures import LANDED
from tests.unit.bot.web.pages.statistics_pages import Browser, put
from tests.unit.queue_engine.examples import CHECKING, MINUTE
from tests.unit.queue_engine.queries.test_pull_request_status import counted

MOST_BYTES = 200_000
TITLE = "Move the settings page to the new router, with redirects for every old address"


@pytest.mark.parametrize(("queues", "statements"), [(2, 21), (200, 24)])
async def test_overview_of_any_number_of_queues_is_small_and_takes_few_statements(
    browser: Browser, queues: int, statements: int
) -> None:
    """Most of them test one pull request while others wait; a page shows fifty, and its figures count all."""
    async with browser.store.transaction() as tx:
        for place in range(1, queues):
            its_queue = await queue(tx, f"release/{place}")
            for number in range(3):
                entry = await stand(tx, its_queue, place * 10 + number, head_sha=f"{place * 10 + number:040x}")
                if number == 0:
                    its_run = {"started_at": NOW - MINUTE, "pending_checks": ("ci/unit", "ci/browser")}
                    await tx.entries.save(changed(entry, status=CHECKING, **its_run))
    with counted() as asked:
        text = await browser.get("/")
    assert f"{3 * (queues - 1)}</strong>" in text
    assert text.count('<li class="lane"') == min(queues, 50)
    assert len(text.encode()) < MOST_BYTES
    assert len(asked) <= statements, asked


async def test_page_of_a_queue_of_five_hundred_is_small_and_takes_few_statements(browser: Browser) -> None:
    """Each pull request is on it, the first hundred with their titles."""
    async with browser.store.transaction() as tx:
        its_queue = await queue(tx)
        for number in range(500):
            await stand(tx, its_queue, 10_000 + number, head_sha=f"{number:040x}")
    await put(browser.store, *(replace(LANDED, id=each, number=each, title=TITLE) for each in range(20)))
    with counted() as asked:
        text = await browser.get(f"/repositories/{REPOSITORY.full_name}/branches/main")
    assert all(f"#{10_000 + number}<" in text for number in range(500))
    assert len(text.encode()) < MOST_BYTES
    assert len(asked) <= 24, asked
