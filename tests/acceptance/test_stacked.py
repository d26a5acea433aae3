"""Pull requests that are part of a stack: GitHub merges them in the background only, with all that lies below them."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault
from tests.acceptance.choosing import refused
from tests.acceptance.world import CI_TIME, LABEL, World

PULL = "/repos/{owner}/{repo}/pulls/{number}"
MERGE, IN_BACKGROUND, UPDATE = f"PUT {PULL}/merge", f"PUT {PULL}/merge-async", f"PUT {PULL}/update-branch"
RESULT = f"GET {PULL}/merge-async/{{uuid}}"


def stack(world: World, *, offered: bool = True) -> tuple[Any, Any, Any]:
    """Two pull requests and their stack; the first is for `main`, the second for the branch of the first."""
    world.github.behaviour.stacks, world.github.behaviour.merge_async = "registered", offered
    bottom = world.open("bottom")
    top = world.repository.open_pull_request("Top", head="top", base="bottom", by="mona", files={"top.txt": "1\n"})
    return bottom, top, world.repository.stack(bottom, top)


async def green(world: World, **more: Any) -> tuple[Any, Any, Any]:
    """The same, with checks that have passed."""
    formed = stack(world, **more)
    await world.pass_time(CI_TIME * 2)
    return formed


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("updates", [False, True])
async def test_lowest_of_a_stack_is_updated_tested_and_landed_alone(world: World, updates: bool) -> None:
    """P1: whether or not GitHub updates pull requests of a stack; what lies above lands not with it."""
    world.github.behaviour.stacked_updates = updates
    bottom, top, _ = await green(world)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)
    await world.settle()
    assert (top.merged, top.record.base_branch) == (False, "main")
    assert (world.requests(MERGE), world.requests(IN_BACKGROUND)) == (0, 1)
    assert await world.paused() is None
    assert "past.py" in world.repository.files()
    assert LABEL not in bottom.labels
    assert await world.entries() == ()


@pytest.mark.thorough
@pytest.mark.lagging
async def test_slow_merge_in_the_background_is_read_ever_more_rarely(world: World) -> None:
    """P7: no webhook reports the merge."""
    world.github.timings.merge_async = timedelta(minutes=4)
    bottom, _, _ = await green(world)
    world.github.webhooks.faults.drop(None, event="pull_request", action="closed")
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged)
    await world.until(lambda: LABEL not in bottom.labels, within=timedelta(minutes=2))
    assert world.requests(IN_BACKGROUND) == 1
    assert 10 < world.requests(RESULT) < 25


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("kind", ["apply_then_reset", "reset"])
async def test_process_that_dies_while_github_merges_in_the_background_lands_it_once(world: World, kind: Any) -> None:
    """P2: the answer is lost and the process killed; GitHub answers the repetition with the request that it has."""
    world.github.timings.merge_async = timedelta(minutes=2)
    bottom, _, _ = await green(world)
    world.server.faults.add(Fault(kind=kind, method="PUT", route=IN_BACKGROUND.split()[1]))
    bottom.label(LABEL, by="mona")
    await world.until(lambda: world.requests(IN_BACKGROUND) == 1)
    await world.kill()
    await world.restart()
    await world.until(lambda: bottom.merged, within=timedelta(minutes=10))
    await world.settle()
    assert [call.status for call in world.server.requests if call.template == IN_BACKGROUND][1:] == [
        409 if kind == "apply_then_reset" else 202
    ]
    assert await world.paused() is None
    assert world.landed() == [bottom.number]
    assert world.spoken(bottom) == 1


@pytest.mark.lagging
async def test_failed_merge_in_the_background_is_judged_like_any_refusal(world: World) -> None:
    """A push that races the merge cancels it: the new commits are no part of the consent (P4)."""
    world.github.timings.merge_async = timedelta(minutes=2)
    bottom, _, _ = await green(world)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: world.requests(IN_BACKGROUND) == 1)
    bottom.push({"late.py": "late\n"}, by="mona")
    await world.until(lambda: LABEL not in bottom.labels, within=timedelta(minutes=10))
    assert not bottom.merged
    assert await world.reasons(bottom) == ["head_changed"]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_merge_in_the_background_that_never_ends_delays_the_next_one_for_an_hour(world: World) -> None:
    """P5: after an hour the pull request leaves, and the next one lands."""
    world.github.timings.merge_async = timedelta(hours=20)
    bottom, _, _ = await green(world)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: world.requests(IN_BACKGROUND) == 1)
    other = world.open("other")
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=timedelta(hours=2))
    assert await world.reasons(bottom) == ["github_trouble"]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_stack_where_github_offers_no_merge_in_the_background_is_explained(world: World) -> None:
    """The comment says what to do; outside of its stack the pull request lands."""
    bottom, _, formed = await green(world, offered=False)
    reason, sentence = await refused(world, bottom)
    assert reason == "stacked"
    assert "remove the pull request from the stack" in sentence
    world.github.stacks.dissolve(world.repository.record, formed)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("status", [403, 405])
async def test_stack_that_graphql_does_not_show_is_recognised_by_the_refused_merge(world: World, status: int) -> None:
    """A GraphQL schema without stacks, as of an older server: the refusal shows the stack, and REST its base."""
    world.github.behaviour.graphql_stacks = False
    world.github.behaviour.stacked_merge_status = status
    bottom, top, _ = await green(world)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)
    assert (world.requests(MERGE), world.requests(IN_BACKGROUND)) == (1, 1)
    assert not top.merged


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("registered", [True, False])
async def test_pull_request_above_another_one_waits_and_lands_after_it(world: World, registered: bool) -> None:
    """P1, P4: it waits outside the queue of the stack's base, and joins once GitHub has changed its base branch."""
    world.repository.record.delete_branch_on_merge = True
    bottom, top, formed = await green(world)
    if not registered:
        world.github.stacks.dissolve(world.repository.record, formed)
    top.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    assert f"#{bottom.number}" in world.comment(top)
    assert "lands after that one" in world.comment(top)
    assert (LABEL in top.labels, top.merged, world.repository.sha("bottom")) == (True, False, bottom.head_sha)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)
    await world.until(lambda: top.merged, within=CI_TIME * 6)
    await world.settle()
    assert world.landed() == [bottom.number, top.number]
    assert (await world.reasons(top))[0] == "stacked_above"
    assert await world.paused() is None


