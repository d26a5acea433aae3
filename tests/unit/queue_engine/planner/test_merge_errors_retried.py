"""GitHub refuses a merge for now: IMQ asks again, within a limit."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.facts import CheckState, Snapshot
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, ReadFact, Ready, Save, Wait
from queue_engine.planner.merge_errors import judge_refused_merge
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    READY,
    SECOND,
    comparison,
    entry,
    facts_with,
    judged_run,
    pull,
    report,
    rules,
    workflow_run,
)
from tests.unit.queue_engine.planner.merge_error_cases import RULESET

END = NOW + POLICY.refusal_timeout
"""When a merge that was first refused at NOW has been asked for long enough."""


def refused(times: int) -> Entry:
    """A front whose merge was refused so many times, first at NOW."""
    return entry(status=READY, merge_refusals=times, refused_since=NOW, status_since=NOW)


@pytest.mark.parametrize(
    "words",
    [
        "A rule that GitHub invents next year stands against it.",
        "Required workflow 'scan' is not satisfied",
        "A review by a bot is in progress.",
    ],
)
def test_refused_merge_in_unknown_words_is_asked_for_again_for_ten_minutes(words: str) -> None:
    """It may pass, however often it is refused; after ten minutes people read GitHub's own words (P5)."""
    often, facts = refused(9), facts_with(pull=pull(), rules=rules())
    early = judge_refused_merge(often, words, facts, POLICY, END - timedelta(seconds=1))
    assert isinstance(early, Wait)
    assert early.until == END
    assert judge_refused_merge(often, words, facts, POLICY, END) == Dequeue(Reason.REFUSED_BY_RULES, detail=words)


@pytest.mark.parametrize(
    "words", ["A rule that GitHub invents next year.", "Required workflow 'scan' is not satisfied"]
)
def test_refused_merge_where_workflows_are_required_waits_for_what_is_under_way(words: str) -> None:
    """P5: GitHub's words do not tell whether a required workflow runs; its run does, and gets a check's time."""
    often, facts = refused(9), facts_with(pull=pull())
    assert judge_refused_merge(often, words, facts, POLICY, END) == ReadFact(FactKind.RULES)
    ruled = replace(facts, rules=rules("ci", workflows=True))
    assert judge_refused_merge(often, words, ruled, POLICY, END) == ReadFact(FactKind.CHECKS)
    running = replace(ruled, reports=(report("ci"), report("scan", CheckState.PENDING)))
    waiting = judge_refused_merge(often, words, running, POLICY, END)
    assert isinstance(waiting, Save)
    assert waiting.entry.status is CHECKING
    assert waiting.entry.run.next_poll_at is not None
    polled = judged_run(waiting.entry, replace(running, merge_refused=words), POLICY, END)
    assert polled == Wait(waiting.entry.run, waiting.entry.run.next_poll_at), (
        "reports of this pass cannot make it ready again"
    )
    late = NOW + POLICY.checks.fallback_timeout
    assert judge_refused_merge(often, words, running, POLICY, late) == ReadFact(FactKind.WORKFLOW_RUNS)
    given_up = judge_refused_merge(often, words, replace(running, workflow_runs=()), POLICY, late)
    assert isinstance(given_up, Dequeue)
    assert given_up.reason is Reason.CHECKS_TIMED_OUT
    ended = replace(ruled, reports=(report("ci"), report("scan")))
    assert judge_refused_merge(often, words, ended, POLICY, END) == ReadFact(FactKind.WORKFLOW_RUNS)
    ended = replace(ended, workflow_runs=())
    assert judge_refused_merge(often, words, ended, POLICY, END) == Dequeue(Reason.REFUSED_BY_RULES, detail=words)


