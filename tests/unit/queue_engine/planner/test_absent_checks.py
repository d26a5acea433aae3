"""Required checks that are absent: which may still come, which only this head lacks, and which no commit has."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, CheckState, CheckSuite, CommitFacts, RequiredCheck
from queue_engine.domain.model import Entry, UnmetRequirement
from queue_engine.domain.policy import NotReadyPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.planner.absent_checks import is_as_on_base, judge_absent, leave_for_absent, skipped_by
from queue_engine.planner.actions import (
    Absent,
    Dequeue,
    FactKind,
    HoldBase,
    ReadFact,
    RunContext,
    Unmet,
    Verdict,
    Wait,
)
from queue_engine.planner.decide import decide
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    entry,
    facts_with,
    report,
    rules,
    workflow_run,
)

OLD = CheckSuite("CI", by_actions=False, status="queued", conclusion=None, runs=0, app_id=10, created_at=NOW - HOUR)
ELSEWHERE = CommitFacts("Change", (replace(report("ci"), started_at=NOW - 2 * HOUR),))
FRONT = entry(status=CHECKING)
UPDATE = changed(
    entry(status=CHECKING, head_sha="head-2", updated_from="head-1", status_since=NOW - HOUR), former_checks=("10:ci",)
)


def judged(front: Entry = FRONT, *reports: CheckReport, policy: Any = POLICY, **facts: Any) -> Verdict | None:
    """What is decided of a front whose one required check is `ci`."""
    known = {"rules": rules("ci"), "workflow_runs": (), "suites": (OLD,), "others": ELSEWHERE} | facts
    return judge_absent(front.run, RunContext.of(front), facts_with(reports=reports, **known), policy, NOW)


def test_check_that_only_an_old_head_lacks_lets_its_entry_wait_outside() -> None:
    """P5: a suite of the push says how old the head is, or a report on it."""
    assert judged() == Absent("ci")
    young = replace(OLD, created_at=NOW - 9 * MINUTE)
    waiting = judged(suites=(young,))
    assert isinstance(waiting, Wait)
    assert waiting.until == NOW + MINUTE
    assert isinstance(judged(FRONT, replace(report("lint"), started_at=NOW - HOUR), suites=(young,)), Absent)


@pytest.mark.parametrize(
    ("reports", "facts"),
    [
        ((report("ci"),), {}),
        ((report("ci", CheckState.PENDING),), {}),
        ((replace(report("build", CheckState.PENDING), by_actions=True),), {}),
        ((), {"workflow_runs": (workflow_run(7, status="queued"),)}),
        ((), {"workflow_runs": (workflow_run(7, status="completed", conclusion="action_required"),)}),
        ((), {"rules": rules()}),
    ],
)
def test_check_that_reported_or_may_still_come_is_judged_elsewhere(reports: Any, facts: dict[str, Any]) -> None:
    """A job under way may have others behind it."""
    assert judged(FRONT, *reports, **facts) is None


def test_facts_are_read_only_as_far_as_they_matter() -> None:
    """P7: the runs of the head, its age, then other commits."""
    order = {"workflow_runs": FactKind.WORKFLOW_RUNS, "suites": FactKind.SUITES, "others": FactKind.RECENT_COMMITS}
    for missing, fact in order.items():
        unread: dict[str, Any] = {missing: None}
        assert judged(**unread) == ReadFact(fact)


def test_check_that_no_commit_has_is_no_reason_to_let_the_entry_leave() -> None:
    """P5: the queue's own blocker; unless IMQ has measured it before."""
    never = judged(others=CommitFacts("", (report("lint"),)))
    assert isinstance(never, Wait)
    assert never.never == "ci"
    measured = changed(FRONT, check_limits={"ci": 600})
    assert isinstance(judged(measured, others=CommitFacts("", ())), Absent)


