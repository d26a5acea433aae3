"""Judge the checks of a run: wait, proceed, or find the cause of a failure. Pure.

Only the front is tested, on top of exactly the commits that have landed. So entries ahead cannot cause a failure. A
failed check is judged in this order. If it passes in a rerun, it is flaky. If it fails on the base as well, the base
is red. If its runner broke down, its result says nothing about the change. Otherwise the change broke it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.departure import FailingCheckFacts
from queue_engine.domain.facts import CheckReport, CheckState, unreported_check
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import Run
from queue_engine.planner.actions import (
    Dequeue,
    FactKind,
    Facts,
    HoldBase,
    ReadFact,
    Ready,
    RefusedJobs,
    Rerun,
    RunContext,
    SaveRun,
    Verdict,
    Wait,
)
from queue_engine.planner.check_limits import check_deadline, keep_checking, overdue, with_started
from queue_engine.planner.pending_checks import (
    await_former,
    missing_where_nothing_is_required,
    not_repeated,
    unapproved_runs,
    with_former,
)
from queue_engine.rules.check_progress import without_reruns
from queue_engine.rules.checks import (
    BREAKDOWNS,
    CommitChecks,
    cancelled_jobs,
    expected_checks,
    failing_checks,
    is_red,
    judge,
    names_of,
    not_run,
    of_now,
    report_on_base,
    rerun_names,
    run_checks,
    run_key,
    with_runs,
)
from queue_engine.rules.transitions import after_poll

_NO_FACTS = Facts()

FAILED_CHECKS = frozenset({Reason.CHECKS_FAILED, Reason.CHECKS_BROKE_DOWN})
"""Reasons that `failure_of` explains."""

FLAKY_RERUNS = 2
"""How many reruns more a check gets that the configuration lists as flaky."""

_UNDER_WAY = "already running"
"""Part of GitHub's message when it refuses to rerun a workflow that has not ended (403)."""


def judge_checks(run: Run, of: RunContext, facts: Facts, policy: Policy, now: datetime) -> Verdict:
    """Return what the checks of a run under test show, or the fact that this depends on."""
    if facts.merge_refused is not None and run.next_poll_at is not None and now < run.next_poll_at:
        # GitHub misses a check that may be absent from these reports: without it they would pass again and again.
        return Wait(run, run.next_poll_at)
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    required = run_checks(facts.rules, policy)
    if (own := unreported_check(required, policy.own_app)) is not None:
        if not facts.rules_fresh:
            return ReadFact(FactKind.FRESH_RULES)
        return Dequeue(Reason.OWN_CHECK_REQUIRED, detail=own)
    if facts.reports is None:
        known = required or policy.checks.queue_only or run.pending_checks or run.merge_refusals
        names = run.pending_checks or tuple(sorted({check.name for check in required}))
        limit = check_deadline(run, policy, names) if known else run.since + policy.checks.first_report
        # A poll that found pending checks has limited the time of the next one itself.
        due = (run.next_poll_at or now) if run.polls else min(run.next_poll_at or now, limit)
        if not required and _all_reported(run):
            if (asked := await_former(run, of, facts, policy, now)) is not None:
                return asked
            # Passed checks count only after that time: an earlier poll would need a second one.
            due += policy.checks.settle
        if now >= due:
            return ReadFact(FactKind.CHECKS)
        return Wait(replace(run, pending_checks=names), due)
    if run.rerun_at is not None:
        return _rerun_in_doubt(run, facts, policy, now)
    expected = expected_checks(run, required, policy)
    verdict = judge(required, of_now(run, facts.reports, policy), policy.checks.ignored, expected)
    if verdict.state is CheckState.FAILED:
        return _judge_failure(run, of, verdict, facts, policy, now)
    if verdict.state is CheckState.PASSED:
        return _settled(run, of, verdict, facts, policy, now, required=bool(required))
    deadline = check_deadline(run, policy, verdict.pending_names)
    # The first poll finds runs that await approval, webhooks report later ones; so slow polls cost one request each.
    if (not run.polls or now >= deadline) and (unapproved := unapproved_runs(facts, verdict)) is not None:
        return unapproved
    run = with_started(run, verdict, now)
    if not required and not verdict.reported and not expected:
        return _await_first_report(run, of, verdict, facts, policy, now)
    if now < (deadline := check_deadline(run, policy, verdict.pending_names)):
        return keep_checking(run, verdict, policy, now, deadline)
    return (not_repeated(verdict, policy) if expected else None) or overdue(run, of, verdict, facts, policy, now)


def _all_reported(run: Run) -> bool:
    """Whether webhooks reported all pending checks, or at least one check where none is known to be pending."""
    return bool(run.completed_checks) and set(run.pending_checks) <= set(run.completed_checks)


def _await_first_report(
    run: Run, of: RunContext, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime
) -> Verdict:
    """Accept passed checks at once if checks are required and none was rerun; else others may still appear."""
    deadline = run.since + policy.checks.first_report
    if now < deadline:
        return keep_checking(run, verdict, policy, now, deadline)
    if policy.checks.land_without:
        return _passed(run, verdict, policy, now, settled=True)
    return with_former(run, of, facts, policy, now) or Dequeue(Reason.NO_CHECKS)


