"""P4: people and programs dequeue a pull request if its author asks, or a person who may queue it."""

from typing import Any

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.enqueue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, READY, REPOSITORY, pull


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def reasons(scene: Setup) -> list[Reason | None]:
    """Why entries left."""
    async with scene.store.reading() as tx:
        return [event.reason for event in await tx.timeline.latest(20)]


async def dequeue(scene: Setup, by: str, **given: Any) -> bool:
    permitted = await authorize_dequeue(scene.engine, await load_case(scene.engine, REPOSITORY, 1), by=by, **given)
    async with scene.engine.change() as change:
        return await dequeue_by_user(change, permitted)


async def test_author_dequeues_without_the_right_to_queue_and_without_a_request(scene: Setup) -> None:
    """A person may always dequeue their own pull request."""
    await scene.front()
    assert await dequeue(scene, "Ada")
    assert (await reasons(scene), scene.github.asked) == ([Reason.UNQUEUED], [])


async def test_person_without_the_right_dequeues_nothing(scene: Setup) -> None:
    """The person's permission is asked of GitHub, or taken from the caller's snapshot."""
    await scene.front()
    with pytest.raises(RejectionError) as refused:
        await dequeue(scene, "eve")
    assert (refused.value.reason, scene.github.asked) == (Reason.LABEL_WITHOUT_RIGHT, ["permission"])
    with pytest.raises(RejectionError):
        await dequeue(scene, "max", taken=Snapshot(pull(), Permission.READ))
    assert (await reasons(scene), scene.github.asked) == ([], ["permission"])


async def test_pull_request_without_an_entry_cannot_be_dequeued(scene: Setup) -> None:
    """The caller says so."""
    with pytest.raises(NotQueued):
        await dequeue(scene, "max")


async def test_label_counts_no_more_while_github_merges(scene: Setup) -> None:
    """P4: GitHub decides about the merge; if it refuses, the merge is not tried again."""
    await scene.front(status=READY, merge_requested_at=NOW, trusted_labels=(POLICY.trigger_label,))
    assert not await dequeue(scene, "max")
    async with scene.store.reading() as tx:
        assert await tx.outbox.wanted_labels(REPOSITORY.id, 1) == {POLICY.trigger_label: False}
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    assert (entry.needs_refetch, entry.trusted_labels) == (True, ())
