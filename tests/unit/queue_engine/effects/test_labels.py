"""Which labels of a pull request count, decided from wanted states, times and database rows alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.effects.labels import LabelStates, effective_labels, label_states
from queue_engine.effects.record import dequeue
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY, pull

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LABEL = POLICY.trigger_label


@pytest.mark.parametrize(
    ("wanted", "labeled", "consents"),
    [
        ({LABEL: False}, -60 * SECOND, False),
        ({LABEL: False}, 0 * SECOND, False),
        ({LABEL.upper(): False}, 0 * SECOND, False),
        ({LABEL: False}, SECOND, True),
        ({"ship": False}, 0 * SECOND, True),
        ({}, -61 * SECOND, False),
        ({}, -59 * SECOND, True),
        ({}, SECOND, True),
    ],
)
def test_label_consents_if_it_is_newer_than_the_dequeue(
    wanted: dict[str, bool], labeled: timedelta, consents: bool
) -> None:
    """P4: once the removal was delivered, clocks may differ by a minute; before, not at all."""
    assert LabelStates(wanted, NOW).consents(LABEL, NOW + labeled) is consents


@pytest.mark.parametrize("wanted", [{}, {LABEL: False}])
def test_label_of_unknown_time_is_no_consent_after_a_dequeue(wanted: dict[str, bool]) -> None:
    """P4: what GitHub does not tell is not taken for the better."""
    assert not LabelStates(wanted, NOW).consents(LABEL, None)
    assert LabelStates({}, None).consents(LABEL, None)


async def test_label_states_are_those_of_this_pull_request_since_its_last_dequeue(sqlite_database: Database) -> None:
    """P4: what was dequeued needs a newer label, whether or not the removal of the old one was delivered."""
    scene = Setup(Store(sqlite_database))
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        assert await label_states(tx, REPOSITORY.id, 1) == LabelStates()
        (entry,) = await tx.entries.of_queue(queue.id)
        await dequeue(Change(tx, NOW), entry, DequeueReason(Reason.CONFLICT), POLICY)
        assert await label_states(tx, REPOSITORY.id, 1) == LabelStates({LABEL: False}, NOW)
        assert await label_states(tx, REPOSITORY.id, 2) == LabelStates()
        assert await label_states(tx, REPOSITORY.id + 1, 1) == LabelStates()


@pytest.mark.parametrize(
    ("read", "wanted", "counts"),
    [
        ({LABEL}, {}, True),
        (set(), {}, False),
        ({LABEL}, {LABEL: False}, False),
        ({LABEL.upper()}, {LABEL: False}, False),
        (set(), {LABEL: True}, True),
        ({"ship"}, {}, False),
    ],
)
async def test_wanted_state_counts_until_github_has_confirmed_it(
    sqlite_database: Database, read: set[str], wanted: dict[str, bool], counts: bool
) -> None:
    """P4: neither is a label that IMQ is to remove consent, nor is one that IMQ is to set missing."""
    store, policy = Store(sqlite_database), replace(POLICY, trigger_labels=(LABEL, "ship"))
    async with store.transaction() as tx:
        for label, on in wanted.items():
            await tx.outbox.want_label(REPOSITORY, 1, label, on=on, due=NOW)
    effective = await effective_labels(store, REPOSITORY, pull(labels=frozenset(read)), [LABEL], policy)
    assert policy.has_trigger_label(effective.labels) is counts


async def test_label_that_imq_was_to_set_is_removed_once_its_pull_request_has_left(sqlite_database: Database) -> None:
    """P4: set after a person removed it, the label would look like a new consent."""
    scene = Setup(Store(sqlite_database))
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        (entry,) = await tx.entries.of_queue(queue.id)
        await tx.outbox.want_label(REPOSITORY, 1, LABEL, on=True, due=NOW)
        await dequeue(Change(tx, NOW), entry, DequeueReason(Reason.LABEL_REMOVED), POLICY)
        assert await label_states(tx, REPOSITORY.id, 1) == LabelStates({LABEL: False}, NOW)
