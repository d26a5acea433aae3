"""Judge the newest checks before a run lands: those of its candidate, and of the heads of its members.

Somebody may run a check of the candidate again after it passed, and the newest run counts. GitHub's merge looks at the
checks of the pull request's own head ("About protected branches"): one that fails there would stop a landing by merges
after its first step.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.core.timing.backoff import no_jitter, wait
from queue_engine.domain.candidate_run import CandidateRun, CandidateTrigger
from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.executor.trains.candidate_branches import key_of, pull_request_checks_of
from queue_engine.executor.trains.candidate_checks import MOST_CANCELLED, read_again
from queue_engine.executor.trains.dequeue import kept
from queue_engine.executor.trains.member_facts import leaves_for_absent
from queue_engine.executor.trains.state import TrainState
from queue_engine.planner.actions import Facts
from queue_engine.planner.check_limits import few
from queue_engine.planner.trains.memory import FailingChecks
from queue_engine.planner.trains.outcomes import cancelled, failed, find_run
from queue_engine.rules.checks import CommitChecks, absent_checks, judge, run_checks
from queue_engine.workflows.trigger_choice import GITHUB_ACTIONS

_log = structlog.get_logger("imq.trains")

_QUOTED = re.compile(r'"[^"\n]*"')
_OF_CHECKS = ("status check", "waiting for results", "still expecting")
"""Words of refusals for checks; `planner.merge_errors` has their sources."""


REPLICAS = timedelta(minutes=1)
"""How long GitHub may miss a check that passed: pascalgn/automerge-action #35 saw that for a minute."""


def may_count_later(run: CandidateRun, message: str) -> bool:
    """Return whether GitHub, by its message, refuses to move the base for checks that it may count in a moment.

    It counts none that a dispatch started (ThemeParks_JavaScript #37, hivecommons/hive #5286).
    """
    return misses_checks(message) and run.published_at is not None and run.trigger is not CandidateTrigger.DISPATCH


def misses_checks(message: str) -> bool:
    """Return whether GitHub refuses to move the base for checks alone."""
    words = _QUOTED.sub("", message.lower())
    return any(phrase in words for phrase in _OF_CHECKS) and "pull request" not in words


def waits_on(state: TrainState, run: CandidateRun, limit: timedelta) -> CandidateRun | None:
    """Return the run as it waits to land after one more refusal; None once it has waited for too long (P5)."""
    refusals, since = run.test.merge_refusals + 1, run.test.refused_since or state.now
    if refusals > state.policy.merge_refusals and state.now - since >= limit:
        return None
    again = state.now + wait(state.policy.ask_again, refusals - 1, random=no_jitter)
    return replace(run, test=replace(run.test, merge_refusals=refusals, refused_since=since, next_poll_at=again))


async def still_passes(state: TrainState, run: CandidateRun) -> bool:
    """Return whether the checks of the candidate pass now; else the run waits, or its tree is tested again.

    Those that this pass has judged are not read again. Raises GitHubError.
    """
    if run.id in state.judged or run.published_at is None:
        return True
    verdict = await read_again(state, run)
    if verdict.state is CheckState.PASSED:
        return True
    if (
        verdict.state is CheckState.PENDING
        and (waiting := waits_on(state, run, state.policy.refusal_timeout)) is not None
    ):
        await state.save_run(waiting)
        return False
    _log.info("checks_changed", repository=state.queue.repository.full_name, run=run.id)
    await _test_again(state, run, verdict)
    return False


async def _test_again(state: TrainState, run: CandidateRun, verdict: CommitChecks) -> None:
    """Forget that the tree passed, so that another run tests it; after some times, count it as failed (P5)."""
    key, planned = await key_of(state, run), find_run(state.memory.trains, run.id)
    times = state.memory.cancelled.get(key, 0) + 1
    results = {each: good for each, good in state.memory.results.items() if each != key}
    memory = cancelled(replace(state.memory, results=results), run.id)
    memory = memory.with_cancelled(key)
    if times > MOST_CANCELLED and planned is not None:
        evidence = FailingChecks(run.id or 0, planned.content, kept(run, verdict.failed))
        memory = failed(memory, planned, key, evidence)
    await state.end(run, memory, why="checks_changed")


async def own_heads_pass(state: TrainState, run: CandidateRun, entries: Sequence[Entry], *, merges: bool) -> bool:
    """Return whether no check is missing on the members' own heads; else a member left, or the run waits.

    Those that judge the pull request count from there, and GitHub's `merges` need all others, too. Where none of these
    reports on any head, GitHub's answer to the first merge decides. Raises GitHubError.
    """
    github, repository = state.engine.github, state.queue.repository
    rules = await github.branch_rules(repository, state.queue.base_branch)
    judging = pull_request_checks_of(state, run, rules)
    required = judging | (rules.required_checks if merges else frozenset())
    if not required:
        return True
    optional = not run_checks(rules, state.policy)
    verdicts = list[tuple[Entry, CommitChecks]]()
    for entry in entries:
        reports = await github.check_reports(repository, entry.head, required)
        if others := sorted({each.name for each in reports if _by_another_app(each, judging)}):
            # Their check of that name may test the tree, and the candidate did without it.
            await state.switch_off(Reason.CI_UNPROVEN_ON_CANDIDATES, few(tuple(others)))
            return False
        # Where nothing is required, a head may lack a check that others have.
        wanted = required - set(absent_checks(required, reports)) if optional else required
        verdicts += [(entry, judge(wanted, reports))] if wanted else []
    if not judging and not any(each.reported for _, each in verdicts):
        return True
    waiting = waits_on(state, run, state.policy.refusal_timeout)
    for entry, verdict in verdicts:
        if verdict.state is CheckState.FAILED:
            await state.updates.dequeue(entry, Reason.CHECKS_FAILED, Facts(), detail=None, checks=verdict.failed)
            return False
        if verdict.state is CheckState.PENDING and await leaves_for_absent(state, entry):
            return False
        if verdict.state is CheckState.PENDING and waiting is None:
            detail = few(verdict.pending_names)
            await state.updates.dequeue(entry, Reason.CHECKS_TIMED_OUT, Facts(), detail=detail)
            return False
    if waiting is not None and any(each.state is CheckState.PENDING for _, each in verdicts):
        await state.save_run(waiting)
        return False
    return True


def _by_another_app(report: CheckReport, judging: Collection[RequiredCheck]) -> bool:
    """Return whether an App other than Actions reports one of these checks, which any App may report."""
    of_actions = report.by_actions or report.app_id == GITHUB_ACTIONS
    return RequiredCheck(report.name, None) in judging and not of_actions
