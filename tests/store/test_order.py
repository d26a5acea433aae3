"""P3 under any sequence of operations: the stored queue against a list that a person would keep by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete, text

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry, EntryOrder, EntryStatus, Queue
from queue_engine.rules.transitions import check_queue
from queue_engine.store import EntryConflict, Store, Transaction
from queue_engine.store.tables import entries
from tests.store.examples import NOW, changed, queue, stand

T = TypeVar("T")
BRANCHES = ("main", "release")
AGEING = timedelta(minutes=10)
PRIORITIES = (-1, 0, 1, 3)
STANDINGS = st.builds(EntryOrder, priority=st.sampled_from(PRIORITIES), hotfix=st.booleans(), preempts=st.booleans())
JUMPS = st.sampled_from([timedelta(minutes=m) for m in (0, 1, 4, 11, 45, -7, 60 * 24 * 400, -60 * 24 * 400)])


SETTINGS = settings(
    max_examples=6,
    stateful_step_count=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    # A sequence that fails is told as it was found: to shorten it on a database takes minutes.
    phases=[Phase.generate],
)


@dataclass
class Kept:
    """An entry as a person would keep it: with the time that it came, by clocks that never go back."""

    entry: Entry
    came: datetime

    @property
    def place(self) -> tuple[bool, bool, datetime]:
        """Who is processed, hotfixes, then the longest waiting, each priority counting as a head start."""
        entry = self.entry
        waits = entry.status is EntryStatus.PENDING
        return waits, not entry.hotfix, self.came - entry.priority * AGEING


class QueueMachine(RuleBasedStateMachine):
    """Two queues of one repository; `kept` is what they must hold, in the order of arrival."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        super().__init__()
        self._runner = runner
        self._store = store
        self._queues: dict[str, Queue] = {}
        self._clock = NOW
        self.kept: list[Kept] = []
        self.stale: list[Entry] = []
        self._within(self._start_empty)

    async def _start_empty(self, t: Transaction) -> None:
        await t.connection.execute(delete(entries))
        self._queues = {branch: await queue(t, branch) for branch in BRANCHES}

    def _within(self, operation: Callable[[Transaction], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self._store.transaction() as t:
                return await operation(t)

        return self._runner.run(run())

    def _standing(self, branch: str) -> list[Kept]:
        """This queue, by hand."""
        return sorted((k for k in self.kept if k.entry.base_branch == branch), key=lambda kept: kept.place)

    @rule(jump=JUMPS)
    def set_clock(self, jump: timedelta) -> None:
        """Time passes, or somebody sets the clock, back as well."""
        self._clock += jump

    @rule(branch=st.sampled_from(BRANCHES), number=st.integers(1, 8), standing=STANDINGS)
    def add(self, branch: str, number: int, standing: EntryOrder) -> None:
        """A pull request is queued; one that stands somewhere already is refused and changes nothing."""
        stands = any(kept.entry.number == number for kept in self.kept)
        came = max([self._clock, *(kept.came for kept in self.kept if kept.entry.base_branch == branch)])
        try:
            added = self._within(
                lambda t: stand(t, self._queues[branch], number, at=self._clock, ageing=AGEING, **vars(standing))
            )
        except EntryConflict:
            assert stands
        else:
            assert not stands
            self.kept.append(Kept(added, came))

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """An entry leaves."""
        kept = data.draw(st.sampled_from(self.kept))
        self._within(lambda t: t.entries.remove(kept.entry))
        self.kept.remove(kept)
        self.stale.append(kept.entry)

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), standing=STANDINGS)
    def reprioritise(self, data: st.DataObject, standing: EntryOrder) -> None:
        """An entry gets another priority: it stands where it would if it had come with it."""
        kept = data.draw(st.sampled_from(self.kept))
        before = kept.entry
        kept.entry = self._within(lambda t: t.entries.reprioritise(before, standing, AGEING))
        assert (kept.entry.priority, kept.entry.hotfix) == (standing.priority, standing.hotfix)
        self.stale.append(before)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        """The front begins, or a hotfix preempts it."""
        branch = data.draw(st.sampled_from(sorted({kept.entry.base_branch for kept in self.kept})))
        front = self._standing(branch)[0]
        before = front.entry
        begins = before.status is EntryStatus.PENDING
        after = changed(before, status=EntryStatus.CHECKING) if begins else replace(before, run=before.run.ended())
        front.entry = self._within(lambda t: t.entries.save(after))
        self.stale.append(before)

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), removing=st.booleans())
    def decide_on_an_old_view(self, data: st.DataObject, removing: bool) -> None:
        """What was decided on an older version is refused."""
        entry = data.draw(st.sampled_from(self.stale))
        try:
            if removing:
                self._within(lambda t: t.entries.remove(entry))
            else:
                self._within(lambda t: t.entries.save(replace(entry, title="stale")))
        except StaleRecord:
            return
        raise AssertionError("a stale entry was accepted")

    @invariant()
    def queues_are_as_kept_by_hand(self) -> None:
        """Positions contiguous, pull requests unique, first in, first out within a priority, nothing else changed."""
        stored = self._within(self._read)
        for branch in BRANCHES:
            check_queue(stored[branch])
            by_hand = self._standing(branch)
            expected = [replace(kept.entry, position=position) for position, kept in enumerate(by_hand)]
            assert list(stored[branch]) == expected

    async def _read(self, t: Transaction) -> dict[str, tuple[Entry, ...]]:
        return {branch: await t.entries.of_queue(found.id) for branch, found in self._queues.items()}