def test_refused_merge_where_a_required_workflow_has_no_job_yet_waits_for_a_day_longer_than_for_a_check() -> None:
    """P5: no runner is free; GitHub cancels a job that waits for a day. Once the job runs, a check's limit counts."""
    words, often = "Required workflow 'scan' is not satisfied", refused(9)
    queued = facts_with(pull=pull(), rules=rules("ci", workflows=True), reports=(report("ci"),))
    queued = replace(queued, workflow_runs=(workflow_run(7),))
    day = POLICY.checks.fallback_timeout + POLICY.stall_timeout
    for now in (END, NOW + day - SECOND):
        waiting = judge_refused_merge(often, words, queued, POLICY, now)
        assert isinstance(waiting, Save)
        assert waiting.entry.run.pending_checks == (workflow_run(7).name,)
    assert isinstance(judge_refused_merge(often, words, queued, POLICY, NOW + day), Dequeue)
    started = NOW + timedelta(hours=20)
    job = replace(
        report("scan", CheckState.PENDING), conclusion="in_progress", suite=7, by_actions=True, started_at=started
    )
    running, limit = replace(queued, reports=(report("ci"), job)), started + POLICY.checks.fallback_timeout
    assert isinstance(judge_refused_merge(often, words, running, POLICY, limit - SECOND), Save)
    assert isinstance(judge_refused_merge(often, words, running, POLICY, limit), Dequeue)


def test_refused_merge_after_a_long_pause_is_asked_for_again_all_the_same() -> None:
    """A freeze between two refusals does not use up the tries."""
    facts = facts_with(pull=pull(), rules=rules())
    once = judge_refused_merge(refused(1), "No.", facts, POLICY, NOW + timedelta(hours=9))
    assert isinstance(once, Wait)


@pytest.mark.parametrize(
    "words",
    ["Base branch was modified. Review and try the merge again.", "This branch must not contain merge commits."],
)
def test_refused_merge_that_fresh_facts_may_cure_is_tried_again_at_once(words: str) -> None:
    """The base moved in that moment, or merge commits prove to be forbidden: another method is tried."""
    assert (
        judge_refused_merge(entry(status=READY, merge_refusals=1), words, facts_with(pull=pull()), POLICY, NOW) is None
    )


OUTDATED = "Head branch is out of date. Review and try the merge again."


@pytest.mark.parametrize("mergeable", [True, None])
def test_refused_merge_of_a_head_reported_as_outdated_depends_on_its_comparison(mergeable: bool | None) -> None:
    """Behind: it is updated. Unknown: it is compared. Not behind: GitHub is asked again later, whatever runs on it."""
    at = entry(status=READY, merge_refusals=1)
    facts = facts_with(
        pull=pull(mergeable=mergeable), rules=rules("ci", workflows=True), reports=(report("ci", CheckState.PENDING),)
    )
    judged = [
        judge_refused_merge(at, OUTDATED, replace(facts, comparison=compared), POLICY, NOW)
        for compared in (comparison(behind=2), None, comparison())
    ]
    assert judged[:2] == [None, None]
    assert isinstance(judged[2], Wait)
    assert NOW < judged[2].until <= NOW + 10 * SECOND
    taken = Snapshot(pull(), behind=0)
    assert judge_refused_merge(at, OUTDATED, replace(facts, snapshot=taken), POLICY, NOW) == judged[2]


@pytest.mark.parametrize(
    "words",
    [
        'Required status check "ci" is expected.',
        'Required status check "ci" is failing.',
        "2 of 3 required status checks are expected.",
        "2 of 3 required status checks have not succeeded: 1 expected and 1 failing.",
    ],
)
def test_refused_merge_over_a_check_reads_all_checks_again(words: str) -> None:
    """A check is required that IMQ did not know of, or was started again: no person's fault."""
    judged = judge_refused_merge(entry(status=READY, merge_refusals=1), words, facts_with(pull=pull()), POLICY, NOW)
    assert isinstance(judged, Save)
    assert (judged.entry.status, judged.entry.run.merge_requested_at) == (CHECKING, None)


UNSAID = "Pull Request is not mergeable"


