"""The page of figures, asked over HTTP while and after a pull request lands."""

import re
from pathlib import Path

import aiohttp
import pytest

from bot.metrics.gauges import CONTENT_TYPE
from tests.acceptance.world import LABEL, World, a_world
from tests.support.claims import claim_one
from tests.unit.bot.metrics.test_meter import values


async def page(world: World) -> str:
    """What Prometheus gets."""
    url = f"http://127.0.0.1:{world.runner.addresses[0][1]}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        return await answer.text()


@pytest.mark.thorough
async def test_page_counts_a_merge_without_a_name_or_a_secret(tmp_path: Path) -> None:
    """What was received, done, asked of GitHub and sent is counted; a reader of the page learns no name from it."""
    async with a_world(tmp_path) as world:
        pull = world.open("one")
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        waiting = await page(world)
        asked = world.requests()
        await page(world)
        assert world.requests() == asked, "GitHub is asked nothing for it"
        await world.until(lambda: pull.merged)
        await world.pass_time(world.bot.settings.interval)
        done = await page(world)
        sent = world.requests()
    assert values(waiting, "imq_queue_entries")["checking",] == 1
    assert values(waiting, "imq_queue_depth_max") == {(): 1}
    assert values(waiting, "imq_landed_total") == {("run",): 0}
    assert values(done, "imq_landed_total") == {("run",): 1}
    assert sum(values(done, "imq_dequeued_total").values()) == 0
    for name in ("imq_queue_time_seconds", "imq_front_time_seconds"):
        assert values(done, f"{name}_count") == {("run",): 1}
        assert values(done, f"{name}_sum")["run",] > 0
    assert values(done, "imq_front_oldest_seconds") == {(): 0}
    assert values(done, "imq_queue_depth_max") == {(): 0}
    assert values(done, "imq_queues") == {(): 1}
    assert values(done, "imq_requests_keyed_total")["run", "webhook"] > 3
    assert values(done, "imq_duplicates_total")["run", "webhook"] == 0
    finished, timed = values(done, "imq_jobs_done_total"), values(done, "imq_job_delay_seconds_count")
    assert {kind: count for kind, count in finished.items() if count} == timed
    assert sum(values(done, "imq_jobs_done_total").values()) > 3
    assert sum(values(done, "imq_jobs_dead_total").values()) == 0
    assert sum(values(done, "imq_outbox_sent_total").values()) >= 3
    assert sum(values(done, "imq_github_requests_total").values()) == sent
    assert sum(values(done, "imq_github_duration_seconds_count").values()) == sent
    assert set(values(done, "imq_github_limited_total").values()) == {0}
    budgets = values(done, "imq_github_budget_remaining")
    assert len(budgets) == 2
    assert ("app", "run") in budgets
    assert values(done, "imq_processes") == {("run",): 1, ("web",): 0, ("worker",): 0}
    samples = [line for line in done.splitlines() if not line.startswith("#")]
    leaks = [line for line in samples if re.search(r"acme|widgets|mona|main\b|\bone\b|s3cret|imq\.db|127\.0\.0", line)]
    assert leaks == []


@pytest.mark.thorough
async def test_page_shows_the_age_of_the_front_and_why_it_left(tmp_path: Path) -> None:
    """An operator sees a front that gets older, and by which reasons pull requests leave."""
    async with a_world(tmp_path) as world:
        first, second = world.open("one"), world.open("two")
        for pull in (first, second):
            pull.label(LABEL, by="mona")
        await world.until_status(first, "checking")
        began = world.clock.now()
        first.unlabel(LABEL, by="mona")
        await world.until_status(second, "checking")
        waiting = await page(world)
        assert 0 <= values(waiting, "imq_front_oldest_seconds")[()] <= (world.clock.now() - began).total_seconds()
    left = {reason: count for (_, reason), count in values(waiting, "imq_dequeued_total").items() if count}
    assert left == {"label_removed": 1}


async def test_page_counts_a_dead_letter_and_its_retry(tmp_path: Path) -> None:
    """What failed for good is counted when it dies and when a person sends it back; then it is done."""
    async with a_world(tmp_path) as world:
        store, clock = world.bot.engine.store, world.clock
        before = values(await page(world), "imq_jobs_done_total")["sweep", "run"]
        async with store.transaction() as tx:
            letter = await tx.jobs.enqueue(kind="sweep", request={}, process_id="sweep", now=clock.now())
            job = await claim_one(tx.jobs, owner="w", now=clock.now(), lease=world.bot.settings.lease)
            assert job is not None
            await tx.dead_letters.add(job, "GitHub was away", clock.now(), attempts=9, retryable=True)
        await world.pass_time(world.bot.settings.interval)
        dead = await page(world)
        async with store.transaction() as tx:
            assert await tx.dead_letters.reprocess(letter, clock.now())
        await world.pass_time(world.bot.settings.interval)
        done = await page(world)
    assert values(dead, "imq_jobs_dead_total")["sweep", "run"] == 1
    assert values(dead, "imq_dead_letters") == {("sweep",): 1}
    assert values(dead, "imq_jobs_reprocessed_total")["sweep", "run"] == 0
    assert values(done, "imq_jobs_reprocessed_total")["sweep", "run"] == 1
    assert values(done, "imq_dead_letters") == {}
    assert values(done, "imq_jobs_done_total")["sweep", "run"] == before + 1
