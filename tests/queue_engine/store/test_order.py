"""P3 under any sequence of operations: the stored queue against a list that a person would keep by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete

from queue_engine.core.database import Database
from queue_engine.errors import StaleVersion
from queue_engine.invariants import check_queue
from queue_engine.model import Entry, Queue
from queue_engine.store import DuplicateEntry, Store, Transaction
from queue_engine.store.tables import entries
from tests.queue_engine.store.examples import queue, stand

T = TypeVar("T")
BRANCHES = ("main", "release")


SETTINGS = settings(
    max_examples=25, stateful_step_count=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


class QueueMachine(RuleBasedStateMachine):
    """Two queues of one repository; `kept` is what they must hold, in the order of arrival."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        super().__init__()
        self._runner = runner
        self._store = store
        self._queues: dict[str, Queue] = {}
        self.kept: list[Entry] = []
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

    @rule(branch=st.sampled_from(BRANCHES), number=st.integers(1, 8), priority=st.integers(-1, 2))
    def add(self, branch: str, number: int, priority: int) -> None:
        """A pull request is queued; one that stands somewhere already is refused and changes nothing."""
        stands = any(entry.number == number for entry in self.kept)
        try:
            added = self._within(lambda t: stand(t, self._queues[branch], number, priority=priority))
        except DuplicateEntry:
            assert stands
        else:
            assert not stands
            self.kept.append(added)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """An entry leaves."""
        entry = data.draw(st.sampled_from(self.kept))
        self._within(lambda t: t.entries.remove(entry))
        self.kept.remove(entry)
        self.stale.append(entry)

    @precondition(lambda self: self.kept)
    @rule(
        data=st.data(), priority=st.integers(-1, 2), title=st.text(st.characters(exclude_characters="\0"), max_size=5)
    )
    def save(self, data: st.DataObject, priority: int, title: str) -> None:
        """An entry changes, be it its priority; its place in the order of arrival stays."""
        entry = data.draw(st.sampled_from(self.kept))
        saved = self._within(lambda t: t.entries.save(replace(entry, priority=priority, title=title)))
        self.kept[self.kept.index(entry)] = saved
        self.stale.append(entry)

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
        except StaleVersion:
            return
        raise AssertionError("a stale entry was accepted")

    @invariant()
    def queues_are_as_kept_by_hand(self) -> None:
        """Positions contiguous, pull requests unique, first in, first out within a priority, nothing else changed."""
        stored = self._within(self._read)
        for branch in BRANCHES:
            check_queue(stored[branch])
            arrived = [entry for entry in self.kept if entry.base_branch == branch]
            in_order = sorted(arrived, key=lambda entry: -entry.priority)
            expected = tuple(replace(entry, position=position) for position, entry in enumerate(in_order))
            assert stored[branch] == expected

    async def _read(self, t: Transaction) -> dict[str, tuple[Entry, ...]]:
        return {branch: await t.entries.of_queue(found.id) for branch, found in self._queues.items()}


def test_queue_under_any_sequence_of_operations_keeps_its_order(database_url: str) -> None:
    """Whatever is added, removed, changed or decided on an old view, the order is what it must be."""
    database = Database(database_url)
    with asyncio.Runner() as runner:

        class Machine(QueueMachine):
            def __init__(self) -> None:
                super().__init__(runner, Store(database))

        run_state_machine_as_test(Machine, settings=SETTINGS)
        runner.run(database.close())