@pytest.mark.long("postgres")
def test_queue_under_any_sequence_of_operations_keeps_its_order(database_url: str) -> None:
    """Whatever is added, removed, changed or decided on an old view, and however clocks jump, the order is right."""
    database = Database(database_url)
    with asyncio.Runner() as runner:

        class Machine(QueueMachine):
            def __init__(self) -> None:
                super().__init__(runner, Store(database))

        run_state_machine_as_test(Machine, settings=SETTINGS)
        runner.run(database.close())


async def numbers(t: Transaction, at: Queue) -> list[int]:
    return [entry.number for entry in await t.entries.of_queue(at.id)]


async def test_entry_that_waits_is_overtaken_only_by_those_who_come_within_its_priorities_difference(
    store: Store,
) -> None:
    """No entry starves: an endless stream of higher priority passes by for a bounded time, and no longer."""
    async with store.transaction() as t:
        main = await queue(t)
        await stand(t, main, 1, ageing=AGEING)
        for number in range(2, 30):
            at = NOW + (number - 2) * timedelta(minutes=5)
            await stand(t, main, number, priority=3, at=at, ageing=AGEING)
        order = await numbers(t, main)
    # Three points of ten minutes each: who came later than half an hour after it stands behind it; 8 came exactly then.
    assert order[: order.index(1)] == [2, 3, 4, 5, 6, 7]
    assert order == [*range(2, 8), 1, *range(8, 30)]


async def test_hotfixes_go_before_every_priority_in_the_order_of_their_arrival(store: Store) -> None:
    """A hotfix does not wait for others, however long they have waited; it does wait for the hotfixes before it."""
    async with store.transaction() as t:
        main = await queue(t)
        for number in (1, 2):
            await stand(t, main, number, priority=9, at=NOW)
        for number in (3, 4):
            await stand(t, main, number, hotfix=True, at=NOW + timedelta(hours=1))
        assert await numbers(t, main) == [3, 4, 1, 2]


@pytest.mark.parametrize(("before", "after"), [(10, 60), (60, 10)])
@pytest.mark.parametrize("priority", [-2, 2])
async def test_order_within_a_priority_stays_when_its_head_start_is_changed(
    store: Store, priority: int, before: int, after: int
) -> None:
    """First in, first out within a priority, whatever the repository's configuration was when each of them came."""
    old, new = timedelta(minutes=before), timedelta(minutes=after)
    async with store.transaction() as t:
        main = await queue(t)
        first = await stand(t, main, 1, priority=0, at=NOW, ageing=old)
        for number in (2, 3):
            await stand(t, main, number, priority=priority, at=NOW + timedelta(minutes=number), ageing=old)
        await stand(t, main, 4, priority=priority, at=NOW + timedelta(minutes=4), ageing=new)
        await t.entries.reprioritise(first, EntryOrder(priority=priority), new)
        assert await numbers(t, main) == [1, 2, 3, 4]


