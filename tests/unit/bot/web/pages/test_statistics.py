"""Statistics as pages, JSON and CSV, and the report of shadow mode as a page."""

import asyncio
import csv
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from html import unescape
from io import StringIO
from typing import Any

import pytest
from aiohttp import ClientError, ServerDisconnectedError, web
from pytest_aiohttp.plugin import AiohttpClient

from bot.web.login.session_cookies import ANONYMOUS
from bot.web.pages import statistics
from bot.web.pages.charts import _library
from bot.web.pages.statistics import Cell, stream_csv
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowAction, ShadowOutcome
from queue_engine.store.departures import DepartureQuery, Statistics
from tests.store.examples import NOW, OTHER, REPOSITORY
from tests.store.test_departures import DEPARTURE, LANDED
from tests.store.test_shadow_pulls import LANDING, PULL
from tests.unit.bot.web.pages.statistics_pages import QUEUE, Browser, person, put

DAY = timedelta(days=1)
MARKUP = "<script>alert(1)</script>\"'&"
SECRET = (RerunCheck("secret", (), 1, None, 1.0),)
ELSEWHERE = "/repositories/acme/sled/branches/main/statistics"


def some_departures(seed: int, count: int = 60) -> list[Departure]:
    """Departures of both repositories with all outcomes, some pull requests several times."""
    chance = random.Random(seed)
    found = []
    for event in range(1, count + 1):
        outcome = chance.choice(list(EntryStatus)[-3:])
        reasons = {"failed": (Reason.CHECKS_FAILED, Reason.CONFLICT), "cancelled": (Reason.CLOSED,), "landed": (None,)}
        names = chance.sample(("ci", "lint", "a & b"), chance.randint(0, 2))
        found.append(
            replace(
                LANDED,
                id=event,
                repository_id=chance.choice((REPOSITORY.id, OTHER.id)),
                number=chance.randint(1, 40),
                title=f"Change {event}",
                left_at=NOW - chance.random() * 40 * DAY,
                waited=chance.uniform(1, 9000),
                outcome=outcome,
                reason=chance.choice(reasons[outcome.value]),
                flaky=tuple(RerunCheck(name, ("unit", "e2e")[: chance.randint(0, 2)], 1, None, 5.0) for name in names),
            )
        )
    return found


@pytest.mark.parametrize(
    ("seed", "days"),
    [(1, 30), *(pytest.param(seed, days, marks=pytest.mark.long) for seed in (2, 3) for days in (1, 30, 365))],
)
async def test_each_bar_leads_to_exactly_the_pull_requests_that_it_counts(
    browser: Browser, seed: int, days: int
) -> None:
    """Every link of every chart, and every count of every table, of one queue and of all."""
    await put(browser.store, *some_departures(seed))
    for start in (QUEUE, "/statistics"):
        text = await browser.get(f"{start}?days={days}")
        bars = re.findall(r'<a href="([^"]+/pulls\?[^"]+)"><title>[^<]*?: (\d+) (?:pull|landed)[^<]*</title>', text)
        cells = re.findall(
            r'<th scope="row"><a href="([^"]+/pulls\?[^"]+)">[^<]*</a></th>\s*<td[^>]*class="number">(\d+)</td>', text
        )
        assert days == 1 or (bars and len(cells) > 2)
        for address, count in (*bars, *cells):
            assert await browser.rows(unescape(address)) == int(count), address


async def test_list_has_no_departure_outside_of_its_days(browser: Browser) -> None:
    """A filter chooses among the days of the statistics, and adds none."""
    for number, days in ((1, 0), (2, 10)):
        left = NOW - days * DAY
        await put(browser.store, replace(LANDED, id=number, number=number, title=f"Change {number}", left_at=left))
    shown = await browser.get(f"{QUEUE}/pulls?days=7&since=2000-01-01&until=2999-01-01")
    assert [f"Change {number}" in shown for number in (1, 2)] == [True, False]


