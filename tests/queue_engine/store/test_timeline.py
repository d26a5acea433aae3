from queue_engine.reasons import Reason
from queue_engine.store import Store
from tests.queue_engine.store.examples import NOW, OTHER, REPOSITORY, SOON


async def test_timeline_tells_what_happened_in_order(store: Store) -> None:
    """Every event is kept as it was told, and found by pull request, from the end, and from a known one on."""
    told = [(REPOSITORY, 1, "enqueued"), (OTHER, 1, "enqueued"), (REPOSITORY, 2, "enqueued"), (REPOSITORY, 1, "left")]
    async with store.transaction() as t:
        for repository, number, event in told:
            await t.timeline.append(at=NOW, event=event, repository_id=repository.id, base_branch="main", number=number)
    async with store.reading() as t:
        events = await t.timeline.since(0)
        assert [(e.repository_id, e.number, e.event) for e in events] == [(r.id, n, event) for r, n, event in told]
        assert await t.timeline.of_pull_request(REPOSITORY.id, 1) == (events[0], events[3])
        assert await t.timeline.latest(2) == (events[3], events[2])
        assert await t.timeline.since(events[1].id) == events[2:]


async def test_timeline_keeps_every_detail_of_an_event(store: Store) -> None:
    """Reason, delivery, entry and data come back as they were written."""
    async with store.transaction() as t:
        await t.timeline.append(
            at=NOW + SOON,
            event="left",
            repository_id=REPOSITORY.id,
            base_branch="main",
            number=1,
            entry_id="e1",
            reason=Reason.CHECKS_FAILED,
            delivery="guid-1",
            data={"checks": ["build"]},
        )
        (event,) = await t.timeline.latest(9)
    assert (event.at, event.entry_id, event.delivery) == (NOW + SOON, "e1", "guid-1")
    assert event.reason is Reason.CHECKS_FAILED
    assert event.data == {"checks": ["build"]}


async def test_timeline_story_is_a_pull_requests_last_events_and_those_of_its_queue_since(store: Store) -> None:
    """What happened to the queue before it came, to other queues and to other pull requests is not its story."""
    told = [
        (0, "main", "paused"),
        (1, "main", "queued"),
        (1, "main", "checking"),
        (0, "other", "paused"),
        (2, "main", "queued"),
        (0, "main", "resumed"),
        (1, "main", "landed"),
    ]
    async with store.transaction() as t:
        for number, branch, event in told:
            await t.timeline.append(at=NOW, event=event, repository_id=7, base_branch=branch, number=number)
        await t.timeline.append(at=NOW, event="paused", repository_id=OTHER.id, base_branch="main", number=0)
    async with store.reading() as t:
        whole = await t.timeline.story(REPOSITORY.id, "main", 1, limit=60)
        assert [event.event for event in whole] == ["queued", "checking", "resumed", "landed"]
        last = await t.timeline.story(REPOSITORY.id, "main", 1, limit=2)
        assert [event.event for event in last] == ["checking", "resumed", "landed"]
        assert await t.timeline.story(REPOSITORY.id, "main", 3, limit=2) == ()