@pytest.mark.parametrize("priority", [-2, 2])
async def test_order_of_one_that_gets_the_priority_of_those_before_it_is_behind_them(
    store: Store, priority: int
) -> None:
    """First in, first out within a priority, also when the head start was changed before it got that priority."""
    ages = [timedelta(minutes=m) for m in ((10, 60) if priority > 0 else (60, 10))]
    async with store.transaction() as t:
        main = await queue(t)
        for number in (1, 2):
            await stand(t, main, number, priority=priority, at=NOW, ageing=ages[0])
        last = await stand(t, main, 3, priority=0, at=NOW + timedelta(minutes=1), ageing=ages[0])
        await t.entries.reprioritise(last, EntryOrder(priority=priority), ages[1])
        assert await numbers(t, main) == [1, 2, 3]


async def test_order_of_one_that_gets_the_priority_of_later_ones_is_that_of_its_own_arrival(store: Store) -> None:
    """Only those of its priority who came before it hold it back; it is not put off to those who came later."""
    async with store.transaction() as t:
        main = await queue(t)
        first = await stand(t, main, 1, at=NOW, ageing=AGEING)
        await stand(t, main, 2, at=NOW + timedelta(minutes=1), ageing=AGEING)
        await stand(t, main, 3, priority=1, at=NOW + timedelta(minutes=30), ageing=AGEING)
        await t.entries.reprioritise(first, EntryOrder(priority=1), AGEING)
        assert await numbers(t, main) == [1, 2, 3]


async def test_order_of_those_who_came_in_the_same_millisecond_is_that_of_their_numbers(store: Store) -> None:
    """P3: equal ranks are no tie, wherever the database keeps the rows: PostgreSQL moves one that is changed."""
    async with store.transaction() as t:
        if t.connection.dialect.name == "postgresql":
            for way in ("indexscan", "bitmapscan"):
                await t.connection.execute(text(f"SET LOCAL enable_{way} = off"))
        main = await queue(t)
        first = await stand(t, main, 1)
        for number in (2, 3):
            await stand(t, main, number)
        await t.entries.save(replace(first, title="Another title"))
        assert await numbers(t, main) == [1, 2, 3]


async def test_reprioritise_of_the_front_keeps_it_at_the_front(store: Store) -> None:
    """A removed label sends no entry back that has begun."""
    async with store.transaction() as t:
        main = await queue(t)
        front = await stand(t, main, 1, priority=5)
        await stand(t, main, 2, priority=1)
        front = await t.entries.save(changed(front, status=EntryStatus.CHECKING))
        demoted = await t.entries.reprioritise(front, EntryOrder(), AGEING)
        assert (demoted.position, demoted.priority, demoted.status) == (0, 0, EntryStatus.CHECKING)
        assert await numbers(t, main) == [1, 2]


async def test_reprioritise_of_an_older_version_is_refused(store: Store) -> None:
    """A caller that has not read the last change decides again."""
    async with store.transaction() as t:
        entry = await stand(t, await queue(t), 1)
        await t.entries.reprioritise(entry, EntryOrder(priority=1), AGEING)
        with pytest.raises(StaleRecord):
            await t.entries.reprioritise(entry, EntryOrder(priority=2), AGEING)


async def test_entry_that_comes_after_a_clock_was_set_back_has_waited_no_longer_than_those_before_it(
    store: Store,
) -> None:
    """Else one of the lowest priority would overtake everybody who waits, by the jump of a clock."""
    async with store.transaction() as t:
        main = await queue(t)
        await stand(t, main, 1, ageing=AGEING)
        await stand(t, main, 2, priority=-1, at=NOW - timedelta(days=400), ageing=AGEING)
        assert await numbers(t, main) == [1, 2]
