"""Poll a base branch that holds its queue: the base is red, or somebody's push made its tip untested.

A red base may be fixed by pull requests with a label for fixes. IMQ follows a label's webhook only if the configuration
names the label then. If the configuration names the label later, IMQ asks GitHub which pull requests have the label,
and who set it. So the label need not be set again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.errors import GitHubError, RateLimitError, attempt_level, is_retryable
from queue_engine.domain.facts import CheckReport, RequiredCheck
from queue_engine.domain.model import Entry, Queue, RedBase, Stall
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.landing import schedule_green
from queue_engine.planner.absent_checks import broken_runs
from queue_engine.planner.github_outage import retry_at
from queue_engine.rules.blockers import base_checked, base_unread, failed_jobs, in_flight, untested_checked
from queue_engine.rules.checks import absent_checks, head_checks, run_checks, with_runs
from queue_engine.rules.eligibility import may_queue

_log = structlog.get_logger("imq.base")


async def poll_red_base(engine: Engine, queue: Queue, red: RedBase, entries: Sequence[Entry], policy: Policy) -> None:
    """Read whether a red base passes now, or has moved; rerun its failed jobs, once for each tip."""
    github, now, tip = engine.github, engine.clock.now(), red.tip
    known: RedBase | None
    fixes: dict[str, str] = {}
    again: tuple[CheckReport, ...] = ()
    try:
        tip = (await github.comparison(queue.repository, queue.base_branch, entries[0].head_sha)).base_tip
        wanted = frozenset({RequiredCheck(red.check, red.app_id)})
        reports = () if red.is_workflow else await github.check_reports(queue.repository, tip, wanted)
        known = base_checked(red, tip, reports, policy, now)
        if known is not None and red.is_workflow and not await _breaks(github, red, entries[0]):
            known = None
        if known is not None:
            if again := failed_jobs(known, tip, reports, policy):
                known = replace(known, rerun=tip)
            fixes = await find_fixes(engine, queue, entries, policy)
    except GitHubError as error:
        known = _unread(queue, red, error, policy, now)
    async with engine.change() as change:
        for entry_id, by in fixes.items():
            await mark_as_fix(change, entry_id, by)
        # A report, a push or a command during this poll is not part of its result: then the next poll comes at once.
        noted = await change.tx.red_bases.note(queue.id, known, expected=red)
        for entry in await change.tx.entries.of_queue(queue.id) if noted and tip != red.tip else ():
            if tip not in {entry.run.base_tip, entry.newer_tip} and not in_flight(entry):
                await change.tx.entries.save(replace(entry, newer_tip=tip))
    if noted and known is not None and again and not await _run_again(engine, queue, tip, again):
        async with engine.change() as change:
            await change.tx.red_bases.note(queue.id, replace(known, rerun=red.rerun), expected=known)


async def _breaks(github: GitHub, red: RedBase, front: Entry) -> bool:
    """Whether the run of the broken workflow on the front's candidate still has no job: somebody may have rerun it."""
    candidate = front.run.candidate or front.head_sha
    runs = await github.workflow_runs(front.repository, candidate)
    reports = await github.check_reports(front.repository, candidate, frozenset()) if runs else ()
    return any(run.path == red.check for run in broken_runs(runs, reports))


async def _run_again(engine: Engine, queue: Queue, tip: str, failed: tuple[CheckReport, ...]) -> bool:
    """Rerun these jobs on the base's tip, once; False if GitHub did not show the runs."""
    github, repository = engine.github, queue.repository
    try:
        runs = await github.workflow_runs(repository, tip)
    except GitHubError as error:
        _log.log(attempt_level(error), "no_base_runs", repository=repository.full_name, error=str(error))
        return not is_retryable(error)
    try:
        proved = with_runs(failed, runs, tip)
        for run in sorted({job.actions_run for job in proved if job.actions_run is not None}):
            await github.rerun(repository, run)
            _log.info("base_rerun", repository=repository.full_name, base_branch=queue.base_branch, run=run)
    except GitHubError as error:
        _log.warning("no_base_rerun", repository=repository.full_name, error=f"{type(error).__name__}: {error}")
    return True