@pytest.mark.lagging
@pytest.mark.parametrize("registered", [True, False])
async def test_command_for_the_top_of_a_stack_counts_after_the_one_below_has_landed(
    world: World, registered: bool
) -> None:
    """P4: GitHub changes the base branch within minutes of the command, which foresees that."""
    world.repository.record.delete_branch_on_merge = True
    bottom, top, formed = await green(world)
    if not registered:
        world.github.stacks.dissolve(world.repository.record, formed)
    bottom.label(LABEL, by="mona")
    top.comment("/queue", by="mona")
    await world.until(lambda: top.merged, within=CI_TIME * 10)
    assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_stack_of_three_lands_from_the_bottom_up(world: World) -> None:
    """Each waits for the queue of the branch on which the stack lands, whatever its own base branch is."""
    world.repository.record.delete_branch_on_merge = True
    pulls = [world.open("one")]
    for name, base in (("two", "one"), ("three", "two")):
        files = {f"{name}.py": f"{name}\n"}
        pulls.append(world.repository.open_pull_request(name, head=name, base=base, by="mona", files=files))
    await world.pass_time(CI_TIME * 2)
    for pull in reversed(pulls):
        pull.label(LABEL, by="mona")
        await world.settle()
    assert {entry.base_branch for entry in await world.entries()} <= {"main"}
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 20)
    assert world.landed() == [pull.number for pull in pulls]


def stranger_pushes(world: World, top: Any) -> None:
    """Push as somebody who had write permission for that moment."""
    world.repository.record.collaborators["tria"] = "write"
    top.push({"late.py": "late\n"}, by="tria")
    world.repository.record.collaborators["tria"] = "triage"


ENDS: dict[str, tuple[str, Any]] = {
    "base": ("base_changed", lambda _world, _bottom, top: top.edit_base("main", by="mona")),
    "close": ("stack_ended", lambda _world, bottom, _top: bottom.close(by="mona")),
    "push": ("head_changed", lambda world, _bottom, top: stranger_pushes(world, top)),
    "label": ("label_removed", lambda _world, _bottom, top: top.unlabel(LABEL, by="mona")),
}


