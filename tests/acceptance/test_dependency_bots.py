"""A dependency bot rebases its pull requests while they are queued, and they stay (P4)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.choosing import configure, leaves
from tests.acceptance.world import CI_TIME, LABEL, World
from tests.support.documents import read

BOT = "robot[bot]"
NAMED = f'on_push: {{requeue_for: ["{BOT}"]}}\n'
SOON = timedelta(seconds=20)


def rebase(world: World, pull: Any, *, by: str = BOT, text: str = "rebased\n", webhook: bool = True) -> str:
    """Make the pull request's change again on top of the base, and push it by force."""
    name = pull.record.head_branch
    return str(world.repository.force_push(name, {f"{name}.py": text}, onto="main", by=by, webhook=webhook))


async def queued(world: World, text: str = NAMED) -> list[Any]:
    """A person's pull request at the front, and three of the bot behind it, queued by a person."""
    await configure(world, text)
    pulls = [world.open("front"), *(world.open(name, by=BOT) for name in ("one", "two", "three"))]
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    return pulls


async def order(world: World) -> list[int]:
    """The numbers of the queued pull requests, front first."""
    return [entry.number for entry in await world.entries()]


def numbers(pulls: Sequence[Any]) -> list[int]:
    """Their numbers."""
    return [pull.number for pull in pulls]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rebases_after_each_landing_cost_no_position_and_all_land(world: World) -> None:
    """Each lands with the commit that the bot made last, under one comment; no person has to act."""
    pulls = await queued(world)
    for place, landing in enumerate(pulls):
        await world.until(lambda landing=landing: landing.merged, within=CI_TIME * 3)  # type: ignore[misc]
        await world.pass_time(SOON)
        # The front has IMQ's update by now: a bot leaves alone what somebody else pushed to.
        for pull in pulls[place + 2 :]:
            rebase(world, pull, text=f"after {place}\n")
        await world.settle()
        assert await order(world) == numbers(pulls[place + 1 :])
    assert world.landed() == numbers(pulls)
    assert world.repository.files("main")["three.py"] == "after 1\n"
    assert [await world.reasons(pull) for pull in pulls] == [[]] * 4
    assert [world.spoken(pull) for pull in pulls] == [1] * 4


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rebase_of_a_waiting_pull_request_costs_no_request(world: World) -> None:
    """P7: the webhook alone binds the new head; the comment's history has it later."""
    pulls = await queued(world)
    await world.pass_time(SOON)
    before = world.requests()
    heads = [rebase(world, pull) for pull in pulls[1:]]
    await world.pass_time(SOON)
    assert world.requests() == before
    assert [entry.head_sha for entry in await world.entries()][1:] == heads
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 9)
    assert "New commit by the bot that opened it" in world.comment(pulls[1])


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rebase_of_the_front_is_queued_again_at_the_end(world: World) -> None:
    """Its run is lost, so others come first; the consent remains that of the person who gave it."""
    front, *others = await queued(world)
    await world.until(lambda: front.merged, within=CI_TIME * 3)
    await world.until_status(others[0], "checking")
    await world.pass_time(SOON)
    pushed = rebase(world, others[0])
    await world.settle()
    assert await order(world) == numbers([*others[1:], others[0]])
    entry = await world.entry(others[0])
    assert entry is not None
    assert (entry.head_sha, entry.queued_by) == (pushed, "mona")
    await world.until(lambda: all(pull.merged for pull in others), within=CI_TIME * 9)
    assert world.spoken(others[0]) == 1
    assert world.repository.files("main")["one.py"] == "rebased\n"


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("by", ["mona", "hubot"])
async def test_push_of_a_person_to_a_bots_branch_ends_consent(world: World, by: str) -> None:
    """P4: any person, also the one who queued it; by a commit on top, or by force."""
    _, one, two, _ = await queued(world)
    one.push({"one.py": "more\n"}, by=by)
    rebase(world, two, by=by)
    assert [await leaves(world, pull) for pull in (one, two)] == ["head_changed"] * 2


