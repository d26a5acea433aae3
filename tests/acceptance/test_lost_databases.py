"""P4, P5: an empty database queues what GitHub proves to have been labelled, and nothing that was pushed since."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from github_emulator import CISettings, PullRequestOptions
from queue_engine.domain.reasons import Reason
from tests.acceptance.starting import lay_out
from tests.acceptance.world import LABEL, World, a_world


def remove_database(directory: Path) -> None:
    for path in directory.glob("imq.db*"):
        path.unlink()


async def lose_database(world: World, directory: Path) -> None:
    """IMQ ends, and starts again with an empty database."""
    await world.kill()
    remove_database(directory)
    await lay_out(directory / "imq.db")
    await world.github.schedule.run_due()
    await world.restart()


async def front(world: World) -> Any:
    """A pull request that is under checks for some minutes; those that are labelled meanwhile wait behind it."""
    pull = await world.behind("front")
    pull.label(LABEL, by="rhea")
    await world.until_status(pull, "checking")
    return pull


async def label_in_order(world: World, *pulls: Any) -> None:
    """Label pull requests one after the other, until IMQ has commented on each."""
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=10))
    await world.until(lambda: all(world.spoken(pull) for pull in pulls))
    assert not any(pull.merged for pull in pulls)


@pytest.mark.thorough
async def test_queue_of_a_lost_database_stands_again_in_its_order(world: World, tmp_path: Path) -> None:
    """IMQ's own comments, and its update of the front, came after the labels; no person has to label again."""
    pulls = [world.open(name) for name in ("first", "second", "third")]
    first = await front(world)
    await label_in_order(world, *pulls)
    pulls[2].comment("Nice.", by="hubot")
    await lose_database(world, tmp_path)
    await world.until(lambda: all(pull.merged for pull in (first, *pulls)), within=timedelta(hours=1))
    await world.settle()
    assert [number for number in world.landed() if number != first.number] == [pull.number for pull in pulls]
    assert [world.spoken(pull) for pull in (first, *pulls)] == [1, 1, 1, 1]
    assert [await world.reasons(pull) for pull in (first, *pulls)] == [[], [], [], []]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "touch"), [("branch", True), ("branch", False), ("fork", False), ("elsewhere_before", False)]
)
async def test_push_with_a_forged_date_does_not_land_by_an_earlier_label(
    world: World, tmp_path: Path, where: str, touch: bool
) -> None:
    """P4: commits carry any date, and may have stood on another branch, with its checks, long before the label."""
    world.github.behaviour.pushes_touch_pulls = touch
    pull = world.open("pull", by=None if where == "fork" else "mona", fork_of="fan" if where == "fork" else None)
    assert pull.record.head_repository is not None
    pull.record.head_repository.private = False
    git, head = world.repository.record.git, pull.head_sha
    signature = replace(git.must(head).author, date=world.clock.now() - timedelta(days=2))
    tree = git.write_tree(git.tree(head), {"unseen.py": "unseen\n"})
    forged = git.write_commit(tree, (head,), "Old work", signature, signature)
    if where == "elsewhere_before":
        world.repository.push_commit("other", forged, by="hubot")
    await front(world)
    await label_in_order(world, pull)
    place = world.github.repository(pull.record.head_repository.full_name)
    place.push_commit(pull.record.head_branch, forged, by=pull.record.author.login, webhook=False)
    await lose_database(world, tmp_path)
    await world.pass_time(timedelta(hours=1))
    assert (pull.merged, await world.reasons(pull)) == (False, [Reason.LABEL_NOT_RECEIVED.value])
    assert LABEL not in pull.labels
    assert world.spoken(pull) == 1


