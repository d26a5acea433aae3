"""The measures run: tiny figures through the very parts that `make bench` uses, so that the command never rots."""

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from aiohttp import web
from rich.console import Console

from benchmarks import footprint, reaction, workers
from benchmarks.fairness import fairness_on
from benchmarks.idle import rows_on
from benchmarks.merging import imq, kodiak_like, queued_at_once, sweeps_an_hour, without_sweeps
from benchmarks.sender import Burst, send
from benchmarks.table import Row, percentile, save, show
from tests.support.databases import MakeUrl

ROW = Row("row", "what it is", "2 s", 2.0, "< 1 s", False, "poller 6 s", 6.0, "how it was measured")


def test_percentile_of_few_values_is_one_of_them() -> None:
    """The value that the named share does not exceed; the largest for any share that leaves less than one out."""
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.995, 1.0)] == [50, 99, 100, 100]


def test_table_missed_goal_says_so_and_shows_the_ratio(tmp_path: Path) -> None:
    """The table itself marks a missed goal, and by how much the reference differs."""
    paper = StringIO()
    show(Console(width=200, file=paper), [ROW, replace(ROW, met=None, goal="", value=None)], "title")
    text = paper.getvalue()
    assert "< 1 s: MISSED" in text
    assert "3 x" in text
    assert "not judged" in text
    save(tmp_path / "rows.json", [ROW], {"seed": 7})
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["seed"] == 7
    assert written["rows"][0]["ratio"] == 3.0


@pytest.mark.thorough
async def test_queued_at_once_ci_time_is_part_of_the_wall_time() -> None:
    """Two pull requests cost one CI run of 20 s at least, and the poller more than IMQ, in the same virtual time."""
    ours, theirs = [await queued_at_once(make, 2) for make in (imq, kodiak_like)]
    assert timedelta(seconds=20) < ours < timedelta(seconds=24)
    assert ours < theirs < timedelta(seconds=60)


@pytest.mark.thorough
async def test_requests_of_sweeps_are_no_part_of_what_a_merge_costs() -> None:
    """They are counted by the hour; in an idle one nothing else is asked, but for the installation's next token."""
    hourly = await sweeps_an_hour(2)
    assert 6 <= hourly.total() <= 24
    assert without_sweeps(hourly) <= Counter({"POST /app/installations/{installation_id}/access_tokens": 1})
    merge = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"
    assert without_sweeps(Counter({"GET /app/hook/deliveries": 3, merge: 1})) == {merge: 1}


@pytest.mark.thorough
@pytest.mark.process
async def test_reaction_of_a_bot_is_measured_for_each_merge() -> None:
    """What it waits for are checks that this bot may go by."""
    assert len(await reaction.imq_reactions(1, Random(1))) == 1


async def test_idle_tick_over_waiting_queues_asks_github_nothing(tmp_path: Path) -> None:
    """Queues whose fronts wait cost no request, whether they are left alone or woken."""
    for row in await rows_on(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path, 5, 20, 2):
        assert row.met
        assert "0 requests" in row.measured


@pytest.mark.thorough
@pytest.mark.process
async def test_memory_and_start_of_a_process_are_measured() -> None:
    """The figures are those of the process that was started, on whatever machine: none is judged here."""
    row = await footprint.memory_row(owners=2, each=1)
    assert row.what == "memory of one process after 2 merges, SQLite"
    assert row.value is not None
    assert row.value > 30, "megabytes"


@pytest.mark.thorough
@pytest.mark.process
async def test_start_is_measured_after_the_tables_are_made(tmp_path: Path) -> None:
    """The first start of a process is counted apart."""
    row = await footprint.start_row(f"sqlite:///{tmp_path / 'imq.db'}", 1)
    assert "(n=1)" in row.measured
    assert "processor time of a start" in row.note


@pytest.mark.thorough
@pytest.mark.process
@pytest.mark.postgres
async def test_workers_that_share_a_database_land_what_is_measured(make_postgres_url: MakeUrl, tmp_path: Path) -> None:
    """Each kind of process has its part of the processor's time."""
    measured = await workers.throughput(make_postgres_url(), tmp_path, 2, 1, 1)
    assert (measured.workers, measured.merges) == (2, 3)
    assert set(measured.used) == {"workers", "web", "sandbox"}
    assert measured.rate > 0


@pytest.mark.thorough
async def test_fairness_beside_a_busy_repository_is_measured_while_it_is_busy(tmp_path: Path) -> None:
    """Half of the passes at once are its own, and it is not through when the last quiet one has been served."""
    row = await fairness_on(f"sqlite:///{tmp_path / 'imq.db'}", 40, 1, 0.5, Random(1))
    assert "up to 4 of 8 passes" in row.note
    assert ", and 0 of its queues" not in row.note
    assert "(n=10)" in row.measured


@pytest.mark.parametrize(("status", "word"), [(202, "stored"), (503, "503")])
async def test_sender_counts_what_was_answered(status: int, word: str) -> None:
    """Each delivery is signed, sent once, and counted by its answer; only those stored are named as stored."""
    measured: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        assert request.headers["X-Hub-Signature-256"].startswith("sha256=")
        measured.append(request.headers["X-GitHub-Delivery"])
        return web.json_response({"result": "stored"} if status == 202 else {}, status=status)

    app = web.Application()
    app.router.add_post("/webhook", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
        answers = await send(Burst(url, "secret", 100, 0.1, [("push", "{}"), ("status", "{}")]))
    finally:
        await runner.cleanup()
    assert answers.statuses == {word: 10}
    assert len(answers.times) == 10
    assert sorted(answers.stored) == (sorted(measured) if status == 202 else [])