async def test_lists_continue_on_further_pages(browser: Browser) -> None:
    """Each pull request is on one page, the newest first."""
    await put(browser.store, *(replace(LANDED, id=event, number=event) for event in range(1, 206)))
    assert await browser.rows(f"{QUEUE}/pulls?outcome=landed") == 205
    assert "#205" in await browser.get(f"{QUEUE}/pulls")
    rows = list(csv.reader(StringIO(await browser.get(f"{QUEUE}/pulls.csv?outcome=landed"))))
    assert [row[2] for row in rows[1:]] == [str(number) for number in range(205, 0, -1)]


async def test_long_file_is_loaded_part_by_part(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is more than the limit, and the file has each pull request once; a HEAD has no body."""
    monkeypatch.setattr(statistics, "IN_PART", 4)
    monkeypatch.setattr(statistics, "IN_FILE", 10)
    await put(browser.store, *(replace(LANDED, id=event, number=event) for event in range(1, 20)))
    asked: list[int] = []
    listed = Statistics.listed

    async def counted(self: Statistics, query: DepartureQuery, *, before: int | None, limit: int) -> Any:
        asked.append(limit)
        return await listed(self, query, before=before, limit=limit)

    monkeypatch.setattr(Statistics, "listed", counted)
    rows = list(csv.reader(StringIO(await browser.get(f"{QUEUE}/pulls.csv"))))
    assert [row[2] for row in rows[1:]] == [str(number) for number in range(19, 9, -1)]
    assert asked == [4, 4, 2]
    head = await browser.client.head(f"{QUEUE}/pulls.csv")
    assert (head.status, await head.read()) == (200, b"")


async def test_error_within_a_long_file_leaves_it_without_an_end(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser must not take half a file for whole; an error before it begins has a page."""
    monkeypatch.setattr(statistics, "IN_PART", 4)
    await put(browser.store, *(replace(LANDED, id=event, number=event) for event in range(1, 20)))
    listed, left = Statistics.listed, [1]

    async def fails(self: Statistics, query: DepartureQuery, *, before: int | None, limit: int) -> Any:
        if not left:
            raise ValueError("a stored value that nobody wrote")
        left.pop()
        return await listed(self, query, before=before, limit=limit)

    monkeypatch.setattr(Statistics, "listed", fails)
    with pytest.raises(ClientError):
        await browser.get(f"{QUEUE}/pulls.csv")
    await browser.get(f"{QUEUE}/pulls.csv", status=500)


async def test_statistics_have_no_script_no_style_and_nothing_from_elsewhere(browser: Browser) -> None:
    """The Content-Security-Policy would refuse them; each chart has a name, a description, and its figures in words."""
    await put(browser.store, *some_departures(3))
    text = await browser.get(f"{QUEUE}?days=90")
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(charts) == 4
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|javascript:|https?://|<!--", text.partition("<main")[2])
    for chart in charts:
        key = re.search(r'role="group" aria-labelledby="(\w+)-title" aria-describedby="\1-description"', chart)
        assert key is not None
        assert f'<title id="{key[1]}-title">' in chart
        assert f'<desc id="{key[1]}-description">' in chart
        # The keyboard scrolls a chart that is wider than a phone.
        assert f'role="group" aria-labelledby="{key[1]}-title" tabindex="0"><svg' in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


async def test_markup_in_titles_and_checks_is_text(browser: Browser) -> None:
    """Everybody may name a pull request, a check and a job."""
    bad = replace(
        DEPARTURE,
        title=MARKUP,
        author=MARKUP,
        outcome=EntryStatus.LANDED,
        reason=None,
        flaky=(RerunCheck(MARKUP, (MARKUP,), 1, None, 1.0),),
    )
    await put(browser.store, bad)
    page = await browser.get(QUEUE)
    listed = await browser.get(f"{QUEUE}/pulls?check={MARKUP.replace('&', '%26')}")
    for text in (page, listed):
        assert "<script>" not in text
        assert "&lt;script&gt;alert(1)" in text
    assert "#1 " in re.sub(r"<[^>]+>", "", listed)


async def test_charts_show_hidden_characters_and_need_no_other_parser(browser: Browser) -> None:
    """A check's name reverses no text beside a bar; pygal's trees are Python's, also where lxml is installed."""
    from pygal.etree import etree  # type: ignore[import-untyped]

    etree.to_lxml()
    _library.cache_clear()
    check = RerunCheck("ci\u202etset", (), 1, None, 1.0)
    await put(browser.store, replace(DEPARTURE, outcome=EntryStatus.LANDED, reason=None, flaky=(check,)))
    page = await browser.get(QUEUE)
    assert "<title>ci\\u202etset: 1 pull request</title>" in page
    assert "\u202e" not in page


async def test_statistics_of_all_queues_have_only_what_the_viewer_may_see(browser: Browser) -> None:
    """Counts, lists and files alike; an operator sees all, and a hidden queue is not found."""
    await put(
        browser.store,
        replace(LANDED, id=1, title="open"),
        replace(
            LANDED, id=2, repository_id=OTHER.id, title="concealed", flaky=(RerunCheck("secret", (), 1, None, 1.0),)
        ),
    )
    for ending in ("", ".json", ".csv", "/pulls", "/pulls.csv", "/pulls?check=secret"):
        text = await browser.get(f"/statistics{ending}")
        assert "concealed" not in text
        assert "sled" not in text
        assert f"{ELSEWHERE}" not in text
        await browser.get(f"{ELSEWHERE}{ending}", status=404)
    assert (await (await browser.client.get("/statistics.json")).json())["landed"] == 1
    assert await browser.rows("/statistics/pulls") == 1
    browser.who = person(operator=True)
    assert (await (await browser.client.get("/statistics.json")).json())["landed"] == 2
    assert await browser.rows("/statistics/pulls") == 2
    browser.who = ANONYMOUS
    for path in ("/statistics", QUEUE, ELSEWHERE, "/repositories/acme/rocket/shadow"):
        assert await browser.get(path, status=303) == ""


@pytest.mark.parametrize("query", ["days=0", "days=366", "days=x", "days=1.5", "days=1&days=2", "days="])
async def test_faulty_periods_are_named(browser: Browser, query: str) -> None:
    """The page says which part of the address is wrong."""
    assert "days" in await browser.get(f"/statistics?{query}", status=400)


@pytest.mark.parametrize("query", ["since=x", "outcome=won", "reason=bad", "before=-1", "before=99999999999999999999"])
async def test_faulty_filters_are_named(browser: Browser, query: str) -> None:
    """A list with a filter that is not understood would show the wrong pull requests."""
    assert query.partition("=")[0] in await browser.get(f"/statistics/pulls?{query}", status=400)


async def test_file_whose_reader_left_before_it_began_is_no_error(aiohttp_client: AiohttpClient) -> None:
    """A browser that is closed while the first part is read."""
    answers = []

    async def parts() -> AsyncIterator[Sequence[Sequence[Cell]]]:
        yield [["1"]]

    async def answer(request: web.Request) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.WriteTransport)
        request.transport.abort()
        answers.append(await stream_csv(request, "pulls.csv", ["number"], parts()))
        return answers[0]

    app = web.Application()
    app.router.add_get("/pulls.csv", answer)
    client = await aiohttp_client(app)
    with pytest.raises(ServerDisconnectedError):
        await client.get("/pulls.csv")
    assert len(answers) == 1


