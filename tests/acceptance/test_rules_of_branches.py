"""What rules of branches ask for beside checks: each has its own reason, and its own next step helps."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import ReviewRule
from tests.acceptance.branch_rules import CASES, Case, guard, rule
from tests.acceptance.choosing import configure, green
from tests.acceptance.world import CI_TIME, LABEL, World

REVIEWS = "GET /repos/{owner}/{repo}/pulls/{number}/reviews"
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
REPEATED = ("changes requested, ruleset", "signatures, classic", "linear history, classic")
"""Cases whose reason another one has, and whose rule `test_branch_rules.py` reads: the long gate runs them."""


async def rejected(world: World, pull: Any) -> tuple[str, str]:
    """Label a pull request that leaves without landing: why, and what its comment says."""
    before = len(await world.reasons(pull))
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=2))
    await world.settle()
    assert not pull.merged
    (reason,) = (await world.reasons(pull))[before:]
    return reason, world.comment(pull)


async def lands(world: World, pull: Any) -> None:
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=30))


async def reported_and_fixed(world: World, case: Case, *, words: str, merges_asked: int) -> None:
    """It is rejected by so many merge calls, with its reason and these words, and lands when that is fixed."""
    case.rules(world, None)
    pull = await green(world)
    case.wrong(world, pull)
    await world.pass_time(CI_TIME * 2)
    reason, sentence = await rejected(world, pull)
    assert reason == case.reason
    assert words in sentence
    assert world.requests(MERGE) == merges_asked
    case.remedy(world, pull)
    await lands(world, pull)


@pytest.mark.every_variant(*(name for name in CASES if name not in REPEATED))
@pytest.mark.parametrize("name", CASES)
async def test_rule_of_a_branch_is_reported_with_its_reason_and_met_by_its_next_step(world: World, name: str) -> None:
    """No other entry is delayed (P5): one read or one merge call is enough to name the requirement."""
    await configure(world, "when_not_ready: refuse\n")
    case = CASES[name]
    await reported_and_fixed(world, case, words=case.words, merges_asked=case.merges_asked)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.unread])
async def test_protection_that_the_app_may_not_read_is_reported_by_the_merge_and_met_as_well(
    world: World, name: str
) -> None:
    """An installation may not have granted `administration: read` yet: GitHub enforces its rules all the same."""
    world.grant("administration", None)
    await reported_and_fixed(world, CASES[name], words=CASES[name].unread, merges_asked=1)


@pytest.mark.thorough
@pytest.mark.parametrize("changed", [{"reviews": ReviewRule(1)}, {"lock": True}, {"signatures": True}])
async def test_remembered_rules_reject_no_pull_request(world: World, changed: dict[str, Any]) -> None:
    """The webhook of a milder rule may be lost: before it refuses, admission reads the rules again."""
    await configure(world, "when_not_ready: refuse\n")
    guard(world, **changed)
    pull = await green(world)
    await rejected(world, pull)
    guard(world, webhook=False)
    await lands(world, pull)


@pytest.mark.thorough
async def test_app_that_protection_spares_reviews_lands_without_them(world: World) -> None:
    """ "Allow specified actors to bypass required pull requests": admission requires no more than GitHub does."""
    guard(world, reviews=ReviewRule(1, code_owners=True, spared=["imq"]))
    pull = await green(world)
    await lands(world, pull)
    assert world.requests(REVIEWS) == 0


@pytest.mark.thorough
async def test_protection_costs_one_request_where_it_can_be_read(world: World) -> None:
    """P7: what the branch shows of it is asked for only where there is none, or it may not be read."""
    protection, branch = (f"GET /repos/{{owner}}/{{repo}}/branches/{{branch}}{end}" for end in ("/protection", ""))
    await lands(world, await green(world))
    assert (world.requests(protection), world.requests(branch)) == (1, 0)
    world.repository.unprotect("main", by="rhea")
    await world.settle()
    await lands(world, await green(world, "bare"))
    assert (world.requests(protection), world.requests(branch)) == (2, 1)


async def test_locked_branch_is_reported_at_admission_and_lands_for_an_app_that_may_bypass_it(world: World) -> None:
    """`update` of a ruleset: only actors on its list may merge; "only the queue may" is set up that way."""
    ruleset = world.repository.add_ruleset("closed", update=True, by="rhea")
    pull = await green(world)
    reason, _ = await rejected(world, pull)
    assert (reason, world.requests(MERGE)) == ("branch_locked", 0)
    world.repository.remove_ruleset(ruleset, by="rhea")
    world.repository.add_ruleset("queue only", update=True, bypass=["imq"], by="rhea")
    await world.settle()
    await lands(world, pull)


@pytest.mark.thorough
async def test_method_that_rulesets_leave_is_the_one_that_lands(world: World) -> None:
    """Without a word in the configuration: the first that is allowed everywhere."""
    rule(world, reviews=ReviewRule(0, methods=("squash",)))
    pull = await green(world)
    await lands(world, pull)
    assert len(world.repository.log("main")[0].parents) == 1


@pytest.mark.thorough
async def test_commits_are_asked_for_signatures_only_where_rules_demand_them(world: World) -> None:
    """P7: one request at admission, and none for what lands as a squash, which GitHub signs itself."""
    commits = "GET /repos/{owner}/{repo}/pulls/{number}/commits"
    await lands(world, await green(world, "before"))
    assert world.requests(commits) == 0
    signed = await world.behind("signed")
    rule(world, signatures=True)
    world.bot.engine.github.forget_rules(world.repository.record.id)
    signed.sign()
    signed.label(LABEL, by="mona")
    await world.until(lambda: signed.merged, within=CI_TIME * 2)
    assert world.requests(commits) == 1
    world.repository.record.allow_merge_commit = False
    await lands(world, await green(world, "squashed"))
    assert world.requests(commits) == 1


@pytest.mark.thorough
async def test_reviewer_who_may_not_write_stands_in_nobodys_way(world: World) -> None:
    """GitHub counts change requests of people with write access, and shows the result: no reviews are read."""
    rule(world, reviews=ReviewRule(1))
    pull = world.open("add")
    pull.review("CHANGES_REQUESTED", by="tria")
    pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert world.requests(REVIEWS) == 0


async def test_reviewers_count_by_their_permission_where_github_makes_no_decision(world: World) -> None:
    """Of rulesets GitHub may make none; associations tell nothing of permission."""
    await configure(world, "when_not_ready: refuse\n")
    world.github.behaviour.decision_of_rulesets = False
    rule(world, reviews=ReviewRule(1))
    pull = await green(world)
    pull.review("APPROVED", by="tria")
    reason, sentence = await rejected(world, pull)
    assert (reason, world.requests(MERGE)) == ("approval_missing", 0)
    assert "0 of 1" in sentence
    pull.review("APPROVED", by="hubot")
    await lands(world, pull)
    assert world.requests(REVIEWS) == 0


@pytest.mark.thorough
async def test_reviews_cost_no_request_where_no_rule_requires_them(world: World) -> None:
    """P7: a pull request whose checks still run is blocked, too, and nothing is asked about people."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert world.requests(REVIEWS) == 0


