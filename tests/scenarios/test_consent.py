"""P4: whatever withdraws consent takes the entry out of its queue, in every waiting status, and nothing lands."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.reasons import Reason
from tests.scenarios.world import CI_TIME, LABEL, World

Act = Callable[[World, Any, bool], object]

ACTS: dict[str, tuple[Act, Reason]] = {
    "push": (lambda w, p, hook: p.push({"more.py": "more\n"}, by="mona", webhook=hook), Reason.HEAD_CHANGED),
    "force_push": (lambda w, p, hook: p.force_push({"else.py": "x\n"}, by="mona", webhook=hook), Reason.HEAD_CHANGED),
    "close": (lambda w, p, hook: p.close(by="mona", webhook=hook), Reason.CLOSED),
    "draft": (lambda w, p, hook: p.convert_to_draft(by="mona", webhook=hook), Reason.DRAFT),
    "edit_base": (lambda w, p, hook: p.edit_base("release", by="mona", webhook=hook), Reason.BASE_CHANGED),
    "unlabel": (lambda w, p, hook: p.unlabel(LABEL, by="mona", webhook=hook), Reason.LABEL_REMOVED),
}


async def queued(world: World, status: str) -> Any:
    """A pull request that waits in this status."""
    world.repository.create_branch("release", "main")
    first = world.repository.open_pull_request("First", head="first", by="mona", files={"first.py": "1\n"})
    pull = world.repository.open_pull_request("Pull", head="pull", by="mona", files={"pull.py": "2\n"})
    await world.pass_time(CI_TIME * 2)
    if status == "pending":
        world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
        first.label(LABEL, by="mona")
        await world.settle()
    elif status in {"updating", "checking"}:
        world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    elif status == "ready":
        world.server.faults.add(
            kind="fail", method="PUT", route="/repos/{owner}/{repo}/pulls/{number}/merge", status=405
        )
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until_status(pull, status)
    return pull


async def reasons_of(world: World, pull: Any) -> list[str | None]:
    async with world.bot.engine.store.reading() as tx:
        queues = await tx.queues.all()
        events = await tx.timeline.of_pull_request(queues[0].repository.id, pull.number)
    return [event.reason for event in events if event.reason is not None]


@pytest.mark.parametrize("status", ["pending", "updating", "checking", "ready"])
@pytest.mark.parametrize("act", ACTS)
async def test_entry_leaves_with_its_reason_in_every_waiting_status(world: World, status: str, act: str) -> None:
    """The webhook of the act takes the entry out before its next step."""
    pull = await queued(world, status)
    do, reason = ACTS[act]
    tip = world.repository.tree("main")
    do(world, pull, True)
    await world.until_status(pull, None)
    assert reason.value in await reasons_of(world, pull)
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert world.spoken(pull) == 1
    if status != "pending":
        assert world.repository.tree("main") == tip


@pytest.mark.parametrize("act", ACTS)
async def test_nothing_lands_when_the_webhook_of_the_act_never_came(world: World, act: str) -> None:
    """GitHub is read before the merge: consent withdrawn in silence is found there."""
    pull = await queued(world, "checking")
    do, reason = ACTS[act]
    tip = world.repository.tree("main")
    do(world, pull, False)
    await world.until_status(pull, None)
    assert reason.value in await reasons_of(world, pull)
    assert not pull.merged
    assert world.repository.tree("main") == tip


async def test_update_by_somebody_else_with_the_right_parents_keeps_its_place(world: World) -> None:
    """Who pressed the update button proves nothing either way: the parents do."""
    pull = await queued(world, "updating")
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1
