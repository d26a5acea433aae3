"""Commands in the text of a review: they count as those of a comment, and name the head that was reviewed."""

from datetime import timedelta

import pytest

from tests.acceptance.commenting import MINUTE, answered, reacted, ready
from tests.acceptance.world import LABEL, World

LAGS = [timedelta(0), timedelta(seconds=2)]


@pytest.mark.parametrize("lag", LAGS)
async def test_approval_with_queue_in_its_text_lands(world: World, lag: timedelta) -> None:
    """The approval that the branch requires and the command come together."""
    world.repository.protect("main", required_approvals=1, required_checks=["ci/test"])
    pull = await ready(world)
    world.server.lag.set(lag)
    pull.review("APPROVED", by="hubot", body="Looks good!\n\n/queue")
    await world.until(lambda: pull.merged and LABEL not in pull.labels, within=timedelta(minutes=10))
    assert (world.spoken(pull), await answered(world, pull)) == (1, ["queued"])


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("state", ["COMMENTED", "CHANGES_REQUESTED"])
async def test_command_counts_in_any_review(world: World, state: str) -> None:
    """`/why` asks nothing of the verdict."""
    pull = await ready(world)
    pull.review(state, by="rhea", body="/why")
    await world.pass_time(MINUTE)
    assert await answered(world, pull) == ["why"]


@pytest.mark.parametrize("lag", LAGS)
async def test_push_after_the_review_was_not_consented_to(world: World, lag: timedelta) -> None:
    """P4: the webhook comes late; the review names the head that it was made on."""
    pull = await ready(world)
    world.server.lag.set(lag)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    pull.review("APPROVED", by="hubot", body="/queue")
    await world.github.schedule.run_due()
    pull.push({"evil.py": "evil\n"}, by="mona")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.pass_time(timedelta(minutes=30))
    assert await answered(world, pull) == ["changed_since"]
    assert (await world.status(pull), pull.merged) == (None, False)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_later_comments_do_not_withdraw_what_a_review_consented_to(world: World) -> None:
    """A comment cannot say which head it means, so that any later change withdraws it; a review can."""
    pull = await ready(world)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    pull.review("APPROVED", by="hubot", body="/queue")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.pass_time(timedelta(seconds=5))
    pull.comment("Thanks!", by="mona")
    await world.until(lambda: pull.merged, within=timedelta(hours=1))


@pytest.mark.thorough
@pytest.mark.lagging
async def test_other_base_branch_after_the_review_was_not_consented_to(world: World) -> None:
    """P4: what was reviewed for one branch does not land on another."""
    world.repository.create_branch("release", "main")
    pull = await ready(world)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    pull.review("APPROVED", by="hubot", body="/queue")
    await world.github.schedule.run_due()
    pull.edit_base("release", by="mona")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.pass_time(timedelta(minutes=30))
    assert (await world.status(pull), pull.merged) == (None, False)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_review_by_somebody_without_the_right_queues_nothing(world: World) -> None:
    """The rights are those of a comment."""
    pull = await ready(world)
    pull.review("APPROVED", by="tria", body="/queue")
    await world.pass_time(MINUTE)
    assert await answered(world, pull) == ["not_allowed"]
    assert await world.status(pull) is None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_review_whose_text_has_no_command_costs_no_request(world: World) -> None:
    """P7: a pull request outside the queue is not read for it."""
    pull = await ready(world)
    before = world.requests()
    pull.review("APPROVED", by="rhea", body="Fine. `/queue` comes later.")
    await world.pass_time(MINUTE)
    assert (world.requests(), world.spoken(pull)) == (before, 0)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_conversation_of_a_review_is_no_command(world: World) -> None:
    """Only the review's own text counts, not what it says on a line of a file."""
    pull = await ready(world)
    pull.open_thread("/queue", by="rhea")
    await world.pass_time(MINUTE)
    assert (await world.status(pull), world.spoken(pull)) == (None, 0)


@pytest.mark.lagging
async def test_review_and_comment_with_one_number_are_both_answered(world: World) -> None:
    """GitHub counts reviews and comments by themselves."""
    pull = await ready(world)
    review = pull.review("COMMENTED", by="rhea", body="/why")
    await world.pass_time(MINUTE)
    comment = pull.comment("/queue status", by="rhea")
    async with world.bot.engine.store.reading() as tx:
        first = await tx.answers.find(pull.record.repository.id, pull.number, comment_id=-review.id)
    assert first is not None
    await world.pass_time(MINUTE)
    assert reacted(comment) == {"eyes", "+1"}
    assert await answered(world, pull) == ["status"]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_comment_by_an_app_in_a_persons_name_is_the_apps(world: World) -> None:
    """An assistant or a chat command that writes with the person's token commands nothing."""
    world.github.create_app("assistant", permissions={}, events=[])
    pull = await ready(world)
    before = world.requests()
    comment = pull.comment("/queue", by="mona", app="assistant")
    await world.pass_time(MINUTE)
    assert (reacted(comment), await world.status(pull), world.requests()) == (set(), None, before)
