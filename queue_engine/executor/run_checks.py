"""Follow the checks of published candidates as those of any head: compare with the base, rerun for one member, judge.

A check that was skipped counts only where it was skipped on the members' own heads, too: otherwise the candidate is not
tested. A member that makes runs fail is ejected, with the checks that failed in a run with it alone: what they prove.

A check that is green on the member's own head, and red on a candidate, is no proof in two cases. It may never have
passed on a candidate. Or another App reports it, and may judge IMQ's draft: no workflow says what it reads. Then the
member's own branch decides, in sequence: no member leaves for what is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.departure import FailingCheckFacts
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, FailingCheck
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.effects.check_counts import record_passed
from queue_engine.effects.context import Change
from queue_engine.executor import requests
from queue_engine.executor.front import StallFacts, hold_for_base, record_stall
from queue_engine.executor.members import leaves_for_absent
from queue_engine.executor.reads import judged, read_run_fact
from queue_engine.executor.run_store import TrainState, rerun_data
from queue_engine.executor.triggers import key_of, of_tree, pull_request_checks_of, trigger_failed
from queue_engine.planner import actions
from queue_engine.planner.absent_checks import judge_absent
from queue_engine.planner.actions import FactKind, Facts, RunContext, Verdict
from queue_engine.planner.check_outcome import FAILED_CHECKS, failure_of, judge_checks, rerun_answered
from queue_engine.planner.queue_plan import for_candidate
from queue_engine.planner.trains.memory import (
    FailingChecks,
    Memory,
    cancelled,
    ejected_member,
    failed,
    find_run,
    passed,
    unblamed,
)
from queue_engine.rules.check_progress import job_data, run_progress, with_reports
from queue_engine.rules.checks import (
    CommitChecks,
    expected_checks,
    failing_checks,
    former_names,
    is_ambiguous,
    is_red,
    judge,
    of_candidate,
    rerun_counts,
    rerun_names,
    run_checks,
)
from queue_engine.rules.departure_facts import share_of
from queue_engine.rules.proof import proof_of

_log = structlog.get_logger("imq.trains")

_BY_PEOPLE = frozenset({"cancelled", "stale"})
_MOST_GREEN = 1_000
MOST_CANCELLED = 3
"""How often the checks of one tree may be cancelled, or fail after they passed, before that is a failure (P5)."""
_UNTESTED = frozenset({Reason.NO_CHECKS, Reason.WORKFLOWS_UNAPPROVED, Reason.OWN_CHECK_REQUIRED})
"""Outcomes that say nothing about the members: the candidate was not tested."""

_Checks = Sequence[Mapping[str, Any]]
"""As `FailingChecks` keeps them."""


def _tested(state: TrainState, members: Sequence[Entry]) -> RunContext:
    """Return whose run it is: of members that all fix the base, one that may land while the base is red."""
    fixes_base = all(each.fixes_base for each in members)
    return RunContext(state.queue.repository, state.queue.base_branch, members[0].enqueued_at, fixes_base)


def absent(facts: Facts, policy: Policy) -> tuple[str, ...]:
    """Return the required checks of which no report is there, while no job runs that others may depend on."""
    required = run_checks(facts.rules, policy)
    verdict = judge(required, facts.reports or (), policy.checks.ignored)
    if any(report.by_actions for report in verdict.pending):
        return ()
    return tuple(sorted(set(verdict.pending_names) - {report.name for report in verdict.pending}))


async def test(state: TrainState, run: Run) -> datetime | None:
    """Judge the checks of a candidate; returns when to look again, None if its state changed. Raises GitHubError."""
    members = state.entries_of(run)
    if not members:
        await state.cancel(run, why="left")
        return None
    limit = (run.published_at or run.since) + state.trains.first_report
    unproved = state.memory.trigger is not run.trigger
    if unproved and state.now >= limit and run.polls == 0:
        run = replace(run, next_poll_at=state.now)
    of = _tested(state, members)
    verdict, facts = await _judge(state, run, of)
    if facts.reports is not None and unproved:
        missing = absent(facts, of_tree(state, run, facts)[1])
        if not missing:
            await state.remember(replace(state.memory, trigger=run.trigger))
        elif state.now >= limit and not _explains(verdict):
            await _absent(state, run, few(missing))
            return None
    due = await _act(state, run, verdict, facts)
    if facts.reports is not None and (event := _progress_after(state, run, verdict)) is not None:
        await state.engine.progress.on_progress(event)
    return due if due is None or not unproved or state.now >= limit else min(due, limit)


def _explains(verdict: Verdict) -> bool:
    """Whether a verdict says why checks are absent, or is about to: other triggers would start them no sooner."""
    match verdict:
        case actions.Ready() | actions.SaveRun() | actions.HoldBase() | actions.Dequeue(Reason.WORKFLOW_WITHOUT_JOBS):
            return True
        case actions.Wait(never=never):
            return never is not None
    return False


async def _judge(state: TrainState, run: Run, of: RunContext) -> tuple[Verdict, Facts]:
    # A candidate is an update of its members' heads: their checks are expected on it.
    updated = replace(of, is_update=True)

    def judge_candidate(facts: Facts) -> Verdict:
        facts, policy = of_tree(state, run, facts)
        policy = for_candidate(policy, state.memory, run, state.now)
        test = with_reports(run, facts.reports or ())
        absent_or_late = judge_absent(test, updated, facts, policy, state.now, after=state.trains.first_report)
        return absent_or_late or judge_checks(test, of, facts, policy, state.now)

    async def read(fact: FactKind, facts: Facts) -> Facts:
        facts, policy = of_tree(state, run, facts)
        if fact is FactKind.FORMER_REPORTS:
            return replace(facts, former_reports=await _on_own_heads(state, run.members))
        facts = await read_run_fact(state.engine.github, run, of, fact, facts, policy)
        if fact is FactKind.CHECKS and is_ambiguous(facts.reports or ()):
            facts = await _of_its_trigger(state, run, facts)
        return facts

    verdict, facts = await judged(judge_candidate, read)
    assert verdict is not None
    return verdict, of_tree(state, run, facts)[0]


async def _on_own_heads(state: TrainState, members: Iterable[RunMember]) -> tuple[CheckReport, ...]:
    """Read the reports on the heads of members. Raises GitHubError."""
    github, repository = state.engine.github, state.queue.repository
    found = [await github.check_reports(repository, each.head_sha, frozenset()) for each in members]
    return tuple(report for reports in found for report in reports)


async def read_again(state: TrainState, run: Run) -> tuple[CommitChecks, LandingProof]:
    """Read a candidate's passed checks and judge the newest of each, with their proof. Raises GitHubError."""
    assert run.candidate is not None
    github, repository = state.engine.github, state.queue.repository
    rules = await github.branch_rules(repository, state.queue.base_branch)
    reports = await github.check_reports(repository, run.candidate, run_checks(rules, state.policy))
    facts = Facts(rules=rules, reports=reports)
    if is_ambiguous(reports):
        facts = await _of_its_trigger(state, run, facts)
    facts, policy = of_tree(state, run, facts)
    required, reports = run_checks(facts.rules, policy), facts.reports or ()
    verdict = judge(required, reports, policy.checks.ignored, expected_checks(run, required, policy))
    return verdict, _proof(state, run, rules, reports)


