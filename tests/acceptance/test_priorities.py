"""Who goes before whom, seen from outside: priorities, hotfixes, and what an interrupted pull request keeps."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.choosing import configure
from tests.acceptance.test_label_early import DRAFT, early
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

RULES = """\
priority:
  ageing: 10m
  labels:
    urgent: 3
    later: -3
    hotfix: {priority: 1, hotfix: true, preempts: true}
"""
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"


async def opened(world: World, *names: str) -> list[Any]:
    """Pull requests whose own checks have ended, behind a base that moved since."""
    pulls = [world.open(name) for name in names]
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    return pulls


@pytest.mark.thorough
async def test_priorities_order_waiting_entries_and_leave_the_front_alone(world: World) -> None:
    """Urgent before plain before later, in the order of arrival within each; none of them moves another entry back."""
    await configure(world, RULES)
    front, later, plain, urgent, second = await opened(world, "front", "later", "plain", "urgent", "second")
    front.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    for pull, label in ((later, "later"), (plain, None), (urgent, "urgent"), (second, "urgent")):
        if label:
            pull.label(label, by="mona")
        pull.label(LABEL, by="mona")
        await world.settle()
    assert [e.number for e in await world.entries()] == [p.number for p in (front, urgent, second, plain, later)]
    await world.until(lambda: later.merged)
    assert world.landed() == [p.number for p in (front, urgent, second, plain, later)]


async def test_entry_that_has_waited_longer_than_the_head_start_is_not_overtaken(world: World) -> None:
    """Three points of ten minutes each: who has waited for an hour goes before an urgent one that comes now."""
    await configure(world, RULES)
    world.repository.protect("main", required_checks=[("ci/test", world.app_id("ci")), "slow"], by="rhea")
    front, plain, urgent = await opened(world, "front", "plain", "urgent")
    front.label(LABEL, by="mona")
    plain.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=1))
    urgent.label("urgent", by="mona")
    urgent.label(LABEL, by="mona")
    await world.settle()
    assert [e.number for e in await world.entries()] == [front.number, plain.number, urgent.number]


async def overtaken(world: World, status: str) -> tuple[Any, Any]:
    """A pull request that is in front with this status, and the hotfix that is queued then."""
    front, hotfix = await opened(world, "front", "hotfix")
    front.label(LABEL, by="mona")
    await world.until_status(front, status)
    hotfix.label("hotfix", by="mona")
    hotfix.label(LABEL, by="mona")
    return front, hotfix


@pytest.mark.thorough
async def test_hotfix_preempts_the_front_which_lands_after_it(world: World) -> None:
    """It waits for no other checks. The preempted entry keeps its place and its consent, and loses nothing but time."""
    await configure(world, RULES)
    front, other, hotfix = await opened(world, "front", "other", "hotfix")
    front.label(LABEL, by="mona")
    other.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    updates = world.requests(UPDATE)
    hotfix.label("hotfix", by="mona")
    hotfix.label(LABEL, by="mona")
    await world.settle()
    assert [(e.number, e.status.value) for e in await world.entries()][1:] == [
        (front.number, "pending"),
        (other.number, "pending"),
    ]
    await world.pass_time(timedelta(seconds=5))
    assert f"ahead of `#{front.number}`, `#{other.number}`" in world.comment(hotfix), "it is said whom that delays"
    await world.until(lambda: other.merged)
    assert world.landed() == [hotfix.number, front.number, other.number]
    assert world.requests(UPDATE) == updates + 3, "each once, and the interrupted one once more"
    assert world.repository.tree("main") == world.repository.tree(other.head_sha)
    assert await world.paused() is None


@pytest.mark.thorough
async def test_hotfix_that_comes_while_the_front_is_updated_waits_until_its_head_is_bound(world: World) -> None:
    """GitHub's update would else be a head without consent (P4)."""
    await configure(world, RULES)
    front, hotfix = await overtaken(world, "updating")
    await world.until(lambda: front.merged)
    assert world.landed() == [hotfix.number, front.number]
    assert await world.reasons(front) == []


@pytest.mark.thorough
async def test_push_to_an_interrupted_pull_request_withdraws_its_consent(world: World) -> None:
    """P4: back in the order it is bound to its updated head, and to no other."""
    await configure(world, RULES)
    front, hotfix = await overtaken(world, "checking")
    await world.until_status(hotfix, "checking")
    front.push({"front.py": "changed\n"}, by="mona")
    await world.until(lambda: hotfix.merged)
    await world.pass_time(CI_TIME)
    assert await world.reasons(front) == ["head_changed"]
    assert not front.merged


@pytest.mark.thorough
async def test_hotfixes_do_not_interrupt_each_other(world: World) -> None:
    """The second waits for the first, or neither would ever land."""
    await configure(world, RULES)
    first, second = await opened(world, "first", "second")
    for pull in (first, second):
        pull.label("hotfix", by="mona")
        pull.label(LABEL, by="mona")
        await world.until_status(first, "checking")
    await world.until(lambda: second.merged)
    assert world.landed() == [first.number, second.number]


