"""Eject a member that makes runs fail, with the checks of the run that failed with it alone."""

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.executor.trains.state import TrainState
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.outcomes import ejected_member


async def eject(state: TrainState, number: int) -> None:
    """Dequeue the member, then count that."""
    entry = next((each for each in state.entries if each.number == number), None)
    failure = state.memory.failure_of(number)
    if entry is not None:
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
            for each in (failure.checks if failure is not None else ())
        )
        reason = Reason.CHECKS_FAILED if failure is None else Reason(failure.reason)
        detail = None if failure is None else failure.detail
        await state.updates.dequeue(entry, reason, Facts(), detail=detail, checks=checks)
    await state.remember(ejected_member(state.memory, number))
