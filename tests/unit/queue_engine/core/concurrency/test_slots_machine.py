"""Slots under any sequence of asking, ending, keeping and giving up, against lines that a person keeps by hand."""

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from queue_engine.core.concurrency.slots import Slots, SlotsBusy, SlotsStatus
from tests.unit.queue_engine.core.concurrency.test_slots import BACKGROUND, NOW, SECOND, Clock, Users

TOTAL, DEPTH, IN_A_ROW, LONGEST = 4, 4, 4, 6
SETTINGS = settings(
    max_examples=25, stateful_step_count=40, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


class SlotsMachine(RuleBasedStateMachine):
    """`busy`, `kept` and the two lines are what a person would write down."""

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__()
        self._runner = runner
        self._clock = Clock()
        self._users = Users(Slots(TOTAL, max_depth=DEPTH, clock=self._clock), self._clock)
        self._names = 0
        self.busy: dict[str, str | None] = {}
        self.kept: dict[str, int] = {}
        self.lines: dict[str, list[tuple[str, str | None]]] = {NOW: [], BACKGROUND: []}
        self.granted: list[str] = []
        self.in_a_row = 0
        self.second = 0

    @precondition(lambda self: self.busy)
    @rule(times=st.integers(2, 8))
    def rush(self, times: int) -> None:
        """One urgent call after the other, as somebody in a hurry makes them."""
        for _ in range(times):
            self.ask(NOW, None)
            self._end(sorted(self.busy)[0], None)

    @precondition(lambda self: self.busy)
    @rule()
    def all_fail(self) -> None:
        """Fail each holder of a slot; it will be back in three seconds."""
        for name in sorted(self.busy):
            self._end(name, 3)

    @rule(priority=st.sampled_from([NOW, BACKGROUND]), holder=st.sampled_from([None, "x", "y", "z"]))
    def ask(self, priority: str, holder: str | None) -> None:
        """Somebody asks, perhaps the one for whom a slot is kept."""
        self._names += 1
        name = f"u{self._names}"
        self._runner.run(self._users.ask(name, NOW if priority == NOW else BACKGROUND, holder))
        if holder in self.kept:
            del self.kept[holder]
            self._grant(name, holder)
        elif self._free():
            self._grant(name, holder)
        elif sum(map(len, self.lines.values())) >= DEPTH:
            task = self._users.tasks[name]
            assert task.done()
            assert isinstance(task.exception(), SlotsBusy)
        else:
            self.lines[priority].append((name, holder))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), keep=st.sampled_from([None, 1, 3, 6, 7]))
    def end(self, data: st.DataObject, keep: int | None) -> None:
        """Somebody is done, or failed and will be back."""
        self._end(data.draw(st.sampled_from(sorted(self.busy))), keep)

    @precondition(lambda self: any(self.lines.values()))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """Somebody in the line is cancelled."""
        name = data.draw(st.sampled_from(sorted(name for line in self.lines.values() for name, _ in line)))
        self._runner.run(self._users.give_up(name))
        for line in self.lines.values():
            line[:] = [waiting for waiting in line if waiting[0] != name]

    @precondition(lambda self: self.busy and any(self.lines.values()))
    @rule(data=st.data())
    def end_while_the_next_gives_up(self, data: st.DataObject) -> None:
        """The grant meets a cancellation."""
        name = data.draw(st.sampled_from(sorted(self.busy)))
        before = len(self.granted)
        self._ended(name, None)
        (next_one,) = self.granted[before:]
        self._runner.run(self._meet(name, next_one))
        del self.granted[before]
        del self.busy[next_one]
        self._share_out()

    @rule(seconds=st.integers(1, 7))
    def time_passes(self, seconds: int) -> None:
        """Reservations run out."""
        self._clock.instant += seconds * SECOND
        self.second += seconds
        self.kept = {holder: until for holder, until in self.kept.items() if self.second < until}
        self._share_out()
        self._users.slots.status()
        self._runner.run(self._users.rest())

    @invariant()
    def slots_are_as_kept_by_hand(self) -> None:
        """Who has a slot, who waits, in which order slots were given, and what is free."""
        assert self._users.granted == self.granted
        now, background = len(self.lines[NOW]), len(self.lines[BACKGROUND])
        assert self._users.slots.status() == SlotsStatus(
            rt_queue=now,
            be_queue=background,
            total_slots=TOTAL,
            available_slots=self._free(),
            accepting=self._free() > 0 or now + background < DEPTH,
            max_queue_depth=DEPTH,
        )
        assert not (self._free() and (now or background)), "no call waits beside a free slot"

    def teardown(self) -> None:
        """Nothing is left to run."""
        for task in self._users.tasks.values():
            task.cancel()
        self._runner.run(self._users.rest())
        assert self._users.slots.status().available_slots == TOTAL - len(self.kept)

    async def _meet(self, name: str, next_one: str) -> None:
        self._users.end_soon(name)
        await asyncio.sleep(0)
        await self._users.give_up(next_one)

    def _end(self, name: str, keep: int | None) -> None:
        self._runner.run(self._users.end(name, keep=None if keep is None else keep * SECOND))
        self._ended(name, keep)

    def _ended(self, name: str, keep: int | None) -> None:
        holder = self.busy.pop(name)
        room = holder not in self.kept and len(self.kept) < TOTAL // 2
        if holder is not None and keep is not None and keep <= LONGEST and room:
            self.kept[holder] = self.second + keep
        self._share_out()

    def _grant(self, name: str, holder: str | None) -> None:
        self.busy[name] = holder
        self.granted.append(name)

    def _free(self) -> int:
        return TOTAL - len(self.busy) - len(self.kept)

    def _share_out(self) -> None:
        now, background = self.lines[NOW], self.lines[BACKGROUND]
        while self._free() and (now or background):
            if background and (not now or self.in_a_row >= IN_A_ROW):
                self.in_a_row = 0
                self._grant(*background.pop(0))
            else:
                self.in_a_row = self.in_a_row + 1 if background else 0
                self._grant(*now.pop(0))


def test_slots_under_any_sequence_of_use_are_as_a_person_would_share_them() -> None:
    """Order of grants, cancellations, reservations, their end, and the bound of the line."""
    with asyncio.Runner() as runner:

        class Machine(SlotsMachine):
            def __init__(self) -> None:
                super().__init__(runner)

        run_state_machine_as_test(Machine, settings=SETTINGS)
