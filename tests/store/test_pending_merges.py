"""Merges that outlive their entries, with what was tested."""

from dataclasses import replace

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.run import Run, RunState
from queue_engine.store import Transaction
from tests.store.examples import NOW, REPOSITORY, SOON, queue, stand


async def test_merge_of_an_entry_that_left_is_known_until_it_is_settled(t: Transaction) -> None:
    """Its last entry counts, with the trees, and as it was: ready to merge."""
    entry = await stand(t, await queue(t), 1)
    first = replace(entry, run=Run(tested_tree="old", merge_uuid="first"))
    run = Run(state=RunState.PASSED, tested_tree="tree", base_tip="tip", merge_uuid="uuid", started_at=NOW)
    second = replace(entry, head_sha="updated", own_check_required=True, run=run)
    await t.pending_merges.put(first, NOW)
    await t.pending_merges.put(second, NOW + SOON)
    found = await t.pending_merges.find(7, 1)
    assert found is not None
    assert (found.id, found.status, found.head_sha, found.run) == (entry.id, EntryStatus.READY, "updated", run)
    assert (found.repository, found.base_branch, found.own_check_required) == (REPOSITORY, "main", True)
    assert await t.pending_merges.numbers(7) == (1,)
    assert [await t.pending_merges.remove(7, 1) for _ in range(2)] == [True, False]
    assert await t.pending_merges.find(7, 1) is None


async def test_merge_that_github_forgot_long_ago_is_deleted(t: Transaction) -> None:
    """By the instant at which the entry left."""
    of = await queue(t)
    for number, at in ((1, NOW), (2, NOW + SOON)):
        await t.pending_merges.put(await stand(t, of, number), at)
    await t.pending_merges.purge(NOW + SOON)
    assert await t.pending_merges.numbers(7) == (2,)
