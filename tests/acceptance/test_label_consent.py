"""P4: a label that IMQ has decided to remove is not consent, on whatever path IMQ meets it again."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.domain.reasons import Reason
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
REMOVE_LABEL = "/repos/{owner}/{repo}/issues/{number}/labels/{name}"

Act = Callable[[World, Any], Awaitable[None]]


async def reconcile(world: World, pull: Any) -> None:
    await world.pass_time(timedelta(minutes=11))


async def restart(world: World, pull: Any) -> None:
    await world.kill()
    await world.restart()


async def draft_and_back(world: World, pull: Any) -> None:
    pull.convert_to_draft(by="mona")
    await world.settle()
    pull.ready_for_review(by="mona")


async def close_and_reopen(world: World, pull: Any) -> None:
    pull.close(by="mona")
    await world.settle()
    pull.reopen(by="mona")


async def change_base_and_back(world: World, pull: Any) -> None:
    pull.edit_base("release", by="mona")
    await world.settle()
    pull.edit_base("main", by="mona")


PATHS = (reconcile, restart, draft_and_back, close_and_reopen, change_base_and_back)


async def dequeued_by_a_push(world: World) -> Any:
    """A pull request that left because somebody pushed to it, while GitHub refuses to remove its label."""
    world.repository.create_branch("release", "main")
    pull = world.open("pull")
    pull.label(LABEL, by="mona")
    await world.settle()
    await world.pass_time(2 * SECOND)
    world.server.faults.add(Fault(kind="fail", method="DELETE", route=REMOVE_LABEL, status=502, times=None))
    pull.push({"unreviewed.py": "unreviewed\n"}, by="hubot")
    await world.settle()
    assert await world.reasons(pull) == [Reason.HEAD_CHANGED.value]
    return pull


@pytest.mark.thorough
@pytest.mark.parametrize("act", PATHS)
async def test_label_whose_removal_failed_queues_nothing(world: World, act: Act) -> None:
    """The label was for the head before the push; no person has consented to the new one."""
    pull = await dequeued_by_a_push(world)
    await act(world, pull)
    await world.pass_time(timedelta(minutes=21))
    assert LABEL in pull.labels
    assert await world.status(pull) is None
    assert await world.reasons(pull) == [Reason.HEAD_CHANGED.value], "it is no new wish that could be refused"
    world.server.faults.clear()
    await world.pass_time(HOUR)
    assert (pull.merged, pull.labels) == (False, [])


@pytest.mark.thorough
async def test_label_set_again_by_a_person_is_consent_while_the_removal_is_undelivered(world: World) -> None:
    """Somebody took the old label off by hand, and set a new one: that one is for the head that stands there now."""
    pull = await dequeued_by_a_push(world)
    await world.pass_time(2 * SECOND)
    pull.unlabel(LABEL, by="mona")
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 2)
    assert pull.merged


@pytest.mark.thorough
async def test_command_queues_by_a_label_that_imq_is_still_to_remove_and_sets_it_again(world: World) -> None:
    """A new `/queue` replaces the undelivered removal: the pull request keeps its label, and lands."""
    pull = await dequeued_by_a_push(world)
    await world.pass_time(2 * SECOND)
    pull.comment("/queue", by="mona")
    await world.settle()
    assert await world.status(pull) is not None
    world.server.faults.clear()
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == [Reason.HEAD_CHANGED.value]
    await world.pass_time(HOUR)
    assert pull.labels == []


@pytest.mark.parametrize("act", PATHS)
async def test_unqueued_label_whose_removal_failed_queues_nothing(world: World, act: Act) -> None:
    """A person dequeued the pull request. No event while the removal fails is new consent."""
    world.repository.create_branch("release", "main")
    pull = world.open("pull")
    pull.label(LABEL, by="mona")
    await world.settle()
    await world.pass_time(2 * SECOND)
    world.server.faults.add(Fault(kind="fail", method="DELETE", route=REMOVE_LABEL, status=502, times=None))
    pull.comment("/unqueue", by="mona")
    await world.settle()
    await act(world, pull)
    await world.pass_time(timedelta(minutes=21))
    assert LABEL in pull.labels
    assert await world.status(pull) is None
    assert not pull.merged


async def test_second_label_set_before_the_push_is_no_consent_to_it(world: World) -> None:
    """Of two labels that queue, the second was set while the pull request was queued, and before the push."""
    world.repository.push("main", {".github/imq.yml": "trigger_labels: [merge-queue, ship]\n"}, "Rules", by="rhea")
    await world.settle()
    pull = world.open("pull")
    pull.label(LABEL, by="mona")
    await world.pass_time(2 * SECOND)
    pull.label("ship", by="mona")
    await world.pass_time(2 * SECOND)
    world.server.faults.add(Fault(kind="fail", method="DELETE", route=REMOVE_LABEL, status=502, times=None))
    pull.push({"unreviewed.py": "unreviewed\n"}, by="hubot")
    await world.pass_time(timedelta(minutes=21))
    assert await world.status(pull) is None
    assert not pull.merged
