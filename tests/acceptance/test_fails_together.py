"""Green alone, red with what landed since: everybody who asks reads what landed in between, and how to reproduce it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.author.terminal import details, state_line
from tests.acceptance.callers import Caller, path_of
from tests.acceptance.page_readers import reader
from tests.acceptance.train_world import a_train_world, queue_all
from tests.acceptance.train_world import ready as ready_in_train
from tests.acceptance.world import CI_TIME, LABEL, World

COMPARE = "GET /repos/{owner}/{repo}/compare/{basehead}"


async def green(world: World, **files: str) -> list[Any]:
    """Pull requests whose checks have passed on their own heads; the check allows ten in total."""
    pulls = [world.open(name, files={f"{name}.txt": f"{count}\n"}) for name, count in files.items()]
    await world.pass_time(CI_TIME * 2)
    return pulls


async def left(world: World, pull: Any) -> str:
    """The comment of a pull request that left its queue."""
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["checks_failed"]
    return world.comment(pull)


async def test_author_reads_what_landed_between_a_green_head_and_the_red_merge(world: World, mona: Caller) -> None:
    """P6: comment, check run, API, command line and page name the green commit and what landed, for one request."""
    [before] = await green(world, before="0")
    before.label(LABEL, by="mona")
    await world.until(lambda: before.merged)
    await world.settle()
    five, none, six = await green(world, five="5", none="0", six="6")
    head = six.head_sha[:7]
    for each in (five, none):
        each.label(LABEL, by="mona")
    await world.until(lambda: five.merged and none.merged)
    await world.settle()
    compared = world.requests(COMPARE)
    six.label(LABEL, by="mona")
    text = await left(world, six)
    shown = (
        f"`ci/test` passed on your commit `{head}`, and fails with `main` merged in. "
        f"Without your commits, `main` passes. Landed in between: `#{five.number}`, `#{none.number}`."
    )
    assert "**❌ Removed from the queue for `main`: it fails together with what landed since**" in text
    assert shown in text
    assert "Reproduce it with `git fetch origin && git merge origin/main`" in text
    assert world.requests(COMPARE) == compared + 1
    run = next(each for each in six.check_runs if each.app is world.app)
    assert run.output["title"] == "Fails together with what landed since: checks failed"
    assert shown in run.output["summary"]
    six.comment("/why", by="mona")
    await world.settle()
    assert world.comment(six).count(shown) == 2
    answer = (await mona.ask("GET", path_of(six))).body
    assert shown in answer["sentence"]
    assert answer["previous"]["failure"]["landed"] == [five.number, none.number]
    lines = "\n".join([state_line(answer), *details(answer)])
    assert shown.replace("`", "") in lines
    assert "git fetch origin && git merge origin/main" in lines
    async with reader(world, "mona") as pages:
        page = await pages.get(f"/repositories/acme/widgets/pulls/{six.number}")
        queue = await pages.get("/repositories/acme/widgets/branches/main")
    assert f"six Fails together with #{five.number}, #{none.number}, landed since." in queue.text
    assert f"passed on your commit {head} , and fails with main merged in." in page.text
    assert "git fetch origin && git merge origin/main" in page.text


@pytest.mark.thorough
async def test_author_whose_head_was_never_green_alone_reads_no_such_claim(world: World) -> None:
    """P6: it fails on an up-to-date head by itself, and on another both with the base merged in and without."""
    alone = world.open("alone", files={"alone.txt": "20\n"})
    alone.label(LABEL, by="mona")
    text = await left(world, alone)
    assert "**❌ Removed from the queue for `main`: a required check failed**" in text
    assert f"`ci/test` failed on your commit `{alone.head_sha[:7]}`." in text
    behind = world.open("behind", files={"behind.txt": "20\n"})
    head = behind.head_sha[:7]
    world.repository.push("main", {"one.txt": "1\n"}, "One", by="rhea")
    await world.settle()
    behind.label(LABEL, by="mona")
    text = await left(world, behind)
    assert f"`ci/test` failed on your commit `{head}`, too, without `main`." in text
    assert "passed on your commit" not in text


async def test_train_says_with_whom_its_failed_run_was_tested(tmp_path: Path) -> None:
    """P6: the member that left was alone on top of the base, which had got another landing since."""
    async with a_train_world(tmp_path) as world:
        files = [{f"{name}.txt": f"{count}\n"} for name, count in (("a", 0), ("b", 6), ("c", 0), ("d", 5))]
        good, bad, other, five = await ready_in_train(world, "a", "b", "c", "d", files=files)
        queue_all([five])
        await world.until(lambda: five.merged)
        await world.settle()
        queue_all([good, bad, other])
        await world.until(lambda: good.merged and other.merged and LABEL not in bad.labels)
        await world.settle()
        text = world.comment(bad)
        assert f"`ci/test` passed on your commit `{bad.head_sha[:7]}`, and fails with `main` merged in." in text
        assert f"Landed in between: `#{five.number}`" in text
        assert "The CI run that failed tested this pull request" in text
        assert "no other pull request" not in text
        assert "git pull" not in text


async def test_push_is_named_with_both_commits_and_who_queued(world: World) -> None:
    """P6: who queued which commit, who pushed which one after it, and how both land."""
    front, pull = await green(world, front="0", pull="1")
    queued = pull.head_sha[:7]
    front.label(LABEL, by="mona")
    pull.label(LABEL, by="hubot")
    await world.pass_time(timedelta(seconds=30))
    pull.push({"more.txt": "0\n"}, "More", by="mona")
    await world.settle()
    text = world.comment(pull)
    assert "**↩️ Dequeued from `main`: new commits were pushed**" in text
    assert f"`mona` pushed `{pull.head_sha[:7]}` after `hubot` queued `{queued}`" in text
    assert "IMQ lands only what was queued." in text
    assert "If the new commits should land too, comment `/queue`" in text
