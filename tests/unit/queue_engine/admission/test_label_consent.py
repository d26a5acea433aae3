"""When a label is consent after a dequeue: pure judgements over times."""

from datetime import timedelta

import pytest

from queue_engine.admission.label_consent import DequeueHistory, last_dequeue
from queue_engine.core.database.database import Database
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.effects.record import dequeue
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxKind
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("pending", "labelled", "consents"),
    [
        (True, -60 * SECOND, False),
        (True, 0 * SECOND, False),
        (True, SECOND, True),
        (False, -61 * SECOND, False),
        (False, -59 * SECOND, True),
        (False, SECOND, True),
    ],
)
def test_label_consents_if_it_is_newer_than_the_dequeue(pending: bool, labelled: timedelta, consents: bool) -> None:
    """P4: once the removal was delivered, clocks may differ by a minute; before, not at all."""
    assert DequeueHistory(NOW, pending).precedes(NOW + labelled) is consents


@pytest.mark.parametrize("pending", [True, False])
def test_label_of_unknown_time_is_no_consent(pending: bool) -> None:
    """P4: what GitHub does not tell is not taken for the better."""
    assert not DequeueHistory(NOW, pending).precedes(None)


async def test_last_dequeue_is_that_of_this_pull_request_with_the_removal_of_its_label(
    sqlite_database: Database,
) -> None:
    """P4: what was dequeued needs a newer label, whether or not the removal of the old one was delivered."""
    scene = Setup(Store(sqlite_database))
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        assert await last_dequeue(tx, REPOSITORY.id, 1) is None
        (entry,) = await tx.entries.of_queue(queue.id)
        await dequeue(Change(tx, NOW), entry, DequeueReason(Reason.CONFLICT), POLICY)
        assert await last_dequeue(tx, REPOSITORY.id, 1) == DequeueHistory(NOW, removal_pending=True)
        assert await last_dequeue(tx, REPOSITORY.id, 2) is None
        assert await last_dequeue(tx, REPOSITORY.id + 1, 1) is None
        await tx.outbox.withdraw(OutboxKind.LABEL_OFF, REPOSITORY.id, 1)
        assert await last_dequeue(tx, REPOSITORY.id, 1) == DequeueHistory(NOW, removal_pending=False)
