"""Commands that meet trouble half-way: carried on until they are answered, and done once."""

from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.store.outbox.outbox import CommandReplies
from tests.acceptance.commenting import answered, reacted, ready, say
from tests.acceptance.world import LABEL, World


@pytest.mark.thorough
async def test_command_is_answered_although_github_fails_in_between(world: World) -> None:
    """Done again as a job until it is done, and done once."""
    pull = await ready(world)
    labels = "/repos/{owner}/{repo}/issues/{number}/labels"
    world.server.faults.add(Fault(kind="fail", method="POST", route=labels, status=502, times=2))
    comment = await say(world, pull, "/queue", by="hubot")
    await world.until(lambda: pull.merged)
    assert reacted(comment) == {"eyes", "+1"}
    assert world.spoken(pull) == 1


async def pauses(world: World, pull: Any) -> int:
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(pull.record.repository.id, 0)
    return [event.event for event in events].count("paused")


@pytest.mark.parametrize("skip", [1, 0])
async def test_command_whose_reaction_fails_is_done_once(world: World, skip: int) -> None:
    """Reactions are repeated, what was done is not."""
    pull = await ready(world)
    reactions = "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions"
    world.server.faults.add(Fault(kind="fail", method="POST", route=reactions, status=502, times=2, skip=skip))
    comment = await say(world, pull, "/pause for a moment", by="rhea")
    assert reacted(comment) == {"eyes", "+1"}
    assert await answered(world, pull) == ["paused"]
    assert await pauses(world, pull) == 1


@pytest.mark.thorough
async def test_comment_that_is_followed_again_goes_on_behind_the_last_answer(world: World) -> None:
    """P2: the first command was done and answered when the second one failed."""
    pull = await ready(world)
    labels = "/repos/{owner}/{repo}/issues/{number}/labels"
    world.server.faults.add(Fault(kind="fail", method="POST", route=labels, status=502, times=1))
    await say(world, pull, "/pause for a moment\n/resume\n/queue", by="rhea")
    assert await answered(world, pull) == ["paused", "resumed", "queued"]
    assert await pauses(world, pull) == 1


async def test_requeue_that_died_before_its_answer_was_stored_gives_the_place_up_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: a worker that takes over sees that this very comment queued it."""
    front, pull = world.open("front"), world.open("add")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    put, failures = CommandReplies.put, iter([OSError("killed")])

    async def fails_once(self: CommandReplies, *given: Any) -> None:
        for failure in failures:
            raise failure
        await put(self, *given)

    monkeypatch.setattr(CommandReplies, "put", fails_once)
    await say(world, pull, "/requeue", by="hubot")
    assert await answered(world, pull) == ["requeued"]
    assert await world.reasons(pull) == ["unqueued"]
