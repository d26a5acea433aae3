"""Plan the steps of a run: the same for the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from imq_demo.changes import CHANGES, Change

_NAMES = ("ada", "barbara", "donald", "edsger", "frances", "grace", "ken", "margaret", "niklaus", "radia")
_PEOPLE = 4
_MIN_AHEAD = 4
"""Entries ahead of a change that is closed or pushed to while queued, so that it is still queued by then."""


class StepKind(StrEnum):
    """An action on a pull request. The last four wait for a condition, as does the label of a change with a fix."""

    OPEN = "opens"
    LABEL = "labels"
    """For a change with a fix: once its check has failed."""
    CLOSE = "closes"
    """Once it is queued."""
    PUSH = "pushes to"
    """Once it is queued."""
    LABEL_AGAIN = "relabels"
    """Once it has left the queue."""
    FIX = "fixes"
    """Once it waits outside the queue."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action, at the earliest `after` this much of the emulator's time, and once its condition holds."""

    after: timedelta
    kind: StepKind
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """People, changes and steps of a run. The first of `people` maintains the repository."""

    people: tuple[str, ...]
    changes: tuple[Change, ...]
    authors: dict[str, str]
    steps: tuple[Step, ...]

    @property
    def maintainer(self) -> str:
        """Return the person who labels."""
        return self.people[0]


def plan(seed: int) -> Scenario:
    """Plan the scenario of this seed: people, authors, order and times."""
    chance = random.Random(seed)
    people = tuple(chance.sample(_NAMES, _PEOPLE))
    opening = tuple(chance.sample(CHANGES, len(CHANGES)))
    authors = {change.key: chance.choice(people) for change in opening}
    steps: list[Step] = []
    now = timedelta(0)
    for change in opening:
        steps.append(Step(now, StepKind.OPEN, change.key, authors[change.key]))
        now += _pause(chance, 0.1, 0.3)
    for change in _label_order(chance, opening):
        steps.append(Step(now, StepKind.LABEL, change.key, people[0]))
        steps += _later_steps(change, now, authors[change.key], people[0])
        now += _pause(chance, 0.1, 0.5)
    return Scenario(people, opening, authors, tuple(sorted(steps, key=lambda step: step.after)))


def _later_steps(change: Change, now: timedelta, author: str, maintainer: str) -> Sequence[Step]:
    if change.closes:
        return [Step(now, StepKind.CLOSE, change.key, author)]
    if change.push:
        return [Step(now, StepKind.PUSH, change.key, author), Step(now, StepKind.LABEL_AGAIN, change.key, maintainer)]
    return [Step(now, StepKind.FIX, change.key, author)] if change.fix else []


def _label_order(chance: random.Random, changes: Sequence[Change]) -> list[Change]:
    """Shuffle the changes, but begin with one that lands, and put those that change while queued late."""
    early = [change for change in changes if not change.closes and not change.push]
    late = [change for change in changes if change.closes or change.push]
    chance.shuffle(early)
    first = next((change for change in early if change.plain), None)
    if first is not None:
        early.remove(first)
        early.insert(0, first)
    rest = early[_MIN_AHEAD:] + late
    chance.shuffle(rest)
    return early[:_MIN_AHEAD] + rest


def _pause(chance: random.Random, shortest: float, longest: float) -> timedelta:
    return timedelta(seconds=round(chance.uniform(shortest, longest), 2))
