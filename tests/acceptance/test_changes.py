"""What changes while a pull request waits: labels, titles, reviews, and the rules and configuration of its branch."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import CISettings, ReviewRule
from tests.acceptance.world import CI_TIME, LABEL, World

CONFIGURATION = """\
blocking:
  labels: [do-not-merge]
  titles: ['^WIP']
priority:
  labels:
    urgent: 10
"""


async def _two_in_line(world: World) -> tuple[Any, Any]:
    """One at the front, whose checks run, and one behind it."""
    front, pull = world.open("front"), world.open("waiting")
    await world.pass_time(timedelta(seconds=30))
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    return front, pull


def _configure(world: World, text: str = CONFIGURATION) -> None:
    world.repository.push("main", {".github/imq.yml": text}, "Configure the queue", by="rhea")


async def test_blocking_label_takes_out_who_waits_and_another_label_asks_nothing(world: World) -> None:
    """The label counts wherever it waits; one that means nothing costs no request."""
    _configure(world)
    await world.pass_time(timedelta(minutes=1))
    front, pull = await _two_in_line(world)
    before = world.requests()
    pull.label("documentation", by="hubot")
    await world.settle()
    assert world.requests() == before
    pull.label("do-not-merge", by="hubot")
    await world.settle()
    assert await world.reasons(pull) == ["blocked_by_label"]
    assert await world.status(front) is not None


async def test_title_that_is_kept_out_takes_out_who_waits(world: World) -> None:
    """A title may be edited at any time; without such a rule it is only kept."""
    _front, pull = await _two_in_line(world)
    before = world.requests()
    pull.edit_title("WIP: not yet", by="mona")
    await world.settle()
    entry = await world.entry(pull)
    assert entry is not None
    assert entry.title == "WIP: not yet"
    assert world.requests() == before
    _configure(world)
    await world.settle()
    pull.edit_title("WIP: really not", by="mona")
    await world.settle()
    assert await world.reasons(pull) == ["blocked_by_title"]


@pytest.mark.thorough
async def test_priority_label_moves_who_waits_and_so_does_taking_it_off(world: World) -> None:
    """The label is read again each time; the entry in progress stays at the front."""
    _configure(world)
    await world.pass_time(timedelta(minutes=1))
    front, second = await _two_in_line(world)
    third = world.open("third")
    third.label(LABEL, by="mona")
    await world.settle()
    third.label("urgent", by="hubot")
    await world.settle()
    assert [entry.number for entry in await world.entries()] == [front.number, third.number, second.number]
    third.unlabel("urgent", by="hubot")
    await world.settle()
    assert [entry.number for entry in await world.entries()] == [front.number, second.number, third.number]


@pytest.mark.thorough
async def test_changes_requested_where_reviews_are_demanded_take_out_who_waits(world: World) -> None:
    """It could not land any more; its author reads that at once, and no pull request waits behind it."""
    world.repository.add_ruleset("reviews", reviews=ReviewRule(approvals=1))
    front, pull = world.open("front"), world.open("waiting")
    for each in (front, pull):
        each.review("APPROVED", by="hubot")
    await world.pass_time(timedelta(seconds=30))
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    assert await world.status(pull) == "pending"
    pull.review("CHANGES_REQUESTED", by="rhea")
    await world.settle()
    assert await world.reasons(pull) == ["changes_requested"]
    await world.until(lambda: front.merged)


@pytest.mark.thorough
async def test_changes_requested_under_rules_that_another_process_received_dequeue(world: World) -> None:
    """P1: what a review means is not judged by rules that are remembered from before they changed."""
    front, pull = world.open("front"), world.open("waiting")
    await world.pass_time(timedelta(seconds=30))
    for each in (front, pull):
        each.label(LABEL, by="mona")
        await world.settle()
    pull.review("APPROVED", by="rhea")
    await world.settle()
    world.repository.add_ruleset("reviews", reviews=ReviewRule(approvals=1))
    async with world.bot.engine.store.transaction() as tx:
        (queue,) = await tx.queues.all()
        await tx.repositories.renew_settings(queue.repository.id)
    pull.review("CHANGES_REQUESTED", by="rhea")
    await world.settle()
    assert await world.reasons(pull) == ["changes_requested"]


@pytest.mark.parametrize("organisation", [False, True])
async def test_rules_that_change_are_read_again_at_once(world: World, organisation: bool) -> None:
    """GitHub sends changed rulesets, an organisation's without a repository: what any process remembers is void."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.settle()
    before = await _generation(world)
    world.repository.add_ruleset("linear", linear_history=True, organisation=organisation)
    await world.settle()
    assert await _generation(world) > before
    await world.until(lambda: pull.merged)
    assert len(world.repository.log("main")[0].parents) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("announced", [True, False])
async def test_check_that_is_required_while_a_pull_request_waits_is_waited_for_too(
    world: World, announced: bool
) -> None:
    """P1: from `branch_protection_rule` on no merge is asked for before the new check has passed; else GitHub's own
    refusal teaches it."""
    if not announced:
        world.app.events -= {"branch_protection_rule"}
    slow = world.repository.add_ci("ci/slow", settings=CISettings(app="slow", duration=CI_TIME * 2))
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    required = [("ci/test", world.app_id("ci")), ("ci/slow", slow.app.id)]
    world.repository.protect("main", required_checks=required, by="rhea")
    await world.pass_time(CI_TIME + timedelta(minutes=1))
    entry = await world.entry(pull)
    assert entry is not None
    assert (entry.status.value, entry.run.pending_checks) == ("checking", ("ci/slow",))
    await world.until(lambda: pull.merged, within=CI_TIME)
    assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == (1 if announced else 2)


async def _generation(world: World) -> int:
    async with world.bot.engine.store.reading() as tx:
        (queue,) = await tx.queues.all()
        return await tx.repositories.generation(queue.repository.id)