def _proof(state: TrainState, run: Run, rules: BranchRules, reports: Iterable[CheckReport]) -> LandingProof:
    """Return what lets a candidate land whose checks pass by these reports."""
    assert run.candidate is not None
    required = run_checks(rules, state.policy) - pull_request_checks_of(state, run, rules)
    return proof_of(run.candidate, required, reports, rules, state.policy)


async def _of_its_trigger(state: TrainState, run: Run, facts: Facts) -> Facts:
    """Leave out reports that a push to another branch caused, or a pull request of other people."""
    assert run.candidate is not None
    assert run.trigger is not None
    runs = await state.engine.github.workflow_runs(state.queue.repository, run.candidate)
    own = of_candidate(facts.reports or (), runs, run.trigger, run.branch)
    return replace(facts, reports=own)


async def _act(state: TrainState, run: Run, verdict: Verdict, facts: Facts) -> datetime | None:
    match verdict:
        case actions.Ready(tested):
            await _passed(state, tested, facts)
        case actions.SaveRun(tested):
            await state.save_run(tested)
        case actions.Wait(tested, until, never=never):
            if (settled := tested.without_failures()) != run:
                await state.save_run(settled)
            found = StallFacts(anywhere=never)
            return await record_stall(state.engine, state.queue, state.queue.stall, tested, found) or until
        case actions.Rerun(tested, checks):
            saved = await state.save_run(tested)
            message = await requests.rerun(state.engine.github, state.queue.repository, saved, checks, state.now)
            answered = rerun_answered(saved, checks, message, state.policy, state.now)
            async with state.change() as change:
                await change.tx.runs.save(answered)
                if message is None:
                    await _record_rerun(change, state, saved, answered, failing_checks(checks, facts.reports))
        case actions.RefusedJobs(detail, again):
            await requests.start_again(state.engine.github, state.queue.repository, run, detail, again, state.now)
        case actions.HoldBase() if run.base_tip != state.memory.base_tip:
            # The base was red where the run began, and has moved since: its members are tested on the present tip.
            await state.cancel(run, why="base_moved")
        case actions.HoldBase(tested, check, tip, failing):
            await state.save_run(tested)
            return await hold_for_base(state.engine, state.queue, state.policy, check, tip, failing)
        case actions.Absent(detail):
            await _absent(state, run, detail)
        case actions.Dequeue(reason, detail, checks):
            await _failed(state, run, reason, detail, checks, facts)
        case actions.ReadFact():
            raise AssertionError(f"no verdict: {verdict}")
    return None


