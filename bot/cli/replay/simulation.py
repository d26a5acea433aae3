"""Run one policy against one team's pull requests, on virtual time."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bot.cli.replay.truth import Truth

_LONGEST = 144_000
"""Minutes: a queue that grows without end is not simulated to its end."""


@dataclass(frozen=True, slots=True)
class Start:
    """Test these on the present base, in this order."""

    content: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a run without an outcome."""

    run: int


@dataclass(frozen=True, slots=True)
class Land:
    """Move the base to the tree of a run that passed, or to that of its first members if a run of them passed."""

    run: int


@dataclass(frozen=True, slots=True)
class Eject:
    """Reject a pull request."""

    pull: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again at this minute, also if nothing happens until then."""

    until: float


Action = Start | Cancel | Land | Eject | Wait


class Policy(Protocol):
    """Decides which runs to start, and what lands; it learns only what a merge queue learns."""

    def arrived(self, pull: int, now: float) -> None:
        """Note a pull request that was queued, at a minute."""

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the number of the run that was started."""

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Note the outcome of a run."""

    def action(self, now: float) -> Action | None:
        """Return the next action at this minute, or None when nothing is left to do."""


@dataclass(slots=True)
class _Active:
    content: tuple[int, ...]
    base: int
    started: float
    passes: bool


@dataclass(slots=True)
class Outcome:
    """What came of one simulation."""

    landed_after: list[float] = field(default_factory=list)
    """Minutes in the queue of each that landed."""
    rejected_after: list[float] = field(default_factory=list)
    runs: int = 0
    minutes: float = 0.0
    """CI minutes of all runs, cancelled ones up to then."""
    innocents: int = 0
    """Good pull requests that were ejected."""
    red: int = 0
    """Landings of a tree that does not pass."""
    unresolved: int = 0
    order: list[int] = field(default_factory=list)
    """All that landed, in order; also those that arrived while the queue filled, which no wait counts."""
    span: float = 0.0
    """Minutes from the first arrival to the last landing."""
    steady: int = 0
    """Landings while pull requests arrived, the first sixth of them aside."""
    steady_minutes: float = 0.0

    @property
    def landed(self) -> int:
        """How many landed."""
        return len(self.landed_after)


class Simulation:
    """One team, one policy."""

    def __init__(self, truth: Truth, policy: Policy, pulls: int, *, at_once: bool = False, warm: float = 1 / 6) -> None:
        """Let so many pull requests arrive; with `at_once` all of them wait from the start.

        `warm`: the share of them that no wait counts, because they arrive while the queue fills.
        """
        self.truth, self.policy = truth, policy
        self.outcome = Outcome()
        self.now = 0.0
        times = [0.0] * pulls if at_once else truth.arrivals(pulls)
        self._events: list[tuple[float, int, str, int]] = [
            (time, pull, "arrival", pull) for pull, time in enumerate(times)
        ]
        heapq.heapify(self._events)
        self._since: dict[int, float] = {}
        self._landed_set: set[int] = set()
        self._runs: dict[int, _Active] = {}
        self._active: set[int] = set()
        self._order = pulls
        self._warm = 0 if at_once else int(pulls * warm)
        self._end = times[-1] + _LONGEST
        self._steady = times[self._warm], times[-1]
        self.outcome.steady_minutes = times[-1] - times[self._warm]

    def run(self) -> Outcome:
        """Simulate until all pull requests are resolved; no more than a hundred days after the last arrival."""
        while self._events and self._events[0][0] < self._end:
            self.now = self._events[0][0]
            happened = False
            # A policy sees all that happens at one instant before it acts.
            while self._events and self._events[0][0] == self.now:
                happened |= self._happen(*heapq.heappop(self._events)[2:])
            if happened:
                self._act()
        self.outcome.unresolved = len(self._since)
        return self.outcome

    def _happen(self, kind: str, number: int) -> bool:
        """Tell the policy what happens now; returns whether it is anything: runs may have been cancelled."""
        if kind == "end" and number not in self._active:
            return False
        if kind == "wait":
            return True
        if kind == "arrival":
            self.truth.arrive(number, self._since)
            self._since[number] = self.now
            self.policy.arrived(number, self.now)
        else:
            self._active.discard(number)
            self.outcome.minutes += self.now - self._runs[number].started
            self.policy.finished(number, self._runs[number].passes, self.now)
        return True

    def _act(self) -> None:
        for action in self._actions():
            match action:
                case Start(content):
                    self._start(content)
                case Cancel(run):
                    if run in self._active:
                        self._active.discard(run)
                        self.outcome.minutes += self.now - self._runs[run].started
                case Land(run):
                    self._land(run)
                case Eject(pull):
                    self._eject(pull)
                case Wait(until):
                    heapq.heappush(self._events, (until, self._order, "wait", 0))

    def _actions(self) -> Iterator[Action]:
        while (action := self.policy.action(self.now)) is not None:
            yield action

    def _start(self, content: tuple[int, ...]) -> None:
        assert len(self._active) < self.truth.slots, "more runs than slots"
        assert content
        assert all(each in self._since for each in content), content
        self._order += 1
        number = self._order
        passes, minutes = self.truth.outcome(content, self._landed_set)
        self._runs[number] = _Active(content, len(self.outcome.order), self.now, passes)
        self._active.add(number)
        self.outcome.runs += 1
        heapq.heappush(self._events, (self.now + minutes, number, "end", number))
        self.policy.started(number, content, self.now)

    def _land(self, number: int) -> None:
        run = self._runs[number]
        since = tuple(self.outcome.order[run.base :])
        assert run.passes, "only what passed lands"
        assert number not in self._active, "only what passed lands"
        assert run.content[: len(since)] == since, "only what was tested lands"
        content = run.content[len(since) :]
        if not self.truth.good(content, self._landed_set):
            self.outcome.red += 1
        for each in content:
            self.outcome.order.append(each)
            self._landed_set.add(each)
            waited = self.now - self._since.pop(each)
            self.outcome.steady += self._steady[0] <= self.now <= self._steady[1]
            if each >= self._warm:
                self.outcome.landed_after.append(waited)
        self.outcome.span = self.now

    def _eject(self, pull: int) -> None:
        waited = self.now - self._since.pop(pull)
        if pull >= self._warm:
            self.outcome.rejected_after.append(waited)
        if pull not in self.truth.bad and not self.truth.conflicts.get(pull, set()) & self._landed_set:
            self.outcome.innocents += 1


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
