"""State of a queue for plans, and plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Annotated

from pydantic import PlainSerializer

from queue_engine.domain.policy import MOST_MEMBERS, USUAL_FLAKES

LEAST_FLAKES = 0.002
"""A queue that has never seen a flake still expects one in 500 runs."""
_CHECKS_KEPT = 200
_HALVED_AT = 400.0
"""Observations. At so many a rate counts the earlier ones by half, so that it follows a team whose habits change."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The share of `weight` observations in which something happened."""

    share: float
    weight: float

    def observed(self, happened: bool) -> "Rate":
        """Return the rate with one observation more."""
        weight = self.weight / 2 if self.weight >= _HALVED_AT else self.weight
        return Rate((self.share * weight + happened) / (weight + 1), weight + 1)

    def in_a_row(self, times: int) -> float:
        """Return the chance that it happens so many times in a row, with `LEAST_FLAKES` as its least share.

        It is the mean of the power of a rate, by its beta distribution. The power of the mean would be less: a queue
        that has seen few runs may well flake more often than it seems, and then each of these runs did.
        """
        happened = max(LEAST_FLAKES, self.share) * self.weight
        return prod((happened + each) / (self.weight + each) for each in range(times))


FLAKES = Rate(*USUAL_FLAKES)
"""The rate of a check of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Chances that a plan reckons with; the first values count as so many observations as their weight."""

    fails: Rate = Rate(0.1, 10.0)
    """A pull request that no run tested yet makes its run fail."""
    flakes: Rate = FLAKES
    """A run fails although its members are good."""
    fails_later: Rate = Rate(0.003, 200.0)
    """A qualified pull request makes a later run fail."""
    agents_fail: Rate = Rate(0.1, 10.0)
    """As `fails`, of the pull requests of agents: they say nothing about those of people."""
    agents_fail_later: Rate = Rate(0.003, 200.0)

    @property
    def flake_chance(self) -> float:
        """The chance that a run of good members fails, never quite none."""
        return max(LEAST_FLAKES, self.flakes.share)

    def chance(self, member: "Member") -> float:
        """Return the chance that a member makes a run fail, before any run with it failed."""
        rate: Rate = getattr(self, _rate_of(member, member.qualified))
        return rate.share

    def settled(self, member: "Member", qualified: bool, failed: bool) -> "Estimates":
        """Return them after a member landed or was ejected."""
        name = _rate_of(member, qualified)
        return replace(self, **{name: getattr(self, name).observed(failed)})


Numbers = Annotated[frozenset[int], PlainSerializer(sorted, return_type=list[int])]
"""Members in no order; stored in one, so that equal memories are stored alike."""


@dataclass(frozen=True, slots=True)
class Member:
    """A queued pull request as plans see it."""

    id: int
    since: float
    """Seconds: when it joined the queue."""
    qualified_at: float | None = None
    """Seconds: when a run with it first passed."""
    preempts: bool = False
    """A hotfix: it is tested before what is tested now."""
    head_fails: bool = False
    """A required check of its own head has failed: it is tested alone."""
    after: tuple[int, ...] = ()
    """The members that land before it: each run that has it has them, before it."""
    yields_until: float | None = None
    """Seconds: of an agent, which until then has only what people's members leave free. None of those of people."""
    yields: int = 0
    """How many of its runs in a row ended for people."""

    @property
    def qualified(self) -> bool:
        """Whether a run with it passed."""
        return self.qualified_at is not None


def _rate_of(member: Member, qualified: bool) -> str:
    name = "fails" if member.yields_until is None else "agents_fail"
    return f"{name}_later" if qualified else name


@dataclass(frozen=True, slots=True)
class TrainRun:
    """One CI run over a candidate: the base, and members merged onto it in order."""

    id: int
    content: tuple[int, ...]
    """Members on top of the present base, in order: those that landed since the start are gone from it."""
    tested: Numbers
    """The members that this run was started for; those beneath are qualified, or tested by another active run."""
    started: float
    extends_base: bool = True
    """Whether its tree is still the base and `content`. Otherwise something else landed since its start."""

    @property
    def beneath(self) -> tuple[int, ...]:
        """The members that its own ones are merged onto."""
        return tuple(each for each in self.content if each not in self.tested)


@dataclass(frozen=True, slots=True)
class FailingRun:
    """What failed, as evidence against its members: all runs of one content are one."""

    suspects: Numbers
    """Members that no run has passed with since; all of `content` once each has passed, but not together."""
    content: Numbers
    """Members that have not landed since, the suspects among them."""
    times: int = 1
    """How often CI ran and failed."""
    on_base: bool = True
    """Whether its tree is still the base and `content`. Otherwise something else landed since its start."""
    checks: tuple[str, ...] = ()
    """The checks that failed each time; empty: not known, or not the same."""


@dataclass(frozen=True, slots=True)
class Trains:
    """All that is known about one queue. Transitions return a changed copy."""

    slots: int
    """How many runs may be active at once."""
    usual_seconds: float
    """How long a run usually takes."""
    queue: tuple[Member, ...] = ()
    """In the order in which they are to land."""
    runs: tuple[TrainRun, ...] = ()
    passed: tuple[TrainRun, ...] = ()
    """Runs that passed, extend the base and have not landed."""
    failures: tuple[FailingRun, ...] = ()
    """Oldest first, each content once."""
    estimates: Estimates = field(default_factory=Estimates)
    saved: float = 0.0
    """CI runs that landings one by one would have cost beyond those that ended; negative where these were more.

    Those of agents count apart, so that their failures cost people no slot.
    """
    saved_by_agents: float = 0.0
    most: int = MOST_MEMBERS
    """How many members a run may test, those beneath them aside."""
    fills: bool = False
    """Whether members wait for a fuller run. What they waited for is one run, not a part for each free slot."""
    splits_singly: bool = False
    """Whether a run tests only one of the members that failed together."""
    checks: Mapping[str, Rate] = field(default_factory=dict)
    """How often each check fails although the members are good, by its name."""

    def flakes_of(self, failed: "FailingRun") -> Rate:
        """Return how often runs flake as this one may have: as its least flaky check does, if its checks are known."""
        rates = [self.checks.get(each, self.estimates.flakes) for each in failed.checks]
        return min(rates, key=lambda rate: rate.share, default=self.estimates.flakes)

    def with_checks(self, failures: Mapping[str, int], *, passed: bool) -> "Trains":
        """Count that checks failed so often on members that are good, and whether each `passed` in the end."""
        counted = dict(self.checks)
        for name, count in failures.items():
            rate = counted.pop(name, FLAKES)
            for happened in (*[True] * count, *[False] * passed):
                rate = rate.observed(happened)
            counted[name] = rate
        return replace(self, checks=dict(list(counted.items())[-_CHECKS_KEPT:]))

    def member(self, member: int) -> Member | None:
        return next((each for each in self.queue if each.id == member), None)

    def with_run(self, run: TrainRun) -> "Trains":
        """Return them with a run that was started."""
        return replace(self, runs=(*self.runs, run))


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to start: `content` on the base, for the sake of `tested`."""

    content: tuple[int, ...]
    tested: frozenset[int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next, in this order; after a landing or an ejection the caller plans again."""

    land: TrainRun | None = None
    eject: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()
    start: tuple[NewRun, ...] = ()
    yields: tuple[int, ...] = ()
    """Of `cancel`: the runs of agents that end for people."""
