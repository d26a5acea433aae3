"""Judge the checks of the front entry: wait, proceed, or whose fault a failure is. Pure.

Nobody is blamed before those ahead have settled, by construction: only the front is tested, on top of exactly what
has landed, and each entry ahead of it has landed or left. What remains is asked in this order: does it pass when it
is run again (then it was flaky)? Does it fail on the base as well (then the base is red)? Did it tell anything at all
(or did its runner break down)? Only then it is the change's own.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.own_check import own_check
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, HoldBase, ReadFact, Rerun, Save, Wait
from queue_engine.planner.check_limits import check_deadline, few, overdue, with_started
from queue_engine.planner.pending_checks import (
    await_former,
    missing_where_nothing_is_required,
    not_repeated,
    unapproved_runs,
    with_former,
)
from queue_engine.rules.checks import (
    CommitChecks,
    former_checks,
    judge,
    of_now,
    required_checks,
    rerun_names,
    run_key,
    with_runs,
)
from queue_engine.rules.transitions import after_poll, enter

BREAKDOWNS = frozenset({"startup_failure", "timed_out", "cancelled", "stale", "error"})
"""GitHub's words for a check that ended without having told anything about the change. `action_required` is not among
them: it asks somebody to do something about this very change."""

_UNDER_WAY = "already running"
"""In the words with which GitHub refuses to run a workflow again before it has ended (403)."""

_NO_EVIDENCE = frozenset({"cancelled", "stale", "action_required"})
"""Ends of a check on the base that do not show the base to be red."""


def judge_checks(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """The next step of an entry that waits for its checks."""
    if facts.merge_refused is not None and entry.run.next_poll_at is not None and now < entry.run.next_poll_at:
        # GitHub misses a check that these reports may not tell of: judged again, they would pass again and again.
        return Wait(entry, entry.run.next_poll_at)
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    required = required_checks(facts.rules, policy)
    if (own := own_check(required, policy)) is not None:
        if not facts.rules_fresh:
            return ReadFact(FactKind.FRESH_RULES)
        return Dequeue(Reason.OWN_CHECK_REQUIRED, detail=own)
    if facts.reports is None:
        known = required or entry.run.pending_checks or entry.run.merge_refusals
        limit = check_deadline(entry, policy) if known else entry.status_since + policy.first_report
        # A look that found something to wait for has bounded the next one itself.
        due = (entry.run.next_poll_at or now) if entry.run.polls else min(entry.run.next_poll_at or now, limit)
        if not required and _all_reported(entry.run) and (asked := await_former(entry, facts, policy, now)) is not None:
            return asked
        if not required and _all_reported(entry.run):
            # Green is believed only then: an earlier look would be followed by a second one.
            due += policy.settle
        if now >= due:
            return ReadFact(FactKind.CHECKS)
        names = entry.run.pending_checks or tuple(sorted({check.name for check in required}))
        return Wait(replace(entry, run=replace(entry.run, pending_checks=names)), due)
    if entry.run.rerun_at is not None:
        return _rerun_in_doubt(entry, facts, policy, now)
    expected = () if required else former_checks(entry.run)
    verdict = judge(required, of_now(entry.run, facts.reports), policy.ignored_checks, expected)
    if verdict.state is CheckState.FAILED:
        return _judge_failure(entry, verdict, facts, policy, now)
    if verdict.state is CheckState.PASSED:
        return _settled(entry, verdict, facts, policy, now, required=bool(required))
    deadline = check_deadline(entry, policy)
    # The first look tells whether a run is parked, a webhook if one is later; slow looks cost one request each.
    if (not entry.run.polls or now >= deadline) and (unapproved := unapproved_runs(facts, verdict)) is not None:
        return unapproved
    entry = with_started(entry, verdict, now)
    if not required and not verdict.reported and not expected:
        return _await_first_report(entry, verdict, facts, policy, now)
    if now < (deadline := check_deadline(entry, policy)):
        return _keep_checking(entry, verdict, policy, now, deadline)
    if expected and verdict.reported and not verdict.pending:
        return not_repeated(verdict)
    return overdue(entry, verdict, facts, policy, now)


def _all_reported(run: Run) -> bool:
    """Whether webhooks have told of all that is awaited, or of something where nothing is known to be."""
    return bool(run.completed_checks) and set(run.pending_checks) <= set(run.completed_checks)


def _await_first_report(entry: Entry, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Nothing is required and nothing has reported: it gets a short time, or that of what reported before."""
    deadline = entry.status_since + policy.first_report
    if now < deadline:
        return _keep_checking(entry, verdict, policy, now, deadline)
    if policy.land_without_checks:
        return _passed(entry, verdict, policy, now, settled=True)
    return with_former(entry, facts) or Dequeue(Reason.NO_CHECKS)