def test_refused_merge_while_github_works_out_conflicts_is_asked_again_until_its_time_is_up() -> None:
    """P5: what GitHub has not worked out yet is no rule; it gets as long as for an update, and then it is said."""
    facts = facts_with(pull=pull(mergeable=None))
    often = refused(POLICY.merge_refusals)
    asked = judge_refused_merge(often, UNSAID, facts, POLICY, NOW + timedelta(seconds=9))
    assert isinstance(asked, Wait)
    assert asked.until == asked.run.next_poll_at == NOW + timedelta(seconds=9 + 2 * 2**often.run.merge_refusals)
    end = NOW + POLICY.timeouts.update
    last = judge_refused_merge(often, UNSAID, facts, POLICY, end - timedelta(seconds=1))
    assert isinstance(last, Wait)
    assert last.until == end
    assert judge_refused_merge(often, UNSAID, facts, POLICY, end) == Dequeue(Reason.MERGEABLE_UNKNOWN, detail=UNSAID)


def test_refused_merge_of_what_was_ready_for_long_is_asked_again_all_the_same() -> None:
    """After hours of a freeze GitHub still gets some tries."""
    facts, late = facts_with(pull=pull(mergeable=None)), NOW + timedelta(hours=9)
    once = entry(status=READY, status_since=NOW, merge_refusals=1)
    assert isinstance(judge_refused_merge(once, UNSAID, facts, POLICY, late), Wait)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Base branch was modified. Review and try the merge again.", Reason.REFUSED_BY_RULES),
        ("This branch must not contain merge commits.", Reason.LINEAR_HISTORY_REQUIRED),
        ('Required status check "ci" is failing.', Reason.REFUSED_BY_RULES),
    ],
)
def test_refused_merge_that_names_its_cause_counts_as_ever_while_conflicts_are_unknown(
    words: str, reason: Reason
) -> None:
    """Only a refusal that explains nothing is put down to GitHub's computation."""
    often, facts = refused(POLICY.merge_refusals), facts_with(pull=pull(mergeable=None))
    assert judge_refused_merge(often, words, facts, POLICY, END) == Dequeue(reason, detail=words)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ('Required status check "ci" is expected.', "ci"),
        ('Required status check "ci" is pending.', "ci"),
        ('Required status check "ci / build" is in progress.', "ci / build"),
        (RULESET.format('Required status check "ci" is expected.'), "ci"),
        ("2 of 3 required status checks are expected.", "2 of 3 required status checks are expected."),
        ("Code scanning is waiting for results from CodeQL for the commits 7f2 or 9c1.", "CodeQL"),
        ("Code scanning is still expecting 2 results from CodeQL.", "CodeQL"),
    ],
)
def test_refused_merge_for_a_check_that_github_misses_is_waited_out_and_names_it(words: str, named: str) -> None:
    """However often it is refused, the check has its whole time, counted from the first refusal; P5 ends it."""
    limit = POLICY.checks.fallback_timeout
    now, front = NOW, replace(refused(1), status_since=NOW - 9 * limit)
    facts = facts_with(pull=pull(), reports=(), workflow_runs=())
    for refusals in range(1, 20):
        judged = judge_refused_merge(changed(front, merge_refusals=refusals), words, facts, POLICY, now)
        if isinstance(judged, Dequeue):
            break
        assert isinstance(judged, Save)
        assert (judged.entry.status, judged.entry.run.merge_requested_at) == (CHECKING, None)
        assert judged.entry.run.next_poll_at is not None
        # As the pass does it: all that is known is green still, and the merge is asked for again.
        looking = judged_run(judged.entry, facts_with(rules=rules()), POLICY, now)
        assert isinstance(looking, Wait)
        now = looking.until
        again = facts_with(rules=rules("other"), reports=(report("other"),))
        green = judged_run(changed(replace(judged.entry, run=looking.run), next_poll_at=None), again, POLICY, now)
        assert isinstance(green, Ready)
        front = changed(judged.entry, run=green.run, status=READY)
    assert judged == Dequeue(
        Reason.CHECKS_TIMED_OUT,
        detail=f"{named} (limit: 120 minutes, while there is no history to tell how long checks take here)",
    )
    assert now == NOW + limit
    assert refusals < 9
