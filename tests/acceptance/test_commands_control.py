"""Commands that pause, freeze, resume and reorder a queue."""

from datetime import timedelta

import pytest

from tests.acceptance.commenting import MINUTE, reacted, ready, say
from tests.acceptance.world import LABEL, World


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["/pause", "/freeze until 2h", "/queue priority=low"])
async def test_steering_takes_more_than_the_right_to_queue(world: World, text: str) -> None:
    """Who may write may queue; stopping others takes maintain."""
    pull = await ready(world)
    comment = await say(world, pull, text, by="hubot")
    assert "confused" in reacted(comment)
    assert await world.paused() is None
    assert await world.status(pull) is None


@pytest.mark.thorough
async def test_pause_resume_and_freeze_hold_the_queue_of_the_base_branch(world: World) -> None:
    """Maintainers pause and resume from any pull request; each queued one reports it, and proceeds afterwards."""
    pull = await ready(world)
    comment = await say(world, pull, "/pause The release is being cut", by="rhea")
    assert "+1" in reacted(comment)
    assert await world.paused() == "paused_by_hand"
    paused_at = world.clock.now()
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged
    assert f"`rhea` paused the queue for `main` at {paused_at - MINUTE:%Y-%m-%d %H:%M} UTC" in world.comment(pull)
    assert "**Nothing to do for you:** the pull request keeps position 1" in world.comment(pull)
    await say(world, pull, "/freeze until 2h", by="rhea")
    assert "It is also paused" in world.comment(pull)
    await say(world, pull, "/resume", by="rhea")
    assert "is frozen" in world.comment(pull)
    assert await world.paused() == "frozen"
    frozen_at = world.clock.now()
    await world.until(lambda: pull.merged)
    assert timedelta(hours=1, minutes=50) < world.clock.now() - frozen_at < timedelta(hours=2, minutes=15)
    assert world.spoken(pull) == 1


async def test_maintainer_steers_the_queue_from_the_pull_request_that_has_just_landed(world: World) -> None:
    """Where the fault shows, the queue is paused, frozen and resumed; what needs an open one is answered in words."""
    landed, waiting = await ready(world), await ready(world, "waiting")
    landed.label(LABEL, by="mona")
    await world.until(lambda: landed.merged)
    await world.settle()
    comment = await say(world, landed, "/pause It broke the release", by="rhea")
    assert "+1" in reacted(comment)
    assert await world.paused() == "paused_by_hand"
    text = world.comment(landed)
    assert "Landed on `main`" in text
    assert "Paused the queue for `main`. To resume it, comment `/resume`. Reason: `It broke the release`." in text
    waiting.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=1))
    assert not waiting.merged
    for command in ("/freeze until 2h", "/resume", "/resume"):
        assert "+1" in reacted(await say(world, landed, command, by="rhea"))
    assert "confused" in reacted(await say(world, landed, "/pause", by="hubot"))
    assert "confused" in reacted(await say(world, landed, "/queue priority=high", by="rhea"))
    assert "The pull request is merged, so this command has nothing to do." in world.comment(landed)
    assert await world.paused() is None
    await world.until(lambda: waiting.merged)
    assert world.spoken(landed) == 1


@pytest.mark.thorough
async def test_priority_by_command_overtakes_and_says_whom(world: World) -> None:
    """The answer says whom that delays."""
    front, waiting, pull = [world.open(name) for name in ("front", "waiting", "urgent")]
    for each in (front, waiting, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    await say(world, pull, "/queue priority=high", by="rhea")
    assert [entry.number for entry in await world.entries()] == [front.number, pull.number, waiting.number]
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(pull.record.repository.id, pull.number)
    assert answer is not None
    assert answer.replies[0].facts["overtakes"] == [[waiting.number, None]]
    await world.until(lambda: all(each.merged for each in (front, waiting, pull)))
    assert world.landed() == [front.number, pull.number, waiting.number]


async def test_priority_of_a_hotfix_by_command_names_the_preempted_front(world: World) -> None:
    """The reply names the pull request that it preempts, and the time that is lost."""
    rules = "priority: {labels: {hotfix: {hotfix: true, preempts: true}}}\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    front, hotfix = await ready(world, "front"), await ready(world, "hotfix")
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    front.label(LABEL, by="mona")
    await world.until_status(front, "updating")
    hotfix.label("hotfix", by="mona")
    hotfix.label(LABEL, by="mona")
    hotfix.comment("/queue priority=high", by="rhea")
    await world.settle()
    async with world.bot.engine.store.reading() as tx:
        answer = await tx.answers.find(hotfix.record.repository.id, hotfix.number)
    assert answer is not None
    facts = answer.replies[0].facts
    assert (facts["preempts"], facts["overtakes"]) == (front.number, [[front.number, None]])
    assert isinstance(facts["lost"], int)
    cost = f"It is tested before `#{front.number}`, whose checks start over. They had run for "
    await world.until(lambda: world.spoken(hotfix) == 1 and cost in world.comment(hotfix))
    await world.until(lambda: front.merged)
