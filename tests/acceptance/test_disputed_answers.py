"""Where sources disagree about GitHub, or none was found: IMQ lands and refuses alike with either answer."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault, Job, Signature
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
BOTH = pytest.mark.parametrize(
    "other", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["as_believed", "the_other_answer"]
)
"""All other scenarios have the answer that is believed."""


async def _queue(world: World, pull: Any) -> None:
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged or LABEL not in pull.labels, within=CI_TIME * 3)


@pytest.mark.thorough
async def test_approval_counts_by_permission_whatever_github_calls_its_author(world: World) -> None:
    """P4: a private member's approval counts (coder #24299), a reader's does not, where only IMQ counts them."""
    await configure(world, "when_not_ready: refuse\n")
    world.repository.record.owner.kind = "Organization"
    world.repository.record.collaborators["ruth"] = "read"
    world.github.create_user("ruth")
    world.github.behaviour.private_members = True
    world.repository.add_ruleset("main", update=True, required_approvals=1, bypass=["imq"], by="rhea")
    pull = world.open("add")
    pull.review("APPROVED", by="ruth")
    await world.pass_time(CI_TIME * 2)
    await _queue(world, pull)
    assert (pull.merged, await world.reasons(pull)) == (False, ["approval_missing"])
    pull.review("APPROVED", by="hubot")
    await _queue(world, pull)
    assert pull.merged
    sent = [one.payload for one in world.github.state.deliveries if one.event == "pull_request_review"]
    assert len(sent) == 2
    assert all('"author_association":"NONE"' in payload for payload in sent)


@pytest.mark.thorough
@BOTH
async def test_dismissed_approval_does_not_count_whether_it_is_listed_or_not(world: World, other: bool) -> None:
    """P4: nor does GitHub's decision on a weaker protection stand for the ruleset that IMQ may bypass."""
    await configure(world, "when_not_ready: refuse\n")
    world.github.behaviour.dismissed_reviews_listed = other
    world.github.behaviour.decision_of_rulesets = False
    world.repository.protect("main", required_checks=["ci/test"], required_approvals=1)
    world.repository.add_ruleset("two", required_approvals=2, bypass=["imq"], by="rhea")
    pull = world.open("add")
    pull.review("APPROVED", by="rhea")
    taken_back = pull.review("APPROVED", by="hubot")
    pull.dismiss_review(taken_back, by="rhea")
    await world.pass_time(CI_TIME * 2)
    await _queue(world, pull)
    assert (pull.merged, await world.reasons(pull)) == (False, ["approval_missing"])
    pull.review("APPROVED", by="hubot")
    await _queue(world, pull)
    assert pull.merged


async def land_with_required_workflow(world: World, job: Job, *, within: timedelta) -> None:
    """Require a workflow of this job, queue a pull request, and assert that it lands in this time."""
    world.repository.add_workflow("Scan", jobs=[job], on=["pull_request"], path=".github/workflows/scan.yml")
    world.repository.add_ruleset("scans", workflows=[".github/workflows/scan.yml"], by="rhea")
    pull = world.open("add")
    await world.pass_time(timedelta(seconds=30))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged or LABEL not in pull.labels, within=within)
    assert (pull.merged, await world.reasons(pull)) == (True, [])


@pytest.mark.thorough
@BOTH
async def test_required_workflow_is_waited_for_in_whatever_words_github_misses_it(world: World, other: bool) -> None:
    """P5: the workflow runs for half an hour after every required check has passed; it ejects no entry."""
    world.github.behaviour.workflows_worded_as_checks = not other
    await land_with_required_workflow(world, Job("scan", timedelta(minutes=30)), within=timedelta(hours=1))
    assert world.requests(MERGE) <= 15


@BOTH
@pytest.mark.long
async def test_required_workflow_that_waits_a_day_for_a_runner_ejects_no_pull_request(
    world: World, other: bool
) -> None:
    """P5: its time limit counts from the start of its job."""
    world.github.behaviour.workflows_worded_as_checks = not other
    late = Job("scan", timedelta(minutes=30), waits=timedelta(hours=20))
    await land_with_required_workflow(world, late, within=timedelta(hours=22))


@pytest.mark.thorough
async def test_rights_are_known_where_github_shows_them_only_to_tokens_that_may_push(world: World) -> None:
    """P4: rultor #1407 met this answer, aenix-io/aeman #161 the other one, which all other scenarios have."""
    world.repository.record.private = True
    world.github.behaviour.permissions_need_push = world.github.behaviour.merge_settings_need_push = True
    world.repository.record.collaborators["ruth"] = "triage"
    world.github.create_user("ruth")
    pull, refused = world.open("add"), world.open("other")
    await world.pass_time(CI_TIME * 2)
    refused.label(LABEL, by="ruth")
    await _queue(world, pull)
    assert (pull.merged, refused.merged) == (True, False)
    assert await world.reasons(refused) == ["label_without_right"]