async def _record_rerun(
    change: Change, state: TrainState, before: Run, after: Run, failing: Sequence[FailingCheck]
) -> None:
    """Record a rerun on each pull request that the run tests, with its part of the CI time."""
    listed = [each for each in state.policy.checks.flaky if each.counts(state.now)]
    for entry in state.entries_of(before):
        if share := share_of(entry.number, before.tested):
            await change.record("rerun", entry, data=rerun_data(before, after, entry.head_sha, failing, listed, share))


def _progress_after(state: TrainState, run: Run, verdict: Verdict) -> ProgressEvent | None:
    """Return what a poll of the checks found, once it is stored."""
    match verdict:
        case actions.Ready():
            return run_progress(run, ProgressStatus.COMPLETED)
        case actions.Dequeue() | actions.Absent():
            return run_progress(run, ProgressStatus.FAILED)
    return run_progress(next((each for each in state.runs if each.id == run.id), run))


async def _passed(state: TrainState, run: Run, facts: Facts) -> None:
    """Store that the checks passed, unless one was skipped that ran on a member's own head."""
    skipped = [each for each in facts.reports or () if each.skipped]
    if skipped and (missing := await _skipped_here_alone(state, run, skipped)):
        await _untested(state, run, Reason.CI_SKIPPED_ON_CANDIDATES, few(missing))
        return
    planned = find_run(state.memory.trains, run.id)
    if planned is None:
        await state.cancel(run, why="unplanned")
        return
    seconds = (state.now - (run.published_at or state.now)).total_seconds()
    key = await key_of(state, run)
    earlier = state.memory.failures_of_tree(key)
    ran = {each.name: 0 for each in facts.reports or () if each.state is CheckState.PASSED and not each.skipped}
    checks = {**ran, **rerun_counts(run)}
    memory = passed(state.memory, planned, key, state.seconds, seconds=seconds, checks=checks)
    memory = _with_span(replace(_with_green(memory, facts), trigger=run.trigger), run)
    rules = await state.engine.github.branch_rules(state.queue.repository, state.queue.base_branch)
    proof = _proof(state, run, rules, facts.reports or ())
    run, memory = replace(run, proof=proof), memory.with_proof(key, proof)
    async with state.change() as change:
        await change.tx.runs.save(replace(run, state=RunState.PASSED))
        await state.keep(change, memory)
        data = {"run": run.id, "members": list(run.numbers), "seconds": seconds}
        await change.record("run_passed", state.queue, data=data | job_data(run, state.now))
        await _record_flakes(change, state, run, earlier)
    assert run.id is not None
    state.judged.add(run.id)
    _log.info("run_passed", repository=state.queue.repository.full_name, **data)


async def _record_flakes(change: Change, state: TrainState, run: Run, earlier: Iterable[FailingChecks]) -> None:
    """Count the checks of a run that passed, and record those that failed `earlier` on the same tree."""
    runs = [*earlier]
    failed = [f"{each.get('id')}:{each['name']}" for found in runs for each in found.checks]
    await record_passed(change, state.queue, run, sorted(run.tested), failed)
    if failed:
        checks = sorted({key.partition(":")[2] for key in failed} - {*rerun_names(run)})
        waited = sum(each.seconds for each in runs)
        for entry in state.entries_of(run):
            if checks and entry.number in run.tested:
                await change.record("flaky", entry, data={"head": entry.head_sha, "checks": checks, "waited": waited})