def _settled(
    run: Run, of: RunContext, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime, *, required: bool
) -> Verdict:
    """Accept passed checks at once if checks are required and none was rerun; otherwise others may still appear."""
    # A rerun needs the moment, too: jobs that depend on the failed one appear only after it has passed.
    passed = _passed(run, verdict, policy, now, settled=required and not run.rerun_checks)
    if required or isinstance(passed, Wait):
        return passed
    return missing_where_nothing_is_required(run, of, facts, verdict, policy, now) or passed


def _passed(run: Run, verdict: CommitChecks, policy: Policy, now: datetime, *, settled: bool) -> Ready | Wait:
    """Return that the checks passed. Unless `settled`, give later jobs a moment to appear first."""
    if not settled and verdict.last_completed is not None:
        due = verdict.last_completed + policy.checks.settle
        if now < due:
            return Wait(replace(run, next_poll_at=due), due)
    return Ready(replace(run, pending_checks=(), completed_checks=()), verdict.last_completed)


def _judge_failure(
    run: Run, of: RunContext, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime
) -> Verdict:
    """Find the cause of a required check's failure: GitHub, flaky, the base, the runner, or the change."""
    if not_run(verdict.failed) is not None and facts.not_started is None:
        return ReadFact(FactKind.NOT_STARTED)
    if facts.not_started:
        return _start_again(run, verdict, facts, facts.not_started)
    if run.reruns < allowed_reruns(verdict.failed, policy, now) and all(check.by_actions for check in verdict.failed):
        if facts.workflow_runs is None:
            return ReadFact(FactKind.WORKFLOW_RUNS)
        reports = with_runs(of_now(run, facts.reports or (), policy), facts.workflow_runs, run.candidate)
        failed = with_runs(verdict.failed, facts.workflow_runs, run.candidate)
        if all(check.actions_run is not None for check in failed):
            return _run_again(run, replace(verdict, failed=failed), reports, policy, now)
    if of.is_update and facts.former_reports is None:
        # One more read, for one that is about to leave: whether the check was green before IMQ's update.
        return ReadFact(FactKind.FORMER_REPORTS)
    if of.fixes_base:
        return _explained(run, verdict.failed, facts)
    if facts.base_reports is None:
        return ReadFact(FactKind.BASE_REPORTS)
    on_base = [report_on_base(check, facts.base_reports) for check in verdict.failed]
    own = tuple(check for check, report in zip(verdict.failed, on_base, strict=True) if not is_red(report))
    if not own:
        # The failure is judged when the base is green: the check gets one rerun then, even if it had its reruns before.
        # Where reruns are off, the check's result counts, and IMQ compares it with the base again.
        again = max(policy.checks.reruns - 1, 0)
        waiting = replace(run.without_failures(), reruns=again, polls=0, next_poll_at=None)
        red = [report for report in on_base if report is not None]
        failing = failing_checks(red, facts.base_reports)
        return HoldBase(waiting, verdict.failed[0], run.base_tip or of.base_branch, failing)
    unsettled = all(report is not None and (is_red(report) or report.state is CheckState.PENDING) for report in on_base)
    deadline = check_deadline(run, policy, {check.name for check in own})
    if unsettled and now < deadline:
        # The same checks still run on the base, and only their results show the cause.
        waiting = after_poll(run, policy.ask_again, now)
        due = min(waiting.next_poll_at or now, deadline)
        return Wait(replace(waiting, next_poll_at=due), due)
    return _explained(run, own, facts)


def allowed_reruns(failed: Iterable[CheckReport], policy: Policy, now: datetime) -> int:
    """Return how often failed checks may run again: more often if the configuration lists all of them as flaky."""
    listed = {each.name for each in policy.checks.flaky if each.counts(now)}
    return policy.checks.reruns + (FLAKY_RERUNS if all(check.name in listed for check in failed) else 0)


def _start_again(run: Run, verdict: CommitChecks, facts: Facts, message: str) -> ReadFact | RefusedJobs:
    """Wait until GitHub starts jobs again; each time that it did not, IMQ has them run again."""
    if run.github_failing_since is None:
        return RefusedJobs(message)
    if facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    return RefusedJobs(message, with_runs(verdict.failed, facts.workflow_runs, run.candidate))


def _explained(run: Run, failed: tuple[CheckReport, ...], facts: Facts) -> ReadFact | Dequeue:
    """Dequeue for these checks, after IMQ has read what cancelled them."""
    if facts.cancelled_for is None and cancelled_jobs(failed):
        return ReadFact(FactKind.CANCELLED_FOR)
    return _blame(failed, facts)