async def test_comment_that_may_not_be_deleted_does_not_prevent_the_next_one(world: World) -> None:
    """P5: the old comment stays, and each new one is written all the same."""
    await configure(world, "when_not_ready: refuse\n")
    world.github.behaviour.deletions_need_issues = True
    world.grant("issues", "read")
    pull = world.open("red", files={"limits.txt": "99\n"})
    await world.pass_time(CI_TIME * 2)
    for _ in range(3):
        await _queue(world, pull)
        await world.pass_time(timedelta(minutes=1))
    assert await world.reasons(pull) == ["checks_failed"] * 3
    sent = [comment.body for comment in pull.comments]
    assert "ci/test" in sent[-1]
    assert len(sent) == 3
    pull.push({"limits.txt": "1\n"}, by="mona")
    await _queue(world, pull)
    await world.settle()
    assert pull.merged
    assert "Landed" in pull.comments[-1].body


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("late", [0, 2])
async def test_base_that_moves_in_the_moment_of_a_merge_costs_one_update_however_github_refuses(
    world: World, other: bool, late: int
) -> None:
    """P1, P5: "Head branch is out of date" is no refusal by rules; strict protection or not, the base stays green."""
    world.github.behaviour.outdated_heads_named = other
    world.server.lag.set(timedelta(seconds=late))
    world.repository.protect("main", required_checks=["ci/test"], strict=True)
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    world.meanwhile(MERGE, lambda: world.repository.push("main", {"hand.py": "1\n"}, "By hand", by="rhea"))
    await _queue(world, pull)
    assert (pull.merged, await world.reasons(pull)) == (True, [])
    assert (world.requests(MERGE), world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/update-branch")) == (2, 1)


@pytest.mark.thorough
@BOTH
async def test_commits_of_people_without_account_land_however_github_shows_them(world: World, other: bool) -> None:
    """P5: neither the base's tip nor the head hold up a queue; GitHub shows no account as null or as `{}`."""
    world.github.behaviour.unknown_authors_empty = other
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    for branch in ("main", "add"):
        git, tip = world.repository.record.git, world.repository.sha(branch)
        unnamed = Signature("Nobody", "nobody@example.org", world.clock.now())
        tree = git.write_tree(tip, {f"{branch}.py": "from a mail\n"})
        world.repository.push_commit(branch, git.write_commit(tree, (tip,), "Apply", unnamed), by="rhea")
    await world.pass_time(CI_TIME * 2)
    await _queue(world, pull)
    assert (pull.merged, await world.reasons(pull)) == (True, [])


@BOTH
async def test_push_is_noticed_whether_or_not_it_renews_updated_at(world: World, other: bool) -> None:
    """P1, P4: IMQ's own update lands, and a stranger's push ends the consent, with reads that lag."""
    world.github.behaviour.pushes_touch_pulls = not other
    world.server.lag.set(timedelta(seconds=2))
    pull, pushed = await world.behind("add"), world.open("pushed")
    for each in (pull, pushed):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    pushed.push({"more.py": "more\n"}, by="hubot")
    await world.until(lambda: pull.merged and LABEL not in pushed.labels, within=CI_TIME * 3)
    assert await world.reasons(pushed) == ["head_changed"]
    assert not pushed.merged


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("switch", "answer"),
    [
        ("merge_settings_in_pulls", True),
        ("etags_of_tokens", False),
        ("graphql_limit_type", "RATE_LIMITED"),
        ("collaborators_shown", False),
        ("merge_settings_need_push", False),
        ("methods_worded_as_settings", False),
        ("apps_bypass_updates", False),
        ("app_commits_signed", False),
        ("merge_async", True),
        ("stack_null", True),
    ],
)
async def test_green_lands_and_red_leaves_with_the_other_answer(world: World, switch: str, answer: Any) -> None:
    """P1, P5: each answer of GitHub that no other scenario gives, where only squashes are allowed."""
    await configure(world, "when_not_ready: refuse\n")
    behaviour = world.github.behaviour
    behaviour.stacks = "registered" if switch == "stack_null" else behaviour.stacks
    setattr(behaviour, switch, answer)
    world.repository.record.allow_merge_commit = False
    green, red = await world.behind("add"), world.open("red", files={"limits.txt": "99\n"})
    await world.pass_time(CI_TIME * 2)
    if switch == "graphql_limit_type":
        world.server.faults.add(Fault(kind="rate_limit", method="POST", route="/graphql"))
    if switch == "methods_worded_as_settings":
        world.repository.record.allow_squash_merge = False
        world.repository.add_ruleset("main", allowed_methods=["rebase"], by="rhea")
    for each in (green, red):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: green.merged and LABEL not in red.labels, within=timedelta(hours=3))
    assert (await world.reasons(green), await world.reasons(red)) == ([], ["checks_failed"])
    assert not red.merged