async def poll_untested_tip(engine: Engine, queue: Queue, red: RedBase, policy: Policy) -> None:
    """Read whether the checks of an untested tip pass: if they do, IMQ resumes the queue itself."""
    github, now, tip = engine.github, engine.clock.now(), red.tip
    known: RedBase | None
    try:
        found = await github.branch_tip(queue.repository, queue.base_branch)
        tip = tip if found is None else found.sha
        required = run_checks(await github.branch_rules(queue.repository, queue.base_branch), policy)
        reports = await github.check_reports(queue.repository, tip, required)
        known = untested_checked(red, tip, required, reports, policy, now)
    except GitHubError as error:
        known = _unread(queue, red, error, policy, now)
    async with engine.change() as change:
        stored = await change.tx.queues.get(queue.id)
        if not await change.tx.red_bases.note(queue.id, known, expected=red) or stored is None:
            return
        if (known is None or not known.untested) and stored.pause(Reason.TREE_MISMATCH) is not None:
            await _lift_mismatch(change, stored, tip, passed=known is None)
        if known is None:
            await schedule_green(change, queue.id, tip, policy)


async def poll_missing_checks(
    engine: Engine, queue: Queue, stall: Stall, entries: Sequence[Entry], policy: Policy
) -> None:
    """Read whether the branch still requires a check that no commit has; the queue resumes if not."""
    github, now = engine.github, engine.clock.now()
    after: Stall | None = replace(stall, ci_active_at=now)
    try:
        github.forget_rules(queue.repository.id)
        rules = await github.branch_rules(queue.repository, queue.base_branch)
        required = head_checks(rules, policy)
        reports = await github.reports_elsewhere(queue.repository, queue.base_branch, "", required)
        measured = {name for entry in entries for name in entry.run.check_limits or {}}
        missing = [each for each in absent_checks(required, reports) if each.name not in measured]
        if not any(each.name in stall.checks for each in missing):
            after = None
    except GitHubError as error:
        _log_unread(queue, error)
    await engine.write(lambda change: change.tx.stalls.note(queue.id, after, expected=stall))


def _unread(queue: Queue, red: RedBase, error: GitHubError, policy: Policy, now: datetime) -> RedBase:
    """Return the base as it waits for the next poll after an error of GitHub."""
    if isinstance(error, RateLimitError):
        return replace(red, next_poll_at=retry_at(error, now))
    _log_unread(queue, error)
    return base_unread(red, policy, now)


def _log_unread(queue: Queue, error: GitHubError) -> None:
    words = f"{type(error).__name__}: {error}"
    _log.log(attempt_level(error), "base_unread", repository=queue.repository.full_name, error=words)


async def _lift_mismatch(change: Change, queue: Queue, tip: str, *, passed: bool) -> None:
    """Resume a queue after a tree mismatch: the checks of the untested tip have completed, passed or failed."""
    await change.tx.pauses.lift(queue.id, Reason.TREE_MISMATCH, now=change.now)
    detail = f"the checks of {tip} {'passed' if passed else 'failed'}"
    data = {"by": None, "detail": detail, "until": None}
    await change.record("resumed", queue, reason=Reason.TREE_MISMATCH, data=data)
    _log.info("resumed", repository=queue.repository.full_name, base_branch=queue.base_branch, detail=detail)


async def find_fixes(engine: Engine, queue: Queue, entries: Sequence[Entry], policy: Policy) -> dict[str, str]:
    """Return which of these entries are unknown fixes, as the entry's id with the login of the person who said so.

    A label counts if the pull request had it when it was queued, or if a person who may queue has set it since. Costs
    one request for each label. Raises GitHubError.
    """
    github, repository, found = engine.github, queue.repository, dict[str, str]()
    waiting = {entry.number: entry for entry in entries if not entry.fixes_base}
    if not waiting:
        return found
    for label in policy.fix_labels:
        for number in await github.labeled_pull_requests(repository, label):
            if (entry := waiting.get(number)) is None or entry.id in found:
                continue
            last = await github.last_labeled_event(repository, number, label)
            if last is None:
                continue
            if last.at <= entry.enqueued_at:
                found[entry.id] = entry.queued_by
            elif last.by and may_queue(policy, last.by, await github.permission(repository, last.by)) is None:
                found[entry.id] = last.by
    return found


async def mark_as_fix(change: Change, entry_id: str, by: str) -> None:
    """Mark the entry as a fix of the base. Raises StaleRecord if the entry changed meanwhile."""
    entry = await change.tx.entries.get(entry_id)
    if entry is None or entry.fixes_base:
        return
    await change.tx.entries.save(replace(entry, fixes_base=True))
    await change.record("priority", entry, data={"by": by, "priority": entry.priority, "position": entry.position})