def _keep_checking(entry: Entry, verdict: CommitChecks, policy: Policy, now: datetime, deadline: datetime) -> Wait:
    waiting = after_poll(entry, policy.check_look, now)
    due = min(waiting.run.next_poll_at or now, deadline)
    waiting = replace(
        waiting,
        run=replace(waiting.run, next_poll_at=due, pending_checks=verdict.awaited, completed_checks=verdict.ended),
    )
    return Wait(waiting, due, verdict.pending)


def _settled(
    entry: Entry, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime, *, required: bool
) -> Action:
    """Green: believed at once where checks are required and none was run again; else later ones may still appear."""
    # After a rerun, too: jobs that depend on the one that failed appear a moment after it has passed.
    passed = _passed(entry, verdict, policy, now, settled=required and not entry.run.rerun_checks)
    if required or isinstance(passed, Wait):
        return passed
    return missing_where_nothing_is_required(entry, facts, verdict, policy, now) or passed


def _passed(entry: Entry, verdict: CommitChecks, policy: Policy, now: datetime, *, settled: bool) -> Action:
    """Green. Unless that is `settled`, later jobs and workflows get a moment to appear before it is believed."""
    if not settled and verdict.last_completed is not None:
        due = verdict.last_completed + policy.settle
        if now < due:
            return Wait(replace(entry, run=replace(entry.run, next_poll_at=due)), due)
    ready = enter(entry, EntryStatus.READY, now)
    ready = replace(ready, run=replace(ready.run, pending_checks=(), completed_checks=()))
    # GitHub refused to merge this very head for a check that it misses: the time of that goes on.
    return Save(
        replace(ready, status_since=entry.status_since) if entry.run.merge_refusals else ready, verdict.last_completed
    )


def _judge_failure(entry: Entry, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime) -> Action:
    """A check that has to pass has failed: whose fault that is."""
    if entry.run.reruns < policy.check_reruns and all(check.by_actions for check in verdict.failed):
        if facts.workflow_runs is None:
            return ReadFact(FactKind.WORKFLOW_RUNS)
        reports = with_runs(of_now(entry.run, facts.reports or ()), facts.workflow_runs, entry.run.candidate)
        failed = with_runs(verdict.failed, facts.workflow_runs, entry.run.candidate)
        if all(check.actions_run is not None for check in failed):
            return _run_again(entry, replace(verdict, failed=failed), reports, policy, now)
    if entry.fixes_base:
        return _blame(entry, verdict.failed)
    if facts.base_reports is None:
        return ReadFact(FactKind.BASE_REPORTS)
    on_base = [_report_on_base(check, facts.base_reports) for check in verdict.failed]
    own = tuple(check for check, report in zip(verdict.failed, on_base, strict=True) if not _is_red(report))
    if not own:
        # It stands as it is until the base is green; then it deserves one more run, whatever it has had before. Where
        # nothing is ever to be run again its failure stands, and the base, looked at once more, says whose it is.
        waiting = replace(
            entry, run=replace(entry.run, reruns=max(policy.check_reruns - 1, 0), polls=0, next_poll_at=None)
        )
        return HoldBase(waiting, verdict.failed[0], entry.run.base_tip or entry.base_branch)
    unsettled = all(
        report is not None and (_is_red(report) or report.state is CheckState.PENDING) for report in on_base
    )
    deadline = check_deadline(entry, policy)
    if unsettled and now < deadline:
        # The base is being checked still, and nothing but that can tell whose fault it is.
        waiting = after_poll(entry, policy.ask_again, now)
        waiting = replace(
            waiting, run=replace(waiting.run, next_poll_at=min(waiting.run.next_poll_at or now, deadline))
        )
        return Wait(waiting, waiting.run.next_poll_at or now)
    return _blame(entry, own)


