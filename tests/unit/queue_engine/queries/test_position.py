"""The position of an entry, its ETA, and which entries it delays."""

from queue_engine.core.database.database import Database
from queue_engine.queries.queue_status import AHEAD_NAMED, load_delay, load_position, position_of
from queue_engine.store import Store
from tests.store.examples import changed, queue, stand
from tests.unit.queue_engine.examples import MINUTE, NOW
from tests.unit.queue_engine.queries.examples import DURATIONS, entries, happened


def test_position_names_those_ahead_the_front_first_and_at_most_ten() -> None:
    """No entry is ahead of the front; the thirteenth has twelve ahead, of which ten are named."""
    line = entries(13)
    front, last = (position_of(each, line, DURATIONS, NOW, depth=13) for each in (line[0], line[-1]))
    assert (front.position, front.depth, front.ahead) == (0, 13, ())
    assert (last.position, last.ahead) == (12, tuple(range(1, AHEAD_NAMED + 1)))


def test_position_expects_a_landing_from_the_time_that_the_front_has_spent() -> None:
    """The front was there for four minutes, of about ten; without history nothing is expected."""
    line, now = entries(2), NOW + 4 * MINUTE
    front, second = (position_of(each, line, DURATIONS, now, depth=2) for each in line)
    assert front.eta == (now + 6 * MINUTE, now + 7 * MINUTE)
    assert second.eta == (now + 15 * MINUTE, now + 20 * MINUTE)
    assert position_of(line[1], line, DURATIONS[1:], now, depth=2).eta is None


async def test_position_is_the_same_from_the_database(sqlite_database: Database) -> None:
    """The first entries alone give the same position as the whole queue."""
    async with Store(sqlite_database).transaction() as t:
        stored = await queue(t)
        line = [await stand(t, stored, number) for number in range(1, 14)]
        line[0] = await t.entries.save(changed(line[0], started_at=NOW - MINUTE))
        for _ in DURATIONS:
            await happened(t, 99, "landed", data={"front": 600})
        loaded = [await load_position(t, line[place], NOW, depth=13) for place in (0, 12)]
    assert loaded == [position_of(line[place], line, DURATIONS, NOW, depth=13) for place in (0, 12)]
    assert loaded[0].eta == (NOW + 9 * MINUTE, NOW + 10 * MINUTE)


async def test_delay_is_estimated_with_the_depth_of_the_queue(sqlite_database: Database) -> None:
    """An entry of a higher priority delays each of the two before it by the duration of one run."""
    async with Store(sqlite_database).transaction() as t:
        stored = await queue(t)
        for number in (1, 2):
            await stand(t, stored, number)
        await happened(t, 99, "landed", data={"front": 600})
        urgent = await stand(t, stored, 3, priority=10)
        depth, delay = await load_delay(t, urgent, NOW)
    assert (depth, delay.numbers, delay.by) == (3, (1, 2), 10 * MINUTE)
