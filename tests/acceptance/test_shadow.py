"""Shadow mode: IMQ judges everything beside the present way of merging, and writes nothing on GitHub."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import CISettings
from queue_engine.domain.facts import CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowOutcome
from queue_engine.handlers import reconciler
from tests.acceptance.shadow_mode import SHADOW, configure, decision, landing, shadowed
from tests.acceptance.test_label_early_checks import rerun
from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.thorough
async def test_label_of_an_up_to_date_pull_request_would_be_merged_at_once(shadow: World) -> None:
    """Its checks have passed on the base's tip: IMQ would merge at once, and a person does half an hour later."""
    pull = shadow.open("green")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.method, found.at) == (ShadowOutcome.MERGED, "merge", shadow.clock.now())
    assert not pull.merged
    assert pull.labels == [LABEL]
    await shadow.pass_time(timedelta(minutes=30))
    pull.merge(by="mona")
    await shadow.settle()
    assert await decision(shadow, pull) == found
    assert (await landing(shadow, pull)).at - found.at >= timedelta(minutes=30)


@pytest.mark.thorough
async def test_label_while_checks_run_would_be_merged_when_they_pass(shadow: World) -> None:
    """The last required check makes the decision, as it would in a queue."""
    pull = shadow.open("slow")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.checks) == (ShadowOutcome.WAITING, ("ci/test",))
    queued = shadow.clock.now()
    await shadow.pass_time(CI_TIME * 2)
    found = await decision(shadow, pull)
    assert found.outcome is ShadowOutcome.MERGED
    assert found.at - queued < CI_TIME + timedelta(minutes=1)


@pytest.mark.thorough
async def test_behind_its_base_the_landing_is_predicted_until_somebody_updates_the_branch(shadow: World) -> None:
    """IMQ may not update the branch: it predicts by the checks of the head, and continues after a person's update."""
    pull = await shadow.behind("old")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert found.outcome is ShadowOutcome.UPDATING
    assert found.predicted_at is not None
    assert timedelta(minutes=2) < found.predicted_at - found.at < timedelta(minutes=4)
    await shadow.pass_time(timedelta(hours=1))
    assert await decision(shadow, pull) == found
    pull.update_branch(by="mona")
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


@pytest.mark.thorough
async def test_failing_check_would_eject(shadow: World) -> None:
    """As in a queue, after a comparison with the base."""
    pull = shadow.open("red", files={"limits.txt": "99\n"})
    pull.label(LABEL, by="mona")
    await shadow.pass_time(CI_TIME * 2)
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason, found.checks) == (ShadowOutcome.DEQUEUED, Reason.CHECKS_FAILED, ("ci/test",))


async def test_check_that_failed_before_the_label_would_be_waited_for(shadow: World) -> None:
    """A rerun that passes decides, as it would let the pull request join its queue."""
    unit = shadow.repository.add_ci("unit", CISettings(duration=CI_TIME))
    shadow.repository.protect("main", required_checks=["ci/test", "unit"])
    unit.plan = ("failure",)
    pull = shadow.open("flaky")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason, found.checks) == (ShadowOutcome.WAITING, Reason.CHECKS_FAILED, ("unit",))
    unit.plan = ()
    rerun(shadow, pull)
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


async def test_label_without_right_would_be_rejected_once(shadow: World) -> None:
    """A triager's label queues nothing; to set it again at once costs no judgement."""
    pull = shadow.open("change")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="tria")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.REJECTED, Reason.LABEL_WITHOUT_RIGHT)
    asked = len(shadow.server.requests)
    pull.unlabel(LABEL, by="tria")
    pull.label(LABEL, by="tria")
    await shadow.settle()
    assert len(shadow.server.requests) == asked
    pull.unlabel(LABEL, by="mona")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


