"""Notices about members of trains that leave, on both databases."""

from dataclasses import replace

from queue_engine.domain.notice import TrainLanding, TrainNotice, TrainProgress
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.effects import notices
from queue_engine.effects.context import Change
from queue_engine.store import Store
from queue_engine.store.trains import TrainMemory
from tests.store.examples import NOW
from tests.unit.queue_engine.effects.test_notices import ALL, joined, leave, wanted


async def test_landing_by_a_train_says_with_whom(store: Store) -> None:
    """The comment names the others, which no one sees in the pull request itself."""
    first, second = await joined(store, 1, 2)
    async with store.transaction() as tx:
        run = Run(
            id=None,
            queue_id=first.queue_id,
            base_branch="main",
            base_tip="0" * 40,
            members=tuple(RunMember(each.number, each.id, each.head_sha) for each in (first, second)),
            tested=frozenset({1, 2}),
            trigger=CandidateTrigger.PUSH,
            state=RunState.LANDING,
            started_at=NOW,
        )
        stored = await tx.runs.add(run)
        landed = replace(first, run=stored)
        await notices.announce_landed(Change(tx, NOW), landed, "4" * 40, ALL, mismatch=None)
    notice = await wanted(store)
    assert notice is not None
    assert notice.landed_with == TrainLanding(members=(1, 2), runs_saved=1)


async def test_failure_in_a_train_says_that_no_other_is_the_cause(store: Store) -> None:
    """IMQ ejects a member by a run that had no other one; a result of a former head says nothing."""
    alone, former = await joined(store, 1, 2)
    heads = {"1": [alone.id, alone.head_sha], "2": [former.id, "9" * 40]}
    failed = [{"run": 7, "members": [1, 2]}, {"run": 8, "members": [1]}, {"run": 9, "members": [2]}]
    async with store.transaction() as tx:
        await tx.trains.save(TrainMemory(alone.queue_id, 0, {"heads": heads, "failed": failed}))
    await leave(store, alone, Reason.CHECKS_FAILED)
    await leave(store, former, Reason.CHECKS_FAILED)
    notice, other = await wanted(store), await wanted(store, 2)
    assert notice is not None
    assert notice.train == TrainNotice(progress=TrainProgress.FAILED_ALONE, members=(1,), run=8)
    assert other is not None
    assert other.train is None
