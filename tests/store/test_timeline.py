from dataclasses import replace
from typing import Any

import pytest

from queue_engine.domain.model import WHOLE_QUEUE, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store
from queue_engine.store.tables import timeline
from tests.store.examples import NOW, OTHER, REPOSITORY, SOON


async def test_timeline_shows_events_in_order(store: Store) -> None:
    """Every event is kept as it was recorded, and found by pull request, from the end, and from a known one on."""
    recorded = [
        (REPOSITORY, 1, "enqueued"),
        (OTHER, 1, "enqueued"),
        (REPOSITORY, 2, "enqueued"),
        (REPOSITORY, 1, "left"),
    ]
    async with store.transaction() as t:
        for repository, number, event in recorded:
            await t.timeline.append(TimelineEvent(NOW, event, repository.id, "main", number))
    async with store.reading() as t:
        events = await t.timeline.since(0, limit=100)
        assert [(e.repository_id, e.number, e.event) for e in events] == [(r.id, n, event) for r, n, event in recorded]
        assert await t.timeline.of_pull_request(REPOSITORY.id, 1) == (events[0], events[3])
        assert await t.timeline.latest(2) == (events[3], events[2])
        assert await t.timeline.since(events[1].id, limit=1000) == events[2:]


@pytest.mark.parametrize("data", [{"checks": ["build"]}, {}])
async def test_timeline_reads_the_event_that_was_appended(store: Store, data: dict[str, Any]) -> None:
    """Every field comes back as it was written; `append` returns the event with the id that readers find."""
    event = TimelineEvent(NOW + SOON, "left", REPOSITORY.id, "main", 1, "e1", Reason.CHECKS_FAILED, "guid-1", data)
    async with store.transaction() as t:
        appended = await t.timeline.append(event)
        following = await t.timeline.append(event)
        assert await t.timeline.latest(9) == (following, appended)
    assert 0 < appended.id < following.id
    assert replace(appended, id=0) == event


async def test_timeline_reads_rows_without_data(store: Store) -> None:
    """Databases hold NULL for an event without data."""
    row = {"at": NOW, "event": "left", "repository_id": REPOSITORY.id, "base_branch": "main", "number": 1}
    async with store.transaction() as t:
        await t.connection.execute(timeline.insert(), row)
        (event,) = await t.timeline.latest(9)
    assert replace(event, id=0) == TimelineEvent(NOW, "left", REPOSITORY.id, "main", 1)


async def test_timeline_history_is_a_pull_requests_last_events_and_those_of_its_queue_since(store: Store) -> None:
    """Earlier events of the queue, and those of other queues and pull requests, are not part of its history."""
    recorded = [
        (0, "main", "paused"),
        (1, "main", "queued"),
        (1, "main", "checking"),
        (0, "other", "paused"),
        (2, "main", "queued"),
        (0, "main", "resumed"),
        (1, "main", "landed"),
    ]
    async with store.transaction() as t:
        for number, branch, event in recorded:
            await t.timeline.append(TimelineEvent(NOW, event, REPOSITORY.id, branch, number))
        await t.timeline.append(TimelineEvent(NOW, "paused", OTHER.id, "main", WHOLE_QUEUE))
    async with store.reading() as t:
        whole = await t.timeline.history(REPOSITORY.id, "main", 1, limit=60)
        assert [event.event for event in whole] == ["queued", "checking", "resumed", "landed"]
        last = await t.timeline.history(REPOSITORY.id, "main", 1, limit=2)
        assert [event.event for event in last] == ["checking", "resumed", "landed"]
        assert await t.timeline.history(REPOSITORY.id, "main", 3, limit=2) == ()