async def test_json_and_csv_have_the_figures_of_the_page(browser: Browser) -> None:
    """The same period, the same queues."""
    await put(browser.store, DEPARTURE, replace(LANDED, id=6, number=2), replace(LANDED, id=7, number=3, waited=99.5))
    answer = await (await browser.client.get(f"{QUEUE}.json?days=7")).json()
    assert (answer["repository"], answer["base_branch"], answer["landed"], answer["median_wait"]) == (
        "acme/rocket",
        "main",
        2,
        10.0,
    )
    assert answer["p95_wait"] == 99.5
    assert answer["reasons"][1] == {"outcome": "failed", "reason": "checks_failed", "pulls": 1}
    assert [each["name"] for each in answer["flaky_jobs"]] == ["lint", "unit"]
    assert answer["health"]["failures"] == {"figure": pytest.approx(1 / 3), "limit": 0.05, "met": False}
    text = await browser.get(f"{QUEUE}.csv?days=7")
    assert "\r\n" in text
    rows = {(row["table"], row["name"]): row for row in csv.DictReader(StringIO(text))}
    assert rows["wait", "p95"]["seconds"] == "99.5"
    assert rows["reasons", "checks_failed"]["pull_requests"] == "1"
    assert rows["flaky_checks", "ci"]["seconds"] == "12.5"
    assert rows["landings", "landed"]["last"] == NOW.date().isoformat()
    await put(browser.store, *(replace(LANDED, id=number, number=number) for number in range(8, 25)))
    page = await browser.get(f"{QUEUE}?days=7")
    assert "exceeded" in page
    assert "1 min" in page


