"""Repeated requests for a rejected head: judged where that makes sense, and never left without an answer."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import PullRequestOptions
from queue_engine.domain.reasons import Reason
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


async def insist(world: World, pull: Any) -> int:
    """Set the label until it is not answered by taking it off as before; how often the pull request was judged."""
    for times in range(12):
        pull.label(LABEL, by="mona")
        await world.pass_time(2 * SECOND)
        if (await world.reasons(pull))[-1] == Reason.ASKED_TOO_OFTEN.value:
            return times
    raise AssertionError("heard every time")


async def test_person_who_labels_too_often_reads_when_labels_count_again(world: World) -> None:
    """The label comes off for that, and IMQ says so once; after that time IMQ judges it as before."""
    await configure(world, "when_not_ready: refuse\n")
    pull = world.open("draft", options=PullRequestOptions(draft=True))
    await world.pass_time(CI_TIME * 2)
    assert await insist(world, pull) >= 4
    assert LABEL not in pull.labels
    comment = world.comment(pull)
    assert "repeatedly added" in comment
    assert "Next step, @mona" in comment
    assert "Until 20" in comment
    assert "/queue" in comment
    asked = world.requests()
    pull.label(LABEL, by="mona")
    await world.pass_time(2 * SECOND)
    assert world.comment(pull) == comment
    assert world.requests() - asked <= 1
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(HOUR)
    pull.ready_for_review(by="mona")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_command_counts_however_often_the_label_was_set(world: World) -> None:
    """A person who types a command asks on purpose."""
    await configure(world, "when_not_ready: refuse\n")
    pull = world.open("draft", options=PullRequestOptions(draft=True))
    await world.pass_time(CI_TIME * 2)
    await insist(world, pull)
    pull.ready_for_review(by="mona")
    await world.pass_time(SECOND)
    pull.comment("/queue", by="mona")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_refusal_of_a_person_affects_no_other_person(world: World) -> None:
    """A bot that may queue queues a head that a triager was refused with."""
    pull = world.open("pull")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="tria")
    await world.pass_time(10 * SECOND)
    assert await world.reasons(pull) == [Reason.LABEL_WITHOUT_RIGHT.value]
    pull.label(LABEL, by="robot[bot]")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_refusal_of_a_person_hides_no_other_persons_label_from_the_sweep(world: World) -> None:
    """The webhook of who may queue was lost; the label is found all the same."""
    pull = world.open("pull")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="tria")
    await world.pass_time(10 * SECOND)
    pull.label(LABEL, by="mona", webhook=False)
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == [Reason.LABEL_WITHOUT_RIGHT.value]


@pytest.mark.thorough
async def test_ignored_label_whose_comment_was_deleted_is_explained_again_by_the_sweep(world: World) -> None:
    """P6: automation sets the label again on a rejected head, and somebody deletes the comment that says why."""
    await configure(world, "when_not_ready: refuse\n")
    pull = world.open("draft", options=PullRequestOptions(draft=True))
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="robot[bot]")
    await world.pass_time(10 * SECOND)
    pull.label(LABEL, by="robot[bot]")
    await world.pass_time(10 * SECOND)
    assert LABEL in pull.labels
    asked = world.requests()
    await world.pass_time(HOUR)
    assert world.requests() - asked <= 25
    pull.delete_comment(next(iter(pull.comments)), by="rhea")
    await world.pass_time(HOUR)
    assert "draft" in world.comment(pull)


async def test_deleted_comment_overrules_no_person_who_dequeued_the_pull_request(world: World) -> None:
    """P4: automation left the label on, and the sweep says again that a person dequeued it, but does not queue it."""
    pull = world.open("stay")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.pass_time(5 * SECOND)
    pull.comment("/unqueue", by="mona")
    await world.pass_time(10 * SECOND)
    pull.label(LABEL, by="robot[bot]")
    await world.pass_time(10 * SECOND)
    pull.delete_comment(next(iter(pull.comments)), by="rhea")
    await world.pass_time(2 * HOUR)
    assert not pull.merged
    assert "`mona` dequeued the pull request" in world.comment(pull)