@pytest.mark.lagging
async def test_push_of_the_bot_to_a_persons_pull_request_ends_consent(world: World) -> None:
    """P4: it may push to what it opened itself."""
    await configure(world, NAMED)
    front, pull = world.open("front"), world.open("change")
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    pull.push({"change.py": "more\n"}, by=BOT)
    assert await leaves(world, pull) == "head_changed"


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("text", ["depth: 20\n", 'on_push: {requeue_for: ["dependabot[bot]"]}\n'])
async def test_push_of_a_bot_that_is_not_named_ends_consent(world: World, text: str) -> None:
    """P4: as before."""
    _, one, *_ = await queued(world, text)
    rebase(world, one)
    assert await leaves(world, one) == "head_changed"


@pytest.mark.lagging
@pytest.mark.parametrize("first", [BOT, "hubot"])
async def test_push_whose_webhook_was_lost_counts_by_githubs_activity(world: World, first: str) -> None:
    """P4: the sweep finds another head; the branch's activity says who pushed, and a person among them ends consent."""
    _, one, *others = await queued(world)
    rebase(world, one, by=first, text="first\n", webhook=False)
    head = rebase(world, one, text="second\n", webhook=False)
    one.comment("nothing in it", by="hubot")
    await world.pass_time(timedelta(minutes=11))
    if first == BOT:
        await world.until(lambda: one.merged and all(each.merged for each in others), within=CI_TIME * 9)
        assert world.repository.is_ancestor(head, "main")
    else:
        assert await leaves(world, one) == "head_changed"


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rebase_over_the_unknown_push_of_a_person_ends_consent(world: World) -> None:
    """P4: the bot may have kept what that person pushed: its commit replaced a head that IMQ does not know."""
    _, one, *_ = await queued(world)
    one.push({"one.py": "evil\n"}, by="hubot", webhook=False)
    rebase(world, one)
    assert await leaves(world, one) == "head_changed"


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rebased_head_that_fails_is_ejected_like_any_other(world: World) -> None:
    """P1: the new head is tested before it lands."""
    _, one, *others = await queued(world)
    world.repository.force_push("one", {"limits.txt": "11\n"}, onto="main", by=BOT)
    await world.until(lambda: all(each.merged for each in others), within=CI_TIME * 9)
    assert await world.reasons(one) == ["checks_failed"]


@pytest.mark.lagging
async def test_recipe_of_the_documents_lands_what_dependabot_labels_and_rebases(world: World) -> None:
    """The bot's own label queues, its rebase costs nothing, and people's pushes still end the consent."""
    section = read("docs/configuration.md").partition("### Dependabot and Renovate")[2]
    recipe = section.split("```yaml\n")[1].split("```")[0]
    world.github.create_user("dependabot[bot]", kind="Bot")
    roles = world.repository.record.collaborators
    roles["dependabot[bot]"] = "write"
    await configure(world, recipe)
    front = world.open("front")
    front.label(LABEL, by="mona")
    bumps = [world.open(name, by="dependabot[bot]") for name in ("one", "two")]
    # GitHub lets it push and label, and shows no permission to merge.
    roles["dependabot[bot]"] = "triage"
    for pull in bumps:
        pull.label(LABEL, by="dependabot[bot]")
    await world.settle()
    roles["dependabot[bot]"] = "write"
    for pull in bumps:
        rebase(world, pull, by="dependabot[bot]")
    roles["dependabot[bot]"] = "triage"
    await world.until(lambda: all(pull.merged for pull in bumps), within=CI_TIME * 9)
    assert world.landed() == numbers([front, *bumps])


@pytest.mark.thorough
@pytest.mark.lagging
async def test_bot_that_rebases_the_front_too_holds_up_nothing(world: World) -> None:
    """P5: Renovate can be set to replace IMQ's update: each landing costs one run more, and all land."""
    pulls = await queued(world)
    landed = 0
    while landed < len(pulls):
        await world.until(lambda before=landed: len(world.landed()) > before, within=CI_TIME * 9)  # type: ignore[misc]
        landed = len(world.landed())
        await world.pass_time(SOON)
        for pull in pulls[1:]:
            if not pull.merged:
                rebase(world, pull, text=f"after {landed}\n")
    assert sorted(world.landed()) == numbers(pulls)
    assert [world.spoken(pull) for pull in pulls] == [1] * 4