async def _skipped_here_alone(state: TrainState, run: Run, skipped: Iterable[CheckReport]) -> tuple[str, ...]:
    """Return the checks that were skipped on the candidate, and not on the own head of every member."""
    names = {(each.name, each.app_id) for each in skipped}
    for member in run.members:
        own = await _on_own_heads(state, [member])
        ran = {(each.name, each.app_id) for each in own if not each.skipped}
        reported = {(each.name, each.app_id) for each in own}
        if here := (names & ran) | (names - reported):
            return tuple(sorted(name for name, _ in here))
    return ()


async def _failed(
    state: TrainState,
    run: Run,
    reason: Reason,
    detail: str | None,
    checks: tuple[CheckReport, ...],
    facts: Facts,
) -> None:
    """Keep a failed run as evidence, unless its outcome says nothing about its members."""
    if reason in _UNTESTED or (reason is Reason.CHECKS_TIMED_OUT and not run.started_checks and not checks):
        await _untested(state, run, Reason.CI_SILENT_ON_CANDIDATES, detail or "")
        return
    run = with_reports(run, facts.reports or ())
    assert run.id is not None
    planned = find_run(state.memory.trains, run.id)
    if planned is None:
        await state.cancel(run, why="unplanned")
        return
    key = await key_of(state, run)
    times = state.memory.cancelled.get(key, 0) + 1
    if checks and all(each.conclusion in _BY_PEOPLE for each in checks) and times <= MOST_CANCELLED:
        await state.end(run, cancelled(state.memory.with_cancelled(key), run.id), why="checks_cancelled")
        return
    await state.remember(_with_green(state.memory, facts))
    shown: Sequence[Mapping[str, Any]] = kept(run, checks)
    if len(planned.content) == 1 and shown and not (shown := await _proving(state, planned.content[0], shown)):
        return
    known = failure_of("", run, checks, facts)
    tip = state.memory.base_tip
    seconds = (state.now - (run.published_at or state.now)).total_seconds()
    on_base, reruns = known.on_base, known.reruns
    evidence = FailingChecks(
        run.id, planned.content, tuple(shown), detail, reason.value, tip, on_base, reruns, key, seconds
    )
    of_tree_alone = not any(each["may_judge_draft"] for each in shown)
    times = 1 + max(rerun_counts(run).values(), default=0)
    memory = failed(state.memory, planned, key if of_tree_alone else None, evidence, times=times)
    await state.end(run, _with_span(memory, run), why="failed")


def _with_green(memory: Memory, facts: Facts) -> Memory:
    """Keep which checks ran on a candidate and passed: so they can."""
    ran = [each for each in facts.reports or () if each.state is CheckState.PASSED and not each.skipped]
    return replace(memory, green=tuple(sorted({*memory.green, *map(_key_of_check, ran)}))[:_MOST_GREEN])


def _with_span(memory: Memory, run: Run) -> Memory:
    """Keep when the checks of a run ran, by GitHub's clock, if it is known."""
    starts = [each.started.timestamp() for each in run.timings if each.started is not None]
    ends = [each.ended.timestamp() for each in run.timings if each.ended is not None]
    return memory.with_span(min(starts), max(ends)) if starts and ends else memory


async def _absent(state: TrainState, run: Run, detail: str) -> None:
    """End a run whose candidate lacks a required check: members whose own heads lack it, too, wait outside."""
    members = state.entries_of(run)
    if [each for each in members if await leaves_for_absent(state, each)]:
        await state.cancel(run, why="left")
    else:
        await _untested(state, run, Reason.CI_SILENT_ON_CANDIDATES, detail)