def _report_on_base(check: CheckReport, on_base: Iterable[CheckReport]) -> CheckReport | None:
    """The report of the same source on the base: of several, on other events say, the one that tells most of it."""
    on_base = [report for report in on_base if _source(report) == _source(check)]
    decisive = (next((r for r in on_base if _is_red(r)), None), next((r for r in on_base if not r.completed_at), None))
    return next((report for report in (*decisive, *on_base) if report is not None), None)


def _source(report: CheckReport) -> tuple[str, int | None, bool]:
    """Where a report comes from: an App may have a run and a status of one name."""
    return report.name, report.app_id, report.run_id is None


def _is_red(report: CheckReport | None) -> bool:
    return report is not None and report.state is CheckState.FAILED and report.conclusion not in _NO_EVIDENCE


def _blame(entry: Entry, failed: tuple[CheckReport, ...]) -> Dequeue:
    again = tuple(sorted({check.name for check in failed} & set(rerun_names(entry.run))))
    detail = f"run again on the same commit, without success: {few(again)}" if again else None
    broke_down = all(check.conclusion in BREAKDOWNS for check in failed)
    return Dequeue(Reason.CHECKS_BROKE_DOWN if broke_down else Reason.CHECKS_FAILED, detail=detail, checks=failed)


def _run_again(
    entry: Entry, verdict: CommitChecks, reports: tuple[CheckReport, ...], policy: Policy, now: datetime
) -> Action:
    """Have what failed run once more, as soon as GitHub lets it: not while other jobs of its workflow run go on."""
    runs = {check.actions_run for check in verdict.failed}
    running = tuple(r for r in reports if r.actions_run in runs and r.state is CheckState.PENDING)
    deadline = check_deadline(entry, policy)
    if running:
        if now >= deadline:
            return _blame(entry, verdict.failed)
        names = tuple(sorted({report.name for report in running}))
        waiting = after_poll(entry, policy.check_look, now)
        due = min(waiting.run.next_poll_at or now, deadline)
        ended = tuple(name for name in verdict.ended if name not in names)
        return Wait(
            replace(waiting, run=replace(waiting.run, next_poll_at=due, pending_checks=names, completed_checks=ended)),
            due,
            running,
        )
    again = {check.name for check in verdict.failed}
    asked = replace(
        entry,
        # The new run of the checks has the whole time for itself.
        status_since=now,
        run=replace(
            entry.run,
            reruns=entry.run.reruns + 1,
            rerun_checks=tuple(dict.fromkeys((*entry.run.rerun_checks, *map(run_key, verdict.failed)))),
            rerun_at=now,
            started_checks=(),
            checks_started_at=None,
            polls=0,
            next_poll_at=now,
            pending_checks=tuple(sorted({*verdict.awaited, *again})),
            completed_checks=tuple(name for name in verdict.ended if name not in again),
        ),
    )
    return Rerun(asked, verdict.failed)


def _rerun_in_doubt(entry: Entry, facts: Facts, policy: Policy, now: datetime) -> Action:
    """A rerun was asked for and its answer is not known: it happened if newer runs have appeared, else ask again.

    Asking twice starts nothing twice: GitHub refuses while a workflow run goes on.
    """
    old = tuple(r for r in facts.reports or () if run_key(r) in entry.run.rerun_checks and r.state is CheckState.FAILED)
    if not old:
        return Save(replace(entry, run=replace(entry.run, rerun_at=None)))
    if now >= check_deadline(entry, policy):
        return _blame(entry, old)
    if facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    proved = tuple(r for r in with_runs(old, facts.workflow_runs, entry.run.candidate) if r.actions_run is not None)
    return Rerun(entry, proved) if proved else _blame(entry, old)


def rerun_answered(
    entry: Entry, failed: Iterable[CheckReport], words: str | None, policy: Policy, now: datetime
) -> Entry:
    """The entry after the answer to its rerun: accepted (`words` None), or refused in these words of GitHub.

    What GitHub does not run again counts as it stands, and is not asked for a second time. A workflow run that goes
    on is waited for: its other jobs have not ended, or this very rerun has begun already.
    """
    if words is None:
        return replace(entry, run=replace(entry.run, rerun_at=None, polls=0, next_poll_at=now + policy.check_look.base))
    if _UNDER_WAY in words.lower():
        return after_poll(entry, policy.ask_again, now)
    refused = {run_key(check) for check in failed}
    kept = tuple(key for key in entry.run.rerun_checks if key not in refused)
    return replace(entry, run=replace(entry.run, rerun_at=None, rerun_checks=kept, next_poll_at=now))