@pytest.mark.parametrize("read", [True, False])
async def test_approval_dismissed_while_queued_is_found_at_once_or_before_the_merge(world: World, read: bool) -> None:
    """Facts may change after admission; GitHub decides at the merge, and people read its reason."""
    if not read:
        world.grant("administration", None)
    guard(world, reviews=ReviewRule(1))
    pull = world.open("add")
    review = pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    pull.dismiss_review(review, by="rhea")
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 2)
    await world.settle()
    assert await world.reasons(pull) == ["approval_missing"]
    assert world.requests(MERGE) == (0 if read else 1)


@pytest.mark.thorough
@pytest.mark.parametrize("opened", [True, False])
async def test_what_people_take_back_while_checks_run_is_found_without_a_webhook_before_the_merge(
    world: World, opened: bool
) -> None:
    """P4: the last snapshot shows a conversation opened, or an approval dismissed; no merge is asked for."""
    world.app.events = frozenset({*world.app.events} - {"pull_request_review", "pull_request_review_thread"})
    guard(world, reviews=ReviewRule(1), required_conversation_resolution=True)
    pull = world.open("add")
    review = pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    if opened:
        pull.open_thread("Really?", by="hubot")
    else:
        pull.dismiss_review(review, by="rhea")
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 2)
    assert await world.reasons(pull) == ["conversations_unresolved" if opened else "approval_missing"]
    assert world.requests(MERGE) == 0