async def _untested(state: TrainState, run: Run, reason: Reason, detail: str) -> None:
    """End a run whose candidate was not tested: another trigger may do it, or one entry is tested after the other.

    GitHub tests no pull request that conflicts with its base (community #26304): a push to the base says nothing of
    the trigger.
    """
    planned = find_run(state.memory.trains, run.id)
    if run.trigger is CandidateTrigger.PULL_REQUEST and planned is not None and not planned.extends_base:
        await state.cancel(run, why="base_moved")
        return
    key, works = await key_of(state, run), state.memory.trigger is run.trigger
    if works and reason is Reason.CI_SILENT_ON_CANDIDATES and key not in state.memory.cancelled:
        # The trigger has worked: GitHub may have lost this one event, so that another run tests the same tree.
        await state.end(run, cancelled(state.memory.with_cancelled(key), run.id), why="untested")
        return
    await state.cancel(run, why="untested")
    assert run.trigger is not None
    await trigger_failed(state, run.trigger, reason, detail)


def kept(run: Run, checks: Sequence[CheckReport]) -> tuple[Mapping[str, Any], ...]:
    """Return failing checks of a run as evidence."""
    return tuple(
        {
            "id": each.run_id,
            "name": each.name,
            "url": each.url,
            "conclusion": each.conclusion,
            "key": _key_of_check(each),
            "may_judge_draft": run.trigger is CandidateTrigger.PULL_REQUEST and not each.by_actions,
        }
        for each in checks
    )


def _key_of_check(report: CheckReport) -> str:
    return former_names([report])[0]


async def _proving(state: TrainState, number: int, checks: _Checks) -> _Checks:
    """Return the failing checks that prove this member's fault, trains being off. Raises GitHubError."""
    doubted = [each for each in checks if each.get("may_judge_draft") or each.get("key", "") not in state.memory.green]
    entry = next((each for each in state.entries if each.number == number), None)
    if entry is None or not (doubted := [each for each in doubted if "key" in each]):
        return checks
    reports = await state.engine.github.check_reports(entry.repository, entry.head_sha, frozenset())
    red = {_key_of_check(each) for each in reports if each.state is CheckState.FAILED}
    unproved = [each for each in doubted if each["key"] in {*map(_key_of_check, reports)} - red]
    if len(unproved) < len(checks):
        return [each for each in checks if each not in unproved]
    # It may be the member's fault together with the base, or judge the pull request.
    on_some = {each["key"] for each in unproved} <= {*state.memory.green}
    await state.remember(unblamed(state.memory))
    names = few(tuple(each["name"] for each in unproved))
    await state.switch_off(Reason.CHECK_FAILS_ON_CANDIDATES, names, suspect=number, once=on_some)
    return ()


async def _failure_of(state: TrainState, entry: Entry, failed: FailingChecks, checks: _Checks) -> FailingCheckFacts:
    """Return what IMQ knows of the failed checks; for a member that leaves also of those on its own head."""
    found = FailingCheckFacts(
        entry.queued_head,
        tuple(dict.fromkeys(each["name"] for each in checks)),
        on_base=failed.on_base,
        merged=True,
        reruns=failed.reruns,
        others=tuple(each for each in failed.members if each != entry.number),
        base_tip=failed.base_tip,
    )
    try:
        reports = await state.engine.github.check_reports(entry.repository, entry.queued_head, frozenset())
    except GitHubError:
        return found
    red = {_key_of_check(each) for each in reports if is_red(each)}
    ran = {_key_of_check(each) for each in reports if each.state is CheckState.PASSED and not each.skipped} - red
    green, red_names = (
        tuple(dict.fromkeys(each["name"] for each in checks if each.get("key") in keys)) for keys in (ran, red)
    )
    return replace(found, green=green, red=red_names)


async def eject(state: TrainState, number: int) -> None:
    """Dequeue the member, then count that; unless its own branch has to show its fault. Raises GitHubError."""
    entry = next((each for each in state.entries if each.number == number), None)
    failure = state.memory.failure_of(number)
    if entry is not None:
        found: _Checks = failure.checks if failure is not None else ()
        if found and not (found := await _proving(state, number, found)):
            return
        checks = tuple(
            CheckReport(
                name=each["name"],
                app_id=None,
                state=CheckState.FAILED,
                conclusion=each["conclusion"],
                url=each["url"],
                started_at=None,
                completed_at=None,
            )
            for each in found
        )
        reason = Reason.CHECKS_FAILED if failure is None else Reason(failure.reason)
        detail = None if failure is None else failure.detail
        known = None
        if failure is not None and reason in FAILED_CHECKS and found:
            known = await _failure_of(state, entry, failure, found)
        await state.updates.dequeue(entry, reason, Facts(), detail=detail, checks=checks, failure=known)
    await state.remember(ejected_member(state.memory, number))
