"""Eject a member that makes runs fail, with the checks of the run that failed with it alone: what they prove.

A check that is green on the member's own head, and red on a candidate, is no proof in two cases. It may never have
passed on a candidate. Or another App reports it, and may judge IMQ's draft: no workflow says what it reads. Then the
member's own branch decides, in sequence: no member leaves for what is not known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from queue_engine.domain.candidate_run import CandidateRun, CandidateTrigger
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.executor.trains.state import TrainState
from queue_engine.planner.actions import Facts
from queue_engine.planner.check_limits import few
from queue_engine.planner.trains.outcomes import ejected_member, unblamed
from queue_engine.rules.checks import former_names

_Checks = Sequence[Mapping[str, Any]]
"""As `FailingChecks` keeps them."""


def kept(run: CandidateRun, checks: Sequence[CheckReport]) -> tuple[Mapping[str, Any], ...]:
    """Return failing checks of a run as evidence."""
    return tuple(
        {
            "name": each.name,
            "url": each.url,
            "conclusion": each.conclusion,
            "key": key_of_check(each),
            "may_judge_draft": run.trigger is CandidateTrigger.PULL_REQUEST and not each.by_actions,
        }
        for each in checks
    )


def key_of_check(report: CheckReport) -> str:
    """Name a check by its App and name."""
    return former_names([report])[0]


async def proving(state: TrainState, number: int, checks: _Checks) -> _Checks:
    """Return those of the failing checks that prove a fault of this member; without any, its own branch has to.

    Trains are off then. Raises GitHubError.
    """
    doubted = [each for each in checks if each.get("may_judge_draft") or each.get("key", "") not in state.memory.green]
    entry = next((each for each in state.entries if each.number == number), None)
    if entry is None or not (doubted := [each for each in doubted if "key" in each]):
        return checks
    reports = await state.engine.github.check_reports(entry.repository, entry.head, frozenset())
    red = {key_of_check(each) for each in reports if each.state is CheckState.FAILED}
    unproved = [each for each in doubted if each["key"] in {*map(key_of_check, reports)} - red]
    if len(unproved) < len(checks):
        return [each for each in checks if each not in unproved]
    # It may be the member's fault together with the base, or judge the pull request.
    on_some = {each["key"] for each in unproved} <= {*state.memory.green}
    await state.remember(unblamed(state.memory))
    names = few(tuple(each["name"] for each in unproved))
    await state.switch_off(Reason.CHECK_FAILS_ON_CANDIDATES, names, suspect=number, once=on_some)
    return ()


async def eject(state: TrainState, number: int) -> None:
    """Dequeue the member, then count that; unless its own branch has to show its fault. Raises GitHubError."""
    entry = next((each for each in state.entries if each.number == number), None)
    failure = state.memory.failure_of(number)
    if entry is not None:
        found: _Checks = failure.checks if failure is not None else ()
        if found and not (found := await proving(state, number, found)):
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
        await state.updates.dequeue(entry, reason, Facts(), detail=detail, checks=checks)
    await state.remember(ejected_member(state.memory, number))