def test_name_from_another_app_names_both() -> None:
    """Also where the wrong App has always reported it."""
    bound, wrong = rules(RequiredCheck("ci", 10)), replace(report("ci"), app_id=11)
    suites = (OLD, replace(OLD, app="Other", app_id=11))
    both = "ci (required from CI, reported by Other)"
    assert judged(FRONT, wrong, rules=bound, suites=suites) == Absent(both)
    never = judged(
        changed(FRONT, check_limits={"ci": 600}), wrong, rules=bound, suites=suites, others=CommitFacts("", (wrong,))
    )
    assert isinstance(never, Wait)
    assert never.never == both


def test_word_in_the_message_is_named() -> None:
    """GitHub skips the workflows of such a head."""
    found = judged(others=CommitFacts("Docs [Skip CI]", (report("ci"),)))
    assert found == Absent("ci: the message of the head has [skip ci]")


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("Change", None),
        ("Skip ci", None),
        ("A [no ci]", "[no ci]"),
        ("A\n\n\nskip-checks: true", "skip-checks: true"),
        ("A\n\n\nskip-checks:true\n", "skip-checks: true"),
        ("A\r\n\r\n\r\nskip-checks: true\r\n", "skip-checks: true"),
        ("Explain skip-checks: true here", None),
    ],
)
def test_words_that_skip_workflows(message: str, word: str | None) -> None:
    """By GitHub's page "Skipping workflow runs"."""
    assert skipped_by(message) == word


def test_update_waits_for_what_the_queued_head_had_until_recent_commits_get_it() -> None:
    """The CI may be down for all; once it begins elsewhere, it has missed this head."""
    waiting = judged(UPDATE)
    assert isinstance(waiting, Wait)
    assert waiting.until == NOW + POLICY.check_poll.base
    begun = CommitFacts("", (replace(report("ci"), started_at=NOW - MINUTE),))
    assert judged(UPDATE, others=begun) == Absent("ci")
    active = NOW - POLICY.checks.first_report
    assert judged(UPDATE, ci_active_at=active) == Absent("ci")
    before = CommitFacts("", (replace(report("ci"), started_at=NOW - 2 * HOUR),))
    assert isinstance(judged(UPDATE, others=before), Wait)


def test_update_waits_for_a_status_as_long_as_it_usually_takes() -> None:
    """A status appears when its sender reports it, perhaps only at the end; others may be earlier."""
    begun = CommitFacts("", (replace(report("ci"), started_at=NOW - MINUTE),))
    assert isinstance(judged(changed(UPDATE, former_checks=(":ci",)), others=begun), Wait)


def test_update_of_a_head_that_lacked_the_check_too_waits_outside() -> None:
    """A path filter skips it on both."""
    assert judged(changed(UPDATE, former_checks=("10:lint",))) == Absent("ci")


def test_unproved_update_is_proved_before_it_keeps_the_consent() -> None:
    """P4: the head outside the queue is the one with consent."""
    unproved = replace(changed(UPDATE, former_checks=()), head_proved=False)
    facts = facts_with(rules=rules("ci"), workflow_runs=(), suites=(OLD,), others=ELSEWHERE, reports=())
    assert decide(unproved, facts, POLICY, NOW) == ReadFact(FactKind.COMPARISON)
    proved = replace(unproved, head_proved=True)
    assert decide(proved, facts, POLICY, NOW) == Unmet(proved, (UnmetRequirement(Reason.CHECK_ABSENT, "ci"),))


def test_update_without_any_report_where_nothing_is_required_leaves() -> None:
    """P5: nothing would bring it back from outside, since nothing is required."""
    begun = CommitFacts("", (replace(report("ci"), started_at=NOW - MINUTE),))
    assert judged(UPDATE, rules=rules(), others=begun) == Dequeue(Reason.CHECKS_NOT_REPEATED, detail="ci")
    assert isinstance(judged(UPDATE, rules=rules()), Wait)


def test_entry_leaves_where_nothing_waits_outside() -> None:
    """`when_not_ready: refuse`."""
    policy = replace(POLICY, when_not_ready=NotReadyPolicy.REFUSE)
    assert leave_for_absent(FRONT, Absent("ci"), policy) == Dequeue(Reason.CHECK_ABSENT, detail="ci")


