"""End the runs that can land no more: a member left, its head changed, or somebody pushed to the branch."""

from queue_engine.executor.trains.state import TrainState
from queue_engine.planner.trains.outcomes import cancelled


async def end_outdated_run(state: TrainState) -> bool:
    """End one run of which a member left or has another head, or which no plan knows; whether anything changed."""
    trains = state.memory.trains
    planned = {each.id: each for each in (*trains.runs, *trains.passed)}
    for run in state.runs:
        known = planned.get(run.id or 0)
        members = [each for each in run.members if known is not None and each.number in known.content]
        if run.test.new_head is not None:
            await state.cancel(run, why="branch_changed")
            return True
        if known is None or not members or any(state.entry_of(each) is None for each in members):
            await state.cancel(run, why="outdated" if known is None else "left")
            return True
    if gone := set(planned) - {run.id for run in state.runs}:
        memory = state.memory
        for run_id in gone:
            memory = cancelled(memory, run_id)
        await state.remember(memory)
    return bool(gone)
