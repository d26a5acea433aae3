"""The event bus publishes to all subscribers, and isolates their failures."""

import asyncio

from notifications.event_bus import Event, EventBus
from queue_engine.domain.model import TimelineEvent
from tests.unit.notifications.notices import NOW, REPOSITORY


def event(name: str) -> TimelineEvent:
    """Something that happened to octo/garden#42."""
    return TimelineEvent(NOW, name, REPOSITORY.id, "main", 42)


def named(event: Event) -> str:
    """What happened."""
    assert isinstance(event, TimelineEvent)
    return event.event


def test_bus_subscribers_receive_events_until_they_unsubscribe() -> None:
    """Each event once, in order; ending a subscription twice is no error."""
    bus, received = EventBus[Event](), list[str]()
    end = bus.subscribe(lambda e: received.append(named(e)))
    bus.publish(event("queued"))
    bus.publish(event("landed"))
    end()
    end()
    bus.publish(event("unheard"))
    assert received == ["queued", "landed"]


def test_bus_failing_subscriber_harms_neither_publisher_nor_others() -> None:
    """The next subscriber receives the event all the same."""
    bus, received = EventBus[Event](), list[str]()

    def fail(_: Event) -> None:
        raise RuntimeError

    bus.subscribe(fail)
    bus.subscribe(lambda e: received.append(named(e)))
    bus.publish(event("queued"))
    assert received == ["queued"]


def test_bus_subscriber_that_ends_another_while_hearing_breaks_nothing() -> None:
    """Subscriptions may change during a publication."""
    bus, received = EventBus[Event](), list[str]()
    ends = [bus.subscribe(lambda e: ends[1]())]
    ends.append(bus.subscribe(lambda e: received.append(named(e))))
    bus.publish(event("first"))
    bus.publish(event("second"))
    assert received == ["first"]


async def test_stream_reads_events_published_before_and_after_it_waits() -> None:
    """From its creation on nothing is missed, whether a reader waits already or not."""
    bus = EventBus[Event]()
    async with bus.stream() as events:
        bus.publish(event("early"))
        assert named(await anext(events)) == "early"
        waiting = asyncio.ensure_future(anext(events))
        bus.publish(event("late"))
        assert named(await waiting) == "late"


async def test_stream_slow_reader_loses_the_oldest_and_knows_how_many() -> None:
    """A reader that sleeps costs bounded memory and can tell that it must look at the timeline."""
    bus = EventBus[Event]()
    async with bus.stream(buffer=2) as events:
        for name in ("a", "b", "c", "d"):
            bus.publish(event(name))
        assert [named(await anext(events)) for _ in range(2)] == ["c", "d"]
        assert events.missed == 2


async def test_stream_closed_receives_no_more_events() -> None:
    """Leaving the block ends the subscription."""
    bus = EventBus[Event]()
    async with bus.stream(buffer=1) as events:
        bus.publish(event("a"))
    bus.publish(event("b"))
    assert events.missed == 0
    assert named(await anext(events)) == "a"