@pytest.mark.lagging
@pytest.mark.parametrize("way", ENDS)
async def test_wait_for_a_stack_ends_by_any_other_change(world: World, way: str) -> None:
    """P4: consent survives exactly GitHub's change of the base branch after the landing, and nothing else."""
    bottom, top, formed = await green(world)
    world.github.stacks.dissolve(world.repository.record, formed)
    top.label(LABEL, by="mona")
    await world.settle()
    reason, act = ENDS[way]
    act(world, bottom, top)
    await world.until(lambda: LABEL not in top.labels, within=timedelta(minutes=30))
    await world.pass_time(timedelta(hours=1))
    assert not top.merged
    assert (await world.reasons(top))[-1] == reason


@pytest.mark.thorough
@pytest.mark.lagging
async def test_landed_branch_that_is_kept_is_named_with_the_next_step(world: World) -> None:
    """GitHub changes the base branch when the branch is deleted; until then the comment says so."""
    bottom, top, formed = await green(world)
    world.github.stacks.dissolve(world.repository.record, formed)
    top.label(LABEL, by="mona")
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)
    await world.pass_time(timedelta(minutes=2))
    assert "has not changed the base branch" in world.comment(top)
    world.github.pulls.retarget(world.repository.record, "bottom", "main", world.repository._actor("mona"))
    await world.until(lambda: top.merged, within=CI_TIME * 6)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_pull_request_above_another_one_is_refused_where_nothing_waits(world: World) -> None:
    """`when_not_ready: refuse`: the comment names the one that lands first."""
    world.repository.push("main", {".github/imq.yml": "when_not_ready: refuse\n"}, "Configure", by="rhea")
    bottom, top, _ = await green(world)
    reason, sentence = await refused(world, top)
    assert reason == "stacked_above"
    assert f"#{bottom.number}" in sentence


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("ruled", [True, False])
async def test_branch_with_rules_has_a_queue_although_it_is_the_head_of_a_pull_request(
    world: World, ruled: bool
) -> None:
    """`develop`, of which a pull request into `main` is open; a branch without rules and pull request has one, too."""
    world.repository.create_branch("develop", "main")
    if ruled:
        world.repository.push("develop", {"new.py": "new\n"}, "Develop", by="rhea")
        world.repository.protect("develop", required_checks=["ci/test"], by="rhea")
        world.repository.open_pull_request("Release", head="develop", base="main", by="rhea")
    pull = world.open("fix", base="develop")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_pull_request_that_joins_a_stack_above_another_while_queued_lands_nothing_below(world: World) -> None:
    """P1: its merge in the background would land the untested one below it."""
    bottom = world.open("bottom")
    world.repository.protect("bottom", required_checks=["ci/test"], by="rhea")
    top = world.repository.open_pull_request("Top", head="top", base="bottom", by="mona", files={"top.txt": "1\n"})
    top.label(LABEL, by="mona")
    await world.pass_time(CI_TIME / 2)
    assert await world.status(top) == "checking"
    world.github.behaviour.stacks, world.github.behaviour.merge_async = "registered", True
    world.repository.stack(bottom, top)
    await world.until(lambda: LABEL not in top.labels, within=timedelta(hours=1))
    assert (bottom.merged, top.merged) == (False, False)
    assert await world.reasons(top) == ["stacked"]


async def test_label_for_another_base_branch_does_not_wait_for_the_stack_that_the_author_chose_later(
    world: World,
) -> None:
    """P4: the person who queued it for `main` saw no pull request below; the webhook of the label comes late."""
    bottom, upper = world.open("bottom"), world.open("upper")
    await world.pass_time(CI_TIME * 2)
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    upper.label(LABEL, by="mona")
    await world.github.schedule.run_due()
    upper.edit_base(bottom.record.head_branch, by="mona")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.pass_time(timedelta(minutes=30))
    assert (LABEL in upper.labels, await world.reasons(upper)) == (False, ["base_changed"])
