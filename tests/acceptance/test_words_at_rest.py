"""P6: at rest the newest comment and check run agree with GitHub and the entry; the sweep repairs what does not."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.facts import OWN_CHECK
from queue_engine.domain.notice import MARKER
from tests.acceptance.test_lost_databases import front
from tests.acceptance.world import LABEL, World

SWEPT = timedelta(minutes=12)
HOURLY = timedelta(minutes=75)
DAILY = timedelta(minutes=21)
"""After so long the first daily sweep of comments has come."""
LANDED = f"{MARKER} landed -->\n**Landed**"


def own_runs(world: World, pull: Any) -> list[tuple[str, str | None]]:
    """Status and conclusion of each check run of IMQ on the head, oldest first."""
    suites = pull.record.repository.suites_by_sha.get(pull.head_sha, ())
    runs = [run for suite in suites if suite.app is world.app for run in suite.runs if run.name == OWN_CHECK]
    return [(run.status, run.conclusion) for run in sorted(runs, key=lambda run: run.id)]


def newest_run(world: World, pull: Any) -> Any:
    """The newest check run of IMQ on the head."""
    suites = pull.record.repository.suites_by_sha[pull.head_sha]
    return max((run for suite in suites if suite.app is world.app for run in suite.runs), key=lambda run: run.id)


def first_line(body: str) -> str:
    """The hidden line with the kind of a comment."""
    return body.partition("\n")[0]


def change_database(directory: Path, statement: str, *values: Any) -> None:
    """Somebody edits the database."""
    with closing(sqlite3.connect(directory / "imq.db", timeout=5)) as connection:
        assert connection.execute(statement, values).rowcount == 1
        connection.commit()


async def failed(world: World) -> Any:
    """A pull request that left its queue as its checks failed, with a check run that says so."""
    pull = world.open("eleven", files={"b.txt": "11\n"})
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    return pull


@pytest.mark.thorough
async def test_check_run_of_an_earlier_time_in_the_queue_gives_way_to_one_that_is_queued(world: World) -> None:
    """A run that has ended is false beside an entry in the queue, and a red one counts for the whole commit."""
    pull = await front(world)
    await world.pass_time(timedelta(seconds=10))
    pull.comment("/pause", by="rhea")
    pull.comment("/unqueue", by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert own_runs(world, pull) == [("completed", "neutral")]
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert await world.status(pull) == "pending"
    assert own_runs(world, pull) == [("completed", "neutral"), ("queued", None)]
    pull.comment("/resume", by="rhea")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert own_runs(world, pull) == [("completed", "neutral"), ("completed", "success")]


async def test_check_run_that_ended_beside_an_entry_is_replaced_by_the_sweep(world: World, tmp_path: Path) -> None:
    """The database was edited, or another one was used: its notice is an outcome."""
    pull = await front(world)
    await world.pass_time(timedelta(seconds=10))
    pull.comment("/pause", by="rhea")
    await world.settle()
    newest_run(world, pull).status, newest_run(world, pull).conclusion = "completed", "neutral"
    change_database(
        tmp_path,
        "UPDATE outbox SET notice = json_set(notice, '$.kind', 'cancelled'), remote_id = NULL WHERE kind = 'check_run'",
    )
    assert len(await world.contradictions()) == 1
    await world.pass_time(SWEPT)
    assert await world.contradictions() == []
    assert own_runs(world, pull)[1][0] in {"queued", "in_progress"}


async def test_check_run_whose_end_github_lost_ends_by_the_sweep(world: World, tmp_path: Path) -> None:
    """P2, P6: no entry stands, and the run would show progress for ever."""
    pull = await failed(world)
    run = newest_run(world, pull)
    run.status, run.conclusion = "in_progress", None
    of_run = "UPDATE outbox SET remote_id = ?, remote_head = ? WHERE kind = 'check_run'"
    change_database(tmp_path, of_run, run.id, pull.head_sha)
    assert len(await world.contradictions()) == 1
    await world.pass_time(SWEPT)
    assert own_runs(world, pull) == [("completed", "failure")]


def lose(run: Any) -> None:
    """GitHub answered that it created this check run, and has it no longer."""
    for runs in (run.suite.runs, run.repository.runs_by_sha[run.head_sha]):
        runs.remove(run)
    del run.repository.runs[run.id]


@pytest.mark.thorough
async def test_check_run_that_github_lost_is_written_again_by_the_sweep(world: World) -> None:
    """P2, P6: its creation, the end of another, and an end after a landing; then all are at rest, and it costs one
    request in an hour with a write, and none after."""
    red = await failed(world)
    run = newest_run(world, red)
    title, run.output["title"] = run.output["title"], "Queued"
    run.status, run.conclusion = "in_progress", None
    assert len(await world.contradictions()) == 1
    await world.pass_time(HOURLY)
    assert own_runs(world, red) == [("completed", "failure")]
    assert newest_run(world, red).output["title"] == title
    pull = await front(world)
    await world.pass_time(timedelta(seconds=10))
    pull.comment("/pause", by="rhea")
    await world.pass_time(timedelta(seconds=10))
    paused = newest_run(world, pull)
    lose(paused)
    await world.pass_time(HOURLY)
    assert own_runs(world, pull) == [("queued", None)]
    assert newest_run(world, pull).output["title"] == paused.output["title"]
    pull.comment("/resume", by="rhea")
    await world.until(lambda: pull.merged)
    await world.settle()
    lose(newest_run(world, pull))
    await world.pass_time(HOURLY)
    assert own_runs(world, pull)[-1] == ("completed", "success")
    await world.pass_time(HOURLY)
    asked = world.requests("POST /graphql")
    await world.pass_time(3 * HOURLY)
    assert world.requests("POST /graphql") == asked


async def test_check_run_that_github_does_not_take_is_written_again_once(world: World) -> None:
    """P7: what it shows again after that, no further write changes."""
    red = await failed(world)
    run = newest_run(world, red)
    output, run.output = run.output, {"title": "Queued"}
    await world.pass_time(HOURLY)
    assert run.output == output
    run.output = {"title": "Queued"}
    written = world.requests("PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}")
    await world.pass_time(3 * HOURLY)
    assert world.requests("PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}") == written


@pytest.mark.parametrize("queued", [True, False])
async def test_comment_that_says_landed_of_an_open_pull_request_is_corrected(world: World, queued: bool) -> None:
    """GitHub does not show it as merged, and its base lacks the head: then only the comment can be false."""
    pull = await (front(world) if queued else failed(world))
    pull.comment("/pause", by="rhea")
    await world.pass_time(timedelta(minutes=1))
    true = world.comment(pull)
    own = next(each for each in pull.comments if each.body == true)
    pull.edit_comment(own, LANDED, by="rhea", webhook=False)
    assert len(await world.contradictions()) == 1 + queued
    await world.pass_time(DAILY)
    assert first_line(world.comment(pull)) == first_line(true)


@pytest.mark.thorough
@pytest.mark.parametrize("is_old", [False, True])
async def test_comment_whose_edit_github_lost_is_sent_again(world: World, tmp_path: Path, is_old: bool) -> None:
    """P2, P6: it says "checking" of a pull request that left; the list of comments that changed may lack it."""
    pull = await front(world)
    await world.pass_time(timedelta(minutes=1))
    own = next(each for each in pull.comments if each.body == world.comment(pull))
    former, at = own.body, own.updated_at
    pull.comment("/unqueue", by="mona")
    await world.pass_time(timedelta(minutes=1))
    own = next(each for each in pull.comments if each.body == world.comment(pull))
    true, own.body, own.updated_at = own.body, former, at - timedelta(days=40 * is_old)
    assert len(await world.contradictions()) == 1
    await world.pass_time(SWEPT)
    change_database(tmp_path, "DELETE FROM sweeps WHERE part LIKE 'sweep_comments%'")
    await world.pass_time(DAILY)
    assert first_line(world.comment(pull)) == first_line(true)
