"""What people read of trains that IMQ runs: with whom a pull request landed, why it left, what a reply says."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import PullRequestHandle
from tests.acceptance.page_readers import reader
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world in which trains start CI by a push."""
    async with a_train_world(tmp_path) as made:
        yield made


def comment(pull: PullRequestHandle) -> str:
    """IMQ's comment."""
    return next(each.body for each in pull.comments if "imq:comment" in each.body)


@pytest.mark.thorough
async def test_comment_of_a_landing_says_with_whom_and_what_it_saved(world: World) -> None:
    """Each author reads who was tested together, and how many CI runs that saved."""
    first, second, third = await ready(world, "a", "b", "c")
    queue_all([first, second, third])
    await world.until(lambda: first.merged and second.merged and third.merged)
    await world.settle()
    assert f"It landed with `#{first.number}`, `#{third.number}`, tested in one CI run." in comment(second)
    assert "The train saved 2 CI runs" in comment(second)


@pytest.mark.thorough
async def test_comment_of_an_ejection_says_what_the_failed_run_tested(world: World) -> None:
    """Only the author of the failing one is asked to act, and the history shows the runs with it."""
    files = [{f"{name}.txt": "6\n" if name == "b" else "0\n"} for name in "abc"]
    good, bad, other = await ready(world, "a", "b", "c", files=files)
    world.repository.push("main", {"base.txt": "5\n"}, "Leave less room", by="rhea")
    await world.settle()
    queue_all([good, bad, other])
    await world.until(lambda: good.merged and other.merged)
    await world.until_status(bad, None)
    await world.settle()
    shown = comment(bad)
    assert f"The CI run that failed tested this pull request together with `#{good.number}`, on top of `main`." in shown
    assert "Joined a train, run" in shown
    assert "its checks failed" in shown
    assert "hotfix" not in shown, "no hotfix preempted it"
    assert "CI run that failed" not in comment(good)


@pytest.mark.thorough
async def test_page_of_a_failed_pull_request_names_its_runs_and_no_hotfix(world: World) -> None:
    """The history has each run with its number, and the table of tests says since when the train tested it."""
    files = [{f"{name}.txt": "6\n" if name == "b" else "0\n"} for name in "ab"]
    good, bad = await ready(world, "a", "b", files=files)
    world.repository.push("main", {"base.txt": "5\n"}, "Leave less room", by="rhea")
    await world.settle()
    queue_all([good, bad])
    await world.until(lambda: good.merged)
    await world.until_status(bad, None)
    await world.settle()
    async with reader(world, "mona") as mona:
        page = await mona.get(f"/repositories/acme/widgets/pulls/{bad.number}")
    assert f"Joined a train, run 1, with #{good.number}." in page.text
    assert "End of the train, run 1: its checks failed." in page.text
    assert "hotfix" not in page.text
    assert "earlier" not in page.text, "each test has its begin"


@pytest.mark.thorough
async def test_why_in_a_train_says_who_is_tested_and_the_chance_of_a_failure(world: World) -> None:
    """A fresh pull request breaks its run with the chance that plans begin with."""
    first, second = await ready(world, "a", "b")
    queue_all([first, second])
    await world.until_status(second, "checking")
    second.comment("/why", by="mona")
    await world.settle()
    shown = comment(second)
    assert f"IMQ tests it with `#{first.number}` in one CI run, on the branch `imq/main/" in shown
    assert "The chance that this pull request breaks its run is about 10 % (1 in 10)" in shown


@pytest.mark.thorough
async def test_check_run_in_a_train_links_the_commit_that_the_train_tests(world: World) -> None:
    """Each author gets from the pull request to the CI run, whose commit is on another branch."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.until_status(pulls[1], "checking")
    await world.pass_time(timedelta(minutes=1))
    async with reader(world, "mona") as mona:
        page = await mona.get("/repositories/acme/widgets/branches/main")
        assert "Run 1 #1 a · #2 b" in page.text
    runs = world.repository.record.runs.values()
    shown = "".join(str(run.output) for run in runs if run.app is world.app)
    [branch] = [sha for name, sha in world.repository.record.git.branches().items() if name.startswith("imq/")]
    assert shown.count(f"/acme/widgets/commit/{branch})") == 2


def check_run(world: World, pull: PullRequestHandle) -> str:
    """The title and summary of IMQ's check run on the head."""
    [run] = [each for each in pull.check_runs if each.app is world.app]
    return f"{run.output['title']}: {run.output['summary']}"


@pytest.mark.thorough
async def test_check_run_of_a_member_that_waits_after_a_failed_run_says_why(world: World) -> None:
    """Its author reads that the others are tested first, and no more that a train tests it."""
    files = [{f"{name}.txt": "6\n" if name == "a" else "0\n"} for name in "abc"]
    pulls = await ready(world, "a", "b", "c", files=files)
    world.repository.push("main", {"base.txt": "5\n"}, "Leave less room", by="rhea")
    await world.settle()
    queue_all(pulls)
    await world.until_status(pulls[2], "checking")
    assert await world.status(pulls[2]) == "checking"
    await world.until_status(pulls[2], "pending")
    await world.pass_time(timedelta(seconds=10))
    shown = check_run(world, pulls[2])
    assert shown.startswith("Queued")
    assert "IMQ tests other parts of that run first, to find the cause." in shown
    assert "this one stays in the queue" in shown


async def test_member_that_is_held_back_reads_with_whom_it_conflicts(world: World) -> None:
    """The check run names those ahead of it, of which it conflicts with one, and so do the history and the page."""
    files = [{"c.txt": "0\n"}, {"app.py": "ONE\ntwo\n"}, {"app.py": "uno\ntwo\n"}]
    pulls = await ready(world, "a", "b", "c", files=files)
    queue_all(pulls)
    await world.until_status(pulls[1], "checking")
    await world.pass_time(timedelta(seconds=30))
    first, second = pulls[0].number, pulls[1].number
    assert f"It conflicts with one of `#{first}`, `#{second}`; IMQ tries it again" in check_run(world, pulls[2])
    async with reader(world, "mona") as mona:
        page = await mona.get(f"/repositories/acme/widgets/pulls/{pulls[2].number}")
    assert f"Held back from a train, since it conflicts with one of #{first}, #{second}." in page.text
    await world.until(lambda: pulls[0].merged and pulls[1].merged)
    await world.until_status(pulls[2], None)
    await world.settle()
    assert f"Held back from a train, since it conflicts with one of `#{first}`, `#{second}`" in comment(pulls[2])


async def test_statistics_count_the_runs_that_trains_saved(world: World) -> None:
    """A maintainer sees how many CI runs fewer than landings there were, and the CI time of each run once."""
    pulls = await ready(world, "a", "b", "c")
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    address = "/repositories/acme/widgets/branches/main/statistics"
    async with reader(world, "mona") as mona:
        page = await mona.get(address)
        assert "1 CI runs of trains, by which 3 landed; 2 saved, about" in page.text
        table = (await mona.get(f"{address}.csv")).html
        assert "trains,saved" in table
        ci = next(row for row in csv.DictReader(io.StringIO(table)) if (row["table"], row["name"]) == ("ci", "all"))
        assert float(ci["ci_seconds"]) == pytest.approx(CI_TIME.total_seconds(), abs=10)