@pytest.mark.parametrize("act", ["close", "draft", "edit_base"])
async def test_label_does_not_count_after_a_missed_withdrawal(world: World, tmp_path: Path, act: str) -> None:
    """P4: closed and reopened, a draft and ready again, aimed elsewhere and back: the head alone proves nothing."""
    world.repository.create_branch("dev", "main")
    pull = world.open("pull")
    await front(world)
    await label_in_order(world, pull)
    await world.kill()
    if act == "close":
        pull.close(by="mona", webhook=False)
        pull.reopen(by="mona", webhook=False)
    elif act == "draft":
        pull.convert_to_draft(by="mona", webhook=False)
        pull.ready_for_review(by="mona", webhook=False)
    else:
        pull.edit_base("dev", by="mona", webhook=False)
        pull.edit_base("main", by="mona", webhook=False)
    await world.restart()
    await lose_database(world, tmp_path)
    await world.pass_time(timedelta(hours=1))
    assert (pull.merged, await world.reasons(pull)) == (False, [Reason.LABEL_NOT_RECEIVED.value])


@pytest.mark.parametrize(
    ("activity", "of_a_day", "private", "lands"),
    [
        ("all", True, False, True),
        ("own", False, False, False),
        ("none", False, False, False),
        ("all", False, True, False),
    ],
)
async def test_pull_request_from_a_fork_is_queued_again_where_github_shows_the_forks_branch(
    world: World, tmp_path: Path, activity: Literal["all", "own", "none"], of_a_day: bool, private: bool, lands: bool
) -> None:
    """P4, P5: whatever GitHub shows IMQ of forks, nothing lands unproved, and people read what to do."""
    world.github.behaviour.activity = activity
    world.github.behaviour.activity_of_a_day = of_a_day
    pull = world.open("idea", by=None, fork_of="fan", options=PullRequestOptions(maintainer_can_modify=True))
    assert pull.record.head_repository is not None
    pull.record.head_repository.private = private
    # IMQ slept meanwhile: three hundred sweeps with nothing to find would take longer than all else.
    world.clock.set(world.clock.now() + timedelta(days=2))
    await world.settle()
    await front(world)
    await label_in_order(world, pull)
    await lose_database(world, tmp_path)
    await world.pass_time(timedelta(hours=1))
    assert pull.merged is lands
    assert await world.reasons(pull) == ([] if lands else [Reason.LABEL_NOT_RECEIVED.value])
    if not lands:
        pull.comment("/queue", by="mona")
        await world.until(lambda: pull.merged)


async def test_comment_of_a_lost_database_that_says_it_left_is_corrected_where_it_is_queued_again(
    tmp_path: Path,
) -> None:
    """P6: the label was set while no IMQ ran; also where the configuration asks for outcomes only."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        made = world.repository.add_ci("ci/test", settings=CISettings(duration=timedelta(minutes=40)))
        world.repository.protect("main", required_checks=[("ci/test", made.app.id)])
        world.repository.push("main", {".github/imq.yml": "comments: {level: outcomes}\n"}, "Configure", by="rhea")
        first, pull = world.open("first"), world.open("pull")
        await world.pass_time(timedelta(hours=1))
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        for each in (first, pull):
            each.label(LABEL, by="mona")
            await world.settle()
        pull.comment("/unqueue", by="mona")
        await world.pass_time(timedelta(seconds=10))
        assert "imq:comment cancelled" in world.comment(pull)
        await world.kill()
        remove_database(tmp_path)
        await lay_out(tmp_path / "imq.db")
        pull.label(LABEL, by="mona", webhook=False)
        await world.github.schedule.run_due()
        await world.restart()
        await world.pass_time(timedelta(minutes=15))
        assert await world.status(pull) == "pending"
        assert "imq:comment queued" in world.comment(pull)


@pytest.mark.thorough
async def test_pull_request_queued_by_a_command_reads_how_to_queue_again(world: World, tmp_path: Path) -> None:
    """P4: IMQ set its label itself, so that it no longer knows a person with the right to queue."""
    pull = world.open("pull")
    await front(world)
    pull.comment("/queue", by="mona")
    await world.until(lambda: LABEL in pull.labels and bool(world.spoken(pull)))
    await lose_database(world, tmp_path)
    await world.pass_time(timedelta(hours=1))
    assert (pull.merged, await world.reasons(pull)) == (False, [Reason.LABEL_NOT_RECEIVED.value])
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged)