async def test_empty_statistics_say_so(browser: Browser) -> None:
    """A new queue has no charts, and figures that are not known."""
    for path in (QUEUE, "/statistics", f"{QUEUE}/pulls"):
        assert "No pull request" in await browser.get(path)
    answer = await (await browser.client.get(f"{QUEUE}.json")).json()
    assert (answer["median_wait"], answer["ci_seconds"], answer["mean_wait"], answer["health"]["good"]) == (
        None,
        None,
        {},
        True,
    )
    await browser.get("/repositories/acme/rocket/branches/never/statistics", status=404)


async def test_shadow_page_shows_both_ways_of_merging(browser: Browser) -> None:
    """The report of `imq shadow report`, with the differences in words."""
    path = "/repositories/acme/rocket/shadow"
    assert "not in shadow mode" in await browser.get(path)
    async with browser.store.transaction() as tx:
        await tx.shadow.set_mode(REPOSITORY, Mode.SHADOW)
        await tx.shadow.put(replace(PULL, title=MARKUP, entry=None, landing=LANDING), NOW)
        above = ShadowAction(ShadowOutcome.WAITING, NOW, Reason.STACKED_ABOVE, "#4, of the branch <b>")
        await tx.shadow.put(replace(PULL, number=5, entry=None, decision=above), NOW)
    text = await browser.get(f"{path}?days=30")
    assert "<script>" not in text
    words = " ".join(re.sub(r"<[^>]+>", " ", unescape(text)).split())
    assert "in shadow mode IMQ judges" in words
    assert "would have updated it first: no check tested what landed" in words
    assert "where no update was needed" not in words
    assert "Merges that made the base red 1 1 of these avoided" in words
    assert "would have queued it, and it would wait (frozen)" in words
    assert "it would wait (stacked above: #4, of the branch &lt;b&gt;)" in text
    assert 'href="https://github.com/acme/rocket/pull/4"' in text
    await browser.get("/repositories/acme/sled/shadow", status=404)
    async with browser.store.transaction() as tx:
        await tx.shadow.set_mode(OTHER, Mode.SHADOW)
    overview = await browser.get("/")
    assert 'href="/repositories/acme/rocket/shadow"' in overview
    assert "sled" not in overview


async def test_page_of_a_repository_in_shadow_mode_promises_no_queue(browser: Browser) -> None:
    """A label queues nothing there: the page leads to the report, also beside a queue of the time before (P6)."""
    async with browser.store.transaction() as tx:
        await tx.shadow.set_mode(REPOSITORY, Mode.SHADOW)
    for path in ("/repositories/acme/rocket", "/repositories/acme/rocket/branches/main"):
        words = " ".join(re.sub(r"<[^>]+>", " ", await browser.get(path)).split())
        assert "add the label" not in words
        assert "Label a pull request" not in words
        assert "in shadow mode" in words