@pytest.mark.parametrize("conclusion", ["failure", "startup_failure"])
def test_run_that_ended_without_a_job_lets_the_entry_leave_if_actions_report_the_check(conclusion: str) -> None:
    """P6, unknown never blames: of another App's check the run says nothing."""
    broken = replace(workflow_run(7, status="completed", conclusion=conclusion), created_at=NOW - HOUR)
    job = CommitFacts("", (replace(report("ci"), by_actions=True),))
    assert judged(workflow_runs=(broken,), others=job) == ReadFact(FactKind.BROKEN_ON_BASE)
    left = judged(workflow_runs=(broken,), others=job, broken_on_base=frozenset())
    assert isinstance(left, Dequeue)
    assert (left.reason, [check.url for check in left.checks]) == (Reason.WORKFLOW_WITHOUT_JOBS, [broken.url])
    assert isinstance(judged(workflow_runs=(broken,)), Absent)
    with_job = replace(report("lint", CheckState.FAILED), suite=7)
    assert isinstance(judged(FRONT, with_job, workflow_runs=(broken,), others=job), Absent)
    newer = replace(broken, id=broken.id + 1, suite=8, conclusion="success")
    assert isinstance(judged(workflow_runs=(broken, newer), others=job), Absent)
    young = replace(broken, created_at=NOW - timedelta(seconds=30))
    waiting = judged(workflow_runs=(young,), others=job, suites=(replace(OLD, created_at=NOW - MINUTE),))
    assert isinstance(waiting, Wait)
    assert waiting.until == NOW + timedelta(seconds=30)


BROKEN = replace(
    workflow_run(7, status="completed", conclusion="failure"), created_at=NOW - HOUR, path=".github/workflows/ci.yml"
)


@pytest.mark.parametrize("absent", ["ci", None])
def test_run_that_breaks_on_the_base_as_well_holds_the_queue(absent: str | None) -> None:
    """P5: every pull request would break; a fix that leaves the file broken is no fix."""
    facts: dict[str, Any] = {"workflow_runs": (BROKEN,), "broken_on_base": frozenset({BROKEN.workflow})}
    facts |= {"rules": rules(absent)} if absent else {"rules": rules()}
    job = CommitFacts("", (replace(report("ci"), by_actions=True),))
    held = judged(others=job, **facts)
    assert isinstance(held, HoldBase)
    assert (held.check.name, held.tip) == (BROKEN.path, FRONT.run.base_tip or "main")
    left = judged(replace(FRONT, fixes_base=True), others=job, **facts)
    assert isinstance(left, Dequeue)
    assert left.reason is Reason.WORKFLOW_WITHOUT_JOBS


_CALLS = "jobs: {a: {uses: ./.github/workflows/b.yml}}"


@pytest.mark.parametrize(
    ("tested", "on_base", "same"),
    [
        ({"a": "x"}, {"a": "x"}, True),
        ({"a": "x"}, {"a": "y"}, False),
        ({"a": "x"}, {}, False),
        ({}, {}, False),
        ({"a": ""}, {"a": ""}, False),
        ({"a": _CALLS, "b": "x"}, {"a": _CALLS, "b": "x"}, True),
        ({"a": _CALLS, "b": "x"}, {"a": _CALLS, "b": "y"}, False),
        ({"a": _CALLS, "b": _CALLS}, {"a": _CALLS, "b": _CALLS}, True),
        ({"a": "x", "c": "1"}, {"a": "x", "c": "2"}, True),
    ],
)
def test_file_is_that_of_the_base_with_all_that_it_calls(
    tested: dict[str, str], on_base: dict[str, str], same: bool
) -> None:
    """P6, unknown never blames the base either: a file that GitHub shows no text of is not compared."""
    files = [{f".github/workflows/{name}.yml": text for name, text in each.items()} for each in (tested, on_base)]
    assert is_as_on_base(".github/workflows/a.yml", *files) is same
