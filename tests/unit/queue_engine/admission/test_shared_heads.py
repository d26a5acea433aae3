"""IMQ's update of a branch that two queued pull requests share, as the other one's entry follows it."""

from datetime import datetime
from typing import Any

import pytest

from queue_engine.admission.bound_heads import follow_shared_update
from queue_engine.admission.case import load_case
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Entry, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.effects.record import set_aside
from queue_engine.store import Store
from tests.store.examples import changed
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import CHECKING, NOW, POLICY, REPOSITORY, comparison


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    made = Setup(Store(sqlite_database))
    made.github.compared = comparison(parents=("head-1", "base-1"))
    return made


async def followed(scene: Setup, **changes: Any) -> tuple[Entry | None, datetime | None]:
    """Let a queued entry with a branch of its own follow `head-2`: its entry then, and when its queue is due."""
    async with scene.store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        more: dict[str, Any] = {"head_branch": "acme/widgets:topic", "queued_by": "max", "queued_head": "head-1"}
        added = await tx.entries.add(
            queue_id=queue.id, number=1, title="Change 1", author="ada", enqueued_at=NOW, **more
        )
        await tx.entries.save(changed(added, **changes))
    case = await (await load_case(scene.engine, REPOSITORY, 1)).with_policy(scene.engine, "main")
    assert case.policy == POLICY
    await follow_shared_update(scene.engine, case, "head-2", by_imq=True)
    async with scene.store.reading() as tx:
        return await tx.entries.find(REPOSITORY.id, 1), await tx.queues.next_due()


async def test_update_that_brings_nothing_new_is_bound_and_the_queue_is_due(scene: Setup) -> None:
    """P4: the parents prove it, and the ledger has it; the queue tests the new head at once."""
    entry, due = await followed(scene)
    assert entry is not None
    async with scene.store.reading() as tx:
        await tx.consents.verify(entry)
    assert (entry.head_sha, entry.queued_head, due) == ("head-2", "head-2", NOW)


async def test_update_changes_no_entry_whose_merge_was_requested(scene: Setup) -> None:
    """P1: only the pass that requested the merge judges the entry."""
    entry, _ = await followed(scene, merge_requested_at=NOW)
    assert entry is not None
    assert entry.head_sha == "head-1"


async def test_update_that_is_proved_as_its_entry_waits_for_an_approval_again_has_its_consent(scene: Setup) -> None:
    """P4: automation dismissed the approval right after IMQ's update; with a new one the entry lands."""
    queue = await scene.front(status=CHECKING, base_tip="base-1", head_sha="head-2", head_proved=False)
    async with scene.engine.change() as change:
        (entry,) = await change.tx.entries.of_queue(queue.id)
        saved = await set_aside(change, entry, UnmetRequirement(Reason.APPROVAL_MISSING, "why"), POLICY)
        await change.tx.consents.verify(saved)