async def test_withdrawn_consent_would_dequeue(shadow: World) -> None:
    """P4 holds for the would-be entry: a removed label, a push, a draft and a close count."""
    acts: dict[Reason, Callable[[Any], object]] = {
        Reason.LABEL_REMOVED: lambda pull: pull.unlabel(LABEL, by="mona"),
        Reason.HEAD_CHANGED: lambda pull: pull.push({"more.py": "more\n"}, by="mona"),
        Reason.DRAFT: lambda pull: pull.convert_to_draft(by="mona"),
        Reason.CLOSED: lambda pull: pull.close(by="mona"),
    }
    pulls = {reason: shadow.open(reason.value) for reason in acts}
    await shadow.settle()
    for pull in pulls.values():
        pull.label(LABEL, by="mona")
    await shadow.settle()
    assert {(await decision(shadow, pull)).outcome for pull in pulls.values()} == {ShadowOutcome.WAITING}
    for reason, act in acts.items():
        act(pulls[reason])
    await shadow.settle()
    for reason, pull in pulls.items():
        found = await decision(shadow, pull)
        assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, reason)


async def test_push_that_queues_again_continues_with_the_new_head(shadow: World) -> None:
    """As the configuration asks, from the push of a person who may queue."""
    await configure(shadow, SHADOW + "on_push: requeue\n")
    pull = shadow.open("again")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    pull.push({"more.py": "more\n"}, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED
    assert (await shadowed(shadow, pull)).head_sha == pull.head_sha


@pytest.mark.thorough
async def test_merge_by_hand_of_a_green_and_current_head_is_one_that_imq_would_have_made(shadow: World) -> None:
    """It has no label. IMQ judges the head that landed, and what checks say of the base afterwards."""
    pull = shadow.open("sound")
    await shadow.pass_time(CI_TIME * 2)
    pull.review("APPROVED", by="hubot")
    await shadow.pass_time(timedelta(minutes=10))
    pull.merge(by="mona")
    await shadow.pass_time(CI_TIME * 2)
    found = await landing(shadow, pull)
    assert (found.by, found.reason, found.checks, found.tree_tested) == ("mona", None, CheckState.PASSED, True)
    assert found.approved_at is not None
    assert timedelta(minutes=9) < found.at - found.approved_at < timedelta(minutes=11)
    assert (found.base, found.base_checks) == (BaseState.GREEN, ())
    assert (await shadowed(shadow, pull)).decision is None


@pytest.mark.lagging
async def test_merges_that_pass_alone_but_break_together_are_named(shadow: World) -> None:
    """The conflict that a queue prevents: both heads are green, the second tree was never tested, the base is red."""
    pulls = [shadow.open(name, files={f"{name}.txt": "6\n"}) for name in ("one", "two")]
    await shadow.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.merge(by="rhea")
        await shadow.pass_time(CI_TIME * 2)
    first, second = [await landing(shadow, pull) for pull in pulls]
    assert (first.tree_tested, first.base) == (True, BaseState.GREEN)
    assert (second.checks, second.tree_tested, second.base) == (CheckState.PASSED, False, BaseState.RED)
    assert (second.base_checks, second.red_before) == (("ci/test",), False)
    assert (await landing(shadow, pulls[0])).before != second.before


@pytest.mark.thorough
async def test_merge_by_hand_with_unfinished_checks_is_named(shadow: World) -> None:
    """An administrator may merge past required checks; the checks that pass a minute later do not count."""
    pull = shadow.open("hasty")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    pull.merge(by="rhea")
    await shadow.pass_time(CI_TIME * 2)
    found = await landing(shadow, pull)
    assert (found.by, found.checks, found.not_passed) == ("rhea", CheckState.PENDING, ("ci/test",))
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING


@pytest.mark.parametrize("few", [25, 0], ids=["small installation", "large installation"])
async def test_merge_whose_webhook_was_lost_is_judged_by_a_poll(
    shadow: World, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMQ does not know then who merged. Afterwards no open pull request has a label."""
    monkeypatch.setattr(reconciler, "FEW", few)
    pull = shadow.open("silent")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    pull.merge(by="rhea", webhook=False)
    await shadow.pass_time(timedelta(minutes=30))
    assert (await landing(shadow, pull)).by is None
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING


async def test_changed_configuration_counts_for_the_pull_requests_that_wait(shadow: World) -> None:
    """A label that blocks from now on dequeues the would-be entry."""
    pull = shadow.open("blocked")
    pull.label("needs design", by="mona")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    await configure(shadow, SHADOW + "blocking: {labels: needs design}\n")
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, Reason.BLOCKED_BY_LABEL)


async def test_dismissed_approval_would_dequeue(shadow: World) -> None:
    """The required approval counts until somebody takes it back."""
    shadow.repository.protect("main", required_checks=["ci/test"], required_approvals=1, by="rhea")
    pull = shadow.open("approved")
    review = pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    pull.dismiss_review(review, by="rhea")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, Reason.APPROVAL_MISSING)


async def test_label_that_blocks_counts_for_a_pull_request_that_waits(shadow: World) -> None:
    """Any label may change what IMQ would do, not the trigger label alone."""
    await configure(shadow, SHADOW + "blocking: {labels: needs design}\n")
    pull = shadow.open("blocked")
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    pull.label("needs design", by="hubot")
    await shadow.settle()
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, Reason.BLOCKED_BY_LABEL)


@pytest.mark.thorough
async def test_label_whose_webhook_was_lost_is_judged_by_the_sweep(shadow: World) -> None:
    """As in a queue, GitHub has to prove that no push followed."""
    pull = shadow.open("lost")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona", webhook=False)
    await shadow.pass_time(timedelta(minutes=15))
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED


@pytest.mark.thorough
async def test_label_that_a_push_followed_would_be_rejected_when_both_webhooks_were_lost(shadow: World) -> None:
    """Consent was to another head, so the report counts no merge of the pushed one (P4)."""
    pull = shadow.open("pushed")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona", webhook=False)
    await shadow.pass_time(timedelta(seconds=10))
    pull.push({"more.py": "more\n"}, "More", by="hubot", webhook=False)
    await shadow.pass_time(timedelta(minutes=30))
    found = await decision(shadow, pull)
    assert (found.outcome, found.reason) == (ShadowOutcome.REJECTED, Reason.LABEL_NOT_RECEIVED)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_base_that_moves_while_checks_run_would_need_an_update(shadow: World) -> None:
    """The checks that run then test an old base: IMQ says so at once, and counts no merge of that head (P1)."""
    pull = shadow.open("overtaken")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    shadow.repository.push("main", {"other.txt": "1\n"}, "Overtake", by="rhea")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.UPDATING
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.UPDATING


@pytest.mark.parametrize("status", ["waits", "is tested"])
async def test_rebase_by_a_named_bot_continues_with_its_new_head(shadow: World, status: str) -> None:
    """As in a queue, whose bot rebases its own pull request: IMQ would test the new head, and merge it."""
    await configure(shadow, SHADOW + 'on_push: {requeue_for: ["robot[bot]"]}\n')
    pull = shadow.open("bump", by="robot[bot]")
    if status == "waits":
        shadow.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    pull.label(LABEL, by="mona")
    await shadow.pass_time(CI_TIME / 2)
    shadow.repository.push("main", {"past.py": "moved again\n"}, "Move the base again", by="rhea")
    await shadow.settle()
    shadow.repository.force_push("bump", {"bump.py": "newer\n"}, onto="main", by="robot[bot]")
    await shadow.settle()
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.WAITING
    await shadow.pass_time(CI_TIME * 2)
    found = await shadowed(shadow, pull)
    assert (found.decision and found.decision.outcome, found.head_sha) == (ShadowOutcome.MERGED, pull.head_sha)
    assert found.queued_by == "mona"
