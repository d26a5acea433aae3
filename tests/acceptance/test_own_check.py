"""IMQ's own check is required: only IMQ merges."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import ApiError, Fault
from tests.acceptance.world import CI_TIME, LABEL, World

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
ROUTE = MERGE.split()[1]
CREATE = "POST /repos/{owner}/{repo}/check-runs"
CHANGE = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"
MINUTE = timedelta(minutes=1)


def require(world: World, *, strict: bool = True) -> None:
    """A maintainer requires the tests and IMQ's check of IMQ's App, up to date with the base."""
    checks = [("ci/test", world.app_id("ci")), ("IMQ", world.app.id)]
    world.repository.protect("main", required_checks=checks, strict=strict, by="rhea")


def button_is_closed(pull: Any) -> bool:
    """Whether GitHub refuses to merge when somebody with write permission tries to."""
    try:
        pull.merge(by="hubot")
    except ApiError:
        return True
    return False


def own(pull: Any) -> list[tuple[str, str | None]]:
    """The states of IMQ's check runs on the pull request's head, oldest first."""
    return [(run.status, run.conclusion) for run in reversed(pull.check_runs) if run.name == "IMQ"]


async def ready(world: World, name: str) -> Any:
    """A pull request whose checks have passed, and its base requires IMQ's check."""
    require(world)
    pull = world.open(name)
    await world.pass_time(CI_TIME * 2)
    return pull


@pytest.mark.thorough
@pytest.mark.lagging
async def test_only_imq_merges_where_its_check_is_required(world: World) -> None:
    """P1: never queued, waiting, updating and checking, GitHub refuses; IMQ merges the tested head and no one else."""
    require(world)
    pull, second = await world.behind("front"), await world.behind("second")
    assert button_is_closed(pull)
    for each in (pull, second):
        each.label(LABEL, by="mona")
        await world.settle()
    assert button_is_closed(pull)
    await world.until_status(pull, "checking")
    assert button_is_closed(pull)
    assert button_is_closed(second)
    await world.until(lambda: pull.merged and second.merged, within=CI_TIME * 8)
    await world.settle()
    assert {each.record.merged_by.login for each in (pull, second)} == {"imq[bot]"}
    assert world.landed() == [pull.number, second.number]
    assert own(pull)[-1] == own(second)[-1] == ("completed", "success")
    assert len(world.server.requests.of(MERGE)) == 2
    assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_green_and_up_to_date_pull_request_costs_three_requests_more(world: World) -> None:
    """P7: one write lets the check pass, and the facts that a merge needs are read again after that."""
    plain = world.open("plain")
    await world.pass_time(CI_TIME * 2)
    before = world.requests()
    plain.label(LABEL, by="mona")
    await world.until(lambda: plain.merged, within=MINUTE)
    await world.settle()
    cost = world.requests() - before
    required = await ready(world, "required")
    required.label(LABEL, by="mona")
    await world.settle()
    await world.until(lambda: required.merged, within=CI_TIME * 2)
    await world.settle()
    other = await ready(world, "other")
    before = world.requests()
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=CI_TIME * 2)
    await world.settle()
    assert world.requests() - before <= cost + 6


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("act", ["unlabel", "draft", "close"])
async def test_check_of_a_pull_request_that_left_the_queue_keeps_the_button_closed(world: World, act: str) -> None:
    """GitHub counts a neutral check as passed, so IMQ's check ends as cancelled where the branch requires it."""
    require(world)
    pull = await world.behind("leaving")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=10))
    if act == "unlabel":
        pull.unlabel(LABEL, by="mona")
    else:
        getattr(pull, {"draft": "convert_to_draft", "close": "close"}[act])(by="mona")
    await world.pass_time(CI_TIME * 2)
    assert await world.status(pull) is None
    assert own(pull)[-1] == ("completed", "cancelled")
    if act == "close":
        pull.reopen(by="mona")
    if act == "draft":
        pull.ready_for_review(by="mona")
    await world.settle()
    assert button_is_closed(pull)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.lagging
async def test_refused_merge_takes_the_pass_back_until_the_next_try(world: World) -> None:
    """P1: while IMQ waits to try again, no one else can merge that head."""
    pull = await ready(world, "refused")
    refusals = world.server.faults.add(Fault(kind="fail", method="PUT", route=ROUTE, status=405, times=2))
    pull.label(LABEL, by="mona")
    await world.until(lambda: refusals.hits == 1, within=MINUTE)
    await world.pass_time(timedelta(seconds=1))
    assert own(pull)[-1][0] != "completed"
    assert button_is_closed(pull)
    await world.until(lambda: pull.merged, within=timedelta(minutes=10))
    await world.settle()
    assert own(pull)[-1] == ("completed", "success")


