"""The records of landings: deleted by age, signed by the current key, exported a few at a time."""

import json
import tracemalloc
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from queue_engine.domain.landing_record import LandingKey
from queue_engine.store import Store, Transaction
from queue_engine.store.proof_marks import LandingProgress, ProofMark
from queue_engine.store.queue_file import QueueFile, file_lines, read_queues
from queue_engine.store.tables import landings
from tests.store.examples import NOW, OTHER, REPOSITORY, queue

DAY = timedelta(days=1)
MARK = ProofMark(REPOSITORY.id, "tree", "mark", "refs/x/mark/tree", "commit", NOW + DAY)


def record(number: int, repository_id: int = REPOSITORY.id) -> dict[str, Any]:
    """The record of a landing, of the usual size."""
    return {
        "repository": {"id": repository_id, "name": "acme/rocket"},
        "base": {"branch": "main", "before": "0" * 40},
        "landed": {"commit": f"{number:040x}", "tree": "1" * 40, "at": NOW.isoformat()},
        "members": [{"number": number}],
        "verdict": {"result": "equal"},
        "more": "x" * 1500,
    }


async def add(t: Transaction, number: int, at: datetime = NOW, **more: Any) -> None:
    """Store a landing that no key signed."""
    assert await t.landings.add(record(number, **more), at, None, ())


async def test_landings_are_deleted_by_age_the_oldest_first(t: Transaction) -> None:
    """A purge deletes a batch, and nothing younger."""
    for number in range(1, 6):
        await add(t, number, NOW + number * DAY)
    assert await t.landings.purge(NOW + 4 * DAY, at_most=2) == 2
    assert [each.number for each in await t.landings.since(None, 9)] == [3, 4, 5]
    assert await t.landings.purge(NOW + 4 * DAY, at_most=2) == 1
    assert [each.number for each in await t.landings.since(None, 9)] == [4, 5]


async def test_landing_is_stored_only_under_the_key_that_signs_now(t: Transaction) -> None:
    """P2: another process may have rotated it since this one signed."""
    for number, name in enumerate(("former", "current")):
        await t.landing_keys.add(LandingKey(name, "00", "sealed", NOW + number * DAY, None))
    stored = [await t.landings.add(record(1), NOW, name, ("sig",)) for name in ("former", "none", "current")]
    assert stored == [False, False, True]
    [found] = await t.landings.since(None, 9)
    assert (found.key_id, found.signatures, found.record) == ("current", ("sig",), record(1))


async def test_mark_expires_unless_another_one_took_its_place(t: Transaction) -> None:
    """The oldest first, by repository."""
    for repository in (REPOSITORY, OTHER):
        await queue(t, repository=repository)
    await t.proof_marks.save(MARK)
    await t.proof_marks.save(replace(MARK, answered=True))
    await t.proof_marks.save(replace(MARK, repository_id=OTHER.id, expires_at=NOW + 3 * DAY))
    assert await t.proof_marks.with_expired(NOW) == []
    assert await t.proof_marks.with_expired(NOW + DAY) == [REPOSITORY.id]
    found = await t.proof_marks.expired(REPOSITORY.id, NOW + DAY, at_most=9)
    assert found == (replace(MARK, answered=True),)
    await t.proof_marks.save(replace(MARK, expires_at=NOW + 2 * DAY))
    await t.proof_marks.remove(found)
    assert await t.proof_marks.of_tree(REPOSITORY.id, "tree", "mark") is not None
    await t.proof_marks.remove(await t.proof_marks.expired(REPOSITORY.id, NOW + 9 * DAY, at_most=9))
    assert await t.proof_marks.of_tree(REPOSITORY.id, "tree", "mark") is None


async def test_tree_has_a_mark_for_each_branch_and_its_checks(t: Transaction) -> None:
    """P1: each expires by itself; where one is a branch, the next ones use its commit."""
    await queue(t)
    await t.proof_marks.save(MARK)
    assert await t.proof_marks.branch_commit(REPOSITORY.id) is None
    other = replace(MARK, mark="other", ref="refs/heads/x/other/tree", object="own", expires_at=NOW + 2 * DAY)
    await t.proof_marks.save(other)
    assert await t.proof_marks.expired(REPOSITORY.id, NOW + DAY, at_most=9) == (MARK,)
    assert await t.proof_marks.of_tree(REPOSITORY.id, "tree", "other") == other
    assert await t.proof_marks.branch_commit(REPOSITORY.id) == "own"


async def test_notes_are_stored_as_far_as_they_are_written(t: Transaction) -> None:
    """None at first; the last ones count."""
    await queue(t)
    assert await t.proof_marks.notes(REPOSITORY.id) == LandingProgress()
    for last in (3, 7):
        await t.proof_marks.save_notes(REPOSITORY.id, LandingProgress(last, "tip", "tree"))
    assert await t.proof_marks.notes(REPOSITORY.id) == LandingProgress(7, "tip", "tree")


async def test_export_has_every_landing_and_of_one_repository_its_own(t: Transaction) -> None:
    """The lines make one file, whatever the number of pages."""
    for number in range(1, 1002):
        await add(t, number, repository_id=REPOSITORY.id if number % 2 else OTHER.id)
    for wanted, expected in ((None, 1001), (OTHER.id, 500)):
        file = await read_queues(t.connection, NOW, wanted)
        lines = [line async for line in file_lines(t.connection, file, wanted)]
        read = QueueFile.model_validate_json("\n".join(lines))
        assert len(read.landings) == expected
        assert json.loads("\n".join(lines))["landings"][-1]["number"] == (1001 if wanted is None else 1000)


@pytest.mark.thorough
async def test_export_of_many_landings_holds_a_few(store: Store) -> None:
    """Memory does not grow with the records."""
    copied = [column for column in landings.columns if column.name != "id"]
    async with store.transaction() as t:
        await add(t, 1)
        for _ in range(13):
            await t.connection.execute(insert(landings).from_select(copied, select(*copied)))
    async with store.reading() as t:
        file = await read_queues(t.connection, NOW)
        tracemalloc.start()
        try:
            lines = [1 async for _ in file_lines(t.connection, file)]
            assert len(lines) > 2**13
            assert tracemalloc.get_traced_memory()[1] < 6_000_000
        finally:
            tracemalloc.stop()