def _blame(failed: tuple[CheckReport, ...], facts: Facts = _NO_FACTS) -> Dequeue:
    """Dequeue for these checks, with what the facts say of them."""
    jobs = () if facts.cancelled_for is None else cancelled_jobs(failed)
    detail = _cancelled(few(tuple(check.name for check in jobs)), facts.cancelled_for or ()) if jobs else None
    broke_down = all(check.conclusion in BREAKDOWNS for check in failed)
    return Dequeue(Reason.CHECKS_BROKE_DOWN if broke_down else Reason.CHECKS_FAILED, detail=detail, checks=failed)


def failure_of(head_sha: str, run: Run, failed: Sequence[CheckReport], facts: Facts) -> FailingCheckFacts:
    """Return what these facts say of failed checks of a run, for people: `head_sha` is the queued head."""
    names = names_of(failed)
    before = [(check, report_on_base(check, facts.former_reports or ())) for check in failed]
    on_base = [report_on_base(check, facts.base_reports or ()) for check in failed]
    return FailingCheckFacts(
        head_sha,
        names,
        green=names_of(check for check, report in before if _passed_there(report)),
        red=names_of(check for check, report in before if is_red(report)),
        on_base=all(map(_passed_there, on_base)),
        merged=run.candidate != head_sha,
        reruns=run.reruns if set(names) & set(rerun_names(run)) else 0,
        base_tip=run.base_tip,
    )


def _passed_there(report: CheckReport | None) -> bool:
    return report is not None and report.state is CheckState.PASSED and not report.skipped


def _cancelled(names: str, cancelled_for: tuple[str, ...]) -> str:
    """Say what cancelled these jobs; that GitHub does not show it is said, too."""
    if not cancelled_for:
        return f"cancelled: {names}; GitHub does not show by what"
    group, *runs = cancelled_for
    newer = f"in which this runs now: {few(tuple(runs))}" if runs else "GitHub does not show which run that was"
    return f"cancelled for a newer run of the concurrency group {group}: {names}; {newer}"


def _run_again(
    run: Run, verdict: CommitChecks, reports: tuple[CheckReport, ...], policy: Policy, now: datetime
) -> Wait | Rerun | Dequeue:
    """Rerun the failed checks, as soon as the other jobs of their workflow runs have ended; GitHub refuses before."""
    runs = {check.actions_run for check in verdict.failed}
    running = tuple(r for r in reports if r.actions_run in runs and r.state is CheckState.PENDING)
    deadline = check_deadline(run, policy, {check.name for check in running})
    if running:
        if now >= deadline:
            return _blame(verdict.failed)
        names = tuple(sorted({report.name for report in running}))
        waiting = after_poll(run, policy.check_poll, now)
        due = min(waiting.next_poll_at or now, deadline)
        ended = tuple(name for name in verdict.completed_names if name not in names)
        return Wait(replace(waiting, next_poll_at=due, pending_checks=names, completed_checks=ended), due, running)
    again = {check.name for check in verdict.failed}
    asked = replace(
        run,
        # The rerun gets the whole time limit.
        checks_since=now,
        reruns=run.reruns + 1,
        rerun_checks=tuple(dict.fromkeys((*run.rerun_checks, *map(run_key, verdict.failed)))),
        rerun_at=now,
        started_checks=(),
        checks_started_at=None,
        polls=0,
        next_poll_at=now,
        pending_checks=tuple(sorted({*verdict.pending_names, *again})),
        completed_checks=tuple(name for name in verdict.completed_names if name not in again),
    )
    return Rerun(asked, verdict.failed)


def _rerun_in_doubt(run: Run, facts: Facts, policy: Policy, now: datetime) -> Verdict:
    """Find out whether a rerun whose answer was lost has begun: newer check runs prove it. Otherwise request it again.

    A second request starts no second rerun: GitHub refuses one while the workflow runs.
    """
    old = tuple(r for r in facts.reports or () if run_key(r) in run.rerun_checks and r.state is CheckState.FAILED)
    if not old:
        return SaveRun(replace(run, rerun_at=None))
    if now >= check_deadline(run, policy, {check.name for check in old}):
        return _blame(old)
    if facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    proved = tuple(r for r in with_runs(old, facts.workflow_runs, run.candidate) if r.actions_run is not None)
    return Rerun(run, proved) if proved else _blame(old)


def rerun_answered(run: Run, failed: Iterable[CheckReport], message: str | None, policy: Policy, now: datetime) -> Run:
    """Record GitHub's answer to a rerun request: accepted if `message` is None, else the message of the refusal.

    If GitHub refuses a rerun, the check's result counts, and no rerun is requested again. While the workflow still
    runs, IMQ waits: its other jobs have not ended, or this rerun has begun already.
    """
    if message is None:
        return replace(without_reruns(run), rerun_at=None, polls=0, next_poll_at=now + policy.check_poll.base)
    if _UNDER_WAY in message.lower():
        return after_poll(run, policy.ask_again, now)
    refused = {run_key(check) for check in failed}
    kept = tuple(key for key in run.rerun_checks if key not in refused)
    return replace(run, rerun_at=None, rerun_checks=kept, next_poll_at=now)