@pytest.mark.thorough
async def test_interrupted_pull_request_lands_after_the_bot_was_killed(tmp_path: Path) -> None:
    """P2: the preemption is in the database, like everything else."""
    async with a_world(tmp_path) as world:
        await configure(world, RULES)
        front, hotfix = await opened(world, "front", "hotfix")
        front.label(LABEL, by="mona")
        await world.until_status(front, "checking")
        hotfix.label("hotfix", by="mona")
        hotfix.label(LABEL, by="mona")
        await world.until_status(front, "pending")
        await world.kill()
        await world.restart()
        await world.until(lambda: front.merged)
        assert world.landed() == [hotfix.number, front.number]


STEERING = """\
priority:
  labels:
    hotfix: {priority: 1, hotfix: true, preempts: true}
    mends: {fixes_base: true}
freeze:
  exempt_labels: [allowed]
"""


async def steered(world: World) -> tuple[Any, Any]:
    """Two queued pull requests whose labels may give them precedence; the first one is being checked."""
    await configure(world, STEERING)
    front, other = await opened(world, "front", "other")
    for pull in (front, other):
        pull.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    return front, other


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["hotfix", "mends", "allowed"])
async def test_steering_label_set_by_somebody_who_may_not_queue_changes_nothing(world: World, label: str) -> None:
    """Only people who may queue give priority, or pass a red base or a freeze. A triager's label costs one request."""
    _, other = await steered(world)
    before, asked = await world.entries(), world.requests(PERMISSION)
    other.label(label, by="tria")
    await world.settle()
    after = await world.entries()
    assert [(e.number, e.status) for e in after] == [(e.number, e.status) for e in before]
    assert not any((e.hotfix, e.preempts, e.fixes_base, e.freeze_exempt) != (False,) * 4 for e in after)
    assert world.requests(PERMISSION) == asked + 1
    other.label("documentation", by="tria")
    await world.settle()
    assert world.requests(PERMISSION) == asked + 1, "nobody is asked about who sets a label that gives nothing"


@pytest.mark.thorough
async def test_steering_labels_of_somebody_who_may_not_queue_cost_a_few_requests(world: World) -> None:
    """A triager who toggles a label is not asked about any more after a few times; others are, at once."""
    front, other = await steered(world)
    before, asked = world.requests(), world.requests(PERMISSION)
    for _ in range(20):
        other.label("hotfix", by="tria")
        await world.settle()
        other.unlabel("hotfix", by="tria")
        await world.settle()
    assert world.requests(PERMISSION) - asked <= 4
    assert world.requests() - before <= 12
    other.label("hotfix", by="hubot")
    await world.settle()
    assert [e.number for e in await world.entries()] == [other.number, front.number]


async def test_steering_label_counts_once_somebody_who_may_queue_sets_it(world: World) -> None:
    """The triager's label was ignored; removed and set again by a person who may queue, the entry goes first."""
    front, other = await steered(world)
    other.label("hotfix", by="tria")
    await world.settle()
    other.unlabel("hotfix", by="hubot")
    other.label("hotfix", by="hubot")
    await world.settle()
    assert [e.number for e in await world.entries()] == [other.number, front.number]


@pytest.mark.thorough
async def test_steering_label_taken_off_by_somebody_who_may_not_queue_changes_nothing(world: World) -> None:
    """Who queued it vouched for its hotfix label, which a triager does not take back."""
    await configure(world, STEERING)
    front, hotfix = await opened(world, "front", "hotfix")
    front.label(LABEL, by="mona")
    await world.until_status(front, "updating")
    hotfix.label("hotfix", by="tria")
    hotfix.label(LABEL, by="mona")
    await world.settle()
    hotfix.unlabel("hotfix", by="tria")
    await world.settle()
    entry = await world.entry(hotfix)
    assert entry is not None
    assert (entry.hotfix, entry.preempts, entry.priority) == (True, True, 1)


@pytest.mark.parametrize("by", ["a command", "a label", "a triager's label"])
async def test_priority_given_while_it_waits_counts_when_it_joins_if_its_sender_may_give_it(
    world: World, by: str
) -> None:
    """P3: it overtakes those that wait, and not the front."""
    await configure(world, RULES)
    pull = await early(world, options=DRAFT)
    if by == "a command":
        pull.comment("/queue priority=high", by="rhea")
    else:
        pull.label("urgent", by="mona" if by == "a label" else "tria")
    await world.settle()
    front, second = await world.behind("front"), world.open("second")
    for each in (front, second):
        each.label(LABEL, by="mona")
        await world.settle()
    pull.ready_for_review(by="mona")
    await world.until(lambda: second.merged, within=CI_TIME * 12)
    first, last = (second, pull) if "triager" in by else (pull, second)
    await world.until(lambda: last.merged)
    assert world.landed() == [front.number, first.number, last.number]