@pytest.mark.thorough
@pytest.mark.lagging
async def test_merge_with_a_lost_answer_is_verified_first(world: World) -> None:
    """P2: GitHub merged and the answer was lost: it is merged once, and its check ends green."""
    pull = await ready(world, "lost")
    world.server.faults.add(Fault(kind="apply_then_reset", method="PUT", route=ROUTE))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=MINUTE)
    await world.pass_time(MINUTE)
    assert await world.entries() == ()
    assert own(pull)[-1] == ("completed", "success")
    assert len(world.server.requests.of(MERGE)) == 1
    assert "Landed" in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_merge_that_never_arrived_is_sent_again(world: World) -> None:
    """P2: the answer was lost and nothing was merged: IMQ finds that out, and merges once."""
    pull = await ready(world, "again")
    world.server.faults.add(Fault(kind="reset", method="PUT", route=ROUTE))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=5))
    await world.settle()
    assert own(pull)[-1] == ("completed", "success")


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.thorough("unlabel", "pause")
@pytest.mark.parametrize("meanwhile", ["nothing", "unlabel", "push", "pause"])
async def test_process_that_dies_between_pass_and_merge_merges_or_takes_the_pass_back(
    world: World, meanwhile: str
) -> None:
    """P2: after the restart IMQ merges the tested head; if it may not, its check does not pass any longer."""
    pull = await ready(world, "killed")
    died = world.server.faults.add(Fault(kind="reset", method="POST", route="/graphql", when=lambda _: passes(pull)))
    pull.label(LABEL, by="mona")
    await world.until(lambda: passes(pull), within=MINUTE)
    await world.kill()
    world.server.faults.clear()
    assert not pull.merged
    if meanwhile == "unlabel":
        pull.unlabel(LABEL, by="mona")
    elif meanwhile == "push":
        world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
        assert button_is_closed(pull)
    await world.restart()
    if meanwhile == "pause":
        pull.comment("/pause lunch", by="rhea")
    await world.pass_time(MINUTE)
    if meanwhile == "nothing":
        assert pull.merged
    elif meanwhile == "pause":
        assert pull.merged or own(pull)[-1][0] == "queued"
    else:
        assert not pull.merged
        assert not passes(pull)
        assert button_is_closed(pull)
    assert died is not None


def passes(pull: Any) -> bool:
    """Whether IMQ's check passes on the head, while the pull request is open."""
    return bool(own(pull)) and own(pull)[-1] == ("completed", "success")


@pytest.mark.thorough
@pytest.mark.lagging
async def test_person_who_merges_while_the_check_passes_merges_the_tested_head(world: World) -> None:
    """P1: that lands exactly what IMQ tested; IMQ counts it as merged by a person."""
    pull = await ready(world, "front")
    second = world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.meanwhile(MERGE, lambda: pull.merge(by="hubot"))
    for each in (pull, second):
        each.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=CI_TIME * 4)
    await world.settle()
    assert pull.record.merged_by.login == "hubot"
    assert world.landed() == [pull.number, second.number]
    assert await world.paused() is None


@pytest.mark.lagging
async def test_check_that_githubs_merge_does_not_know_yet_is_given_time(world: World) -> None:
    """GitHub's merge may read an older state: IMQ asks again, and does not take the pass back meanwhile."""
    pull = await ready(world, "late")
    text = 'Required status check "IMQ" is expected.'
    late = Fault(kind="fail", method="PUT", route=ROUTE, status=405, body={"message": text}, times=2)
    world.server.faults.add(late)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(minutes=2))
    await world.settle()
    assert late.hits == 2
    assert own(pull).count(("completed", "success")) == 2
    assert len(own(pull)) == 2


@pytest.mark.thorough
@pytest.mark.lagging
async def test_rule_that_comes_while_a_pull_request_is_checked_counts(world: World) -> None:
    """The rule is as new as the last read of it: IMQ lets its check pass before the merge all the same."""
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    require(world)
    await world.settle()
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.lagging
async def test_check_that_cannot_be_written_is_no_hostage(world: World) -> None:
    """P5: without the permission to write checks the pull request leaves, and its comment names the permission."""
    pull, second = await ready(world, "front"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.grant("checks", "read")
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(hours=2))
    assert await world.reasons(pull) == ["permission_missing"]
    assert not second.merged


@pytest.mark.thorough
@pytest.mark.lagging
async def test_status_of_that_name_by_somebody_else_opens_nothing(world: World) -> None:
    """The rule names IMQ's App as the source, so a commit status by a person does not count."""
    pull = await ready(world, "forged")
    actor = world.github.actor("hubot")
    world.github.checks.create_status(
        world.repository.record, pull.head_sha, actor=actor, state="success", context="IMQ"
    )
    assert button_is_closed(pull)
