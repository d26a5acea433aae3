"""Plan who does what and when: the same for the same seed."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from bot.demo.changes import CHANGES, Change

_NAMES = ("ada", "barbara", "donald", "edsger", "frances", "grace", "ken", "margaret", "niklaus", "radia")
_PEOPLE = 4
_LATE = 4
"""So many entries stand ahead of what is closed or pushed to while queued, so that it is still queued by then."""


class Deed(StrEnum):
    """What somebody does to a pull request. The last three wait for their moment."""

    OPEN = "opens"
    LABEL = "labels"
    CLOSE = "closes"
    """Once it is queued."""
    PUSH = "pushes to"
    """Once it is queued."""
    LABEL_AGAIN = "again labels"
    """Once it has left the queue."""


@dataclass(frozen=True, slots=True)
class Step:
    """One deed, `after` this much of the sandbox's time since the story began, and not before its moment."""

    after: timedelta
    deed: Deed
    key: str
    by: str


@dataclass(frozen=True, slots=True)
class Story:
    """All of it. `people` come first to last as the history needs them; the first one maintains the repository."""

    people: tuple[str, ...]
    changes: tuple[Change, ...]
    authors: dict[str, str]
    steps: tuple[Step, ...]

    @property
    def maintainer(self) -> str:
        """Who labels."""
        return self.people[0]


def tell(seed: int, changes: Iterable[Change] = CHANGES) -> Story:
    """The story of this seed: who is there, who wrote what, and in which order and how soon things happen."""
    chance = random.Random(seed)
    people = tuple(chance.sample(_NAMES, _PEOPLE))
    told = tuple(changes)
    opening = tuple(chance.sample(told, len(told)))
    authors = {change.key: chance.choice(people) for change in opening}
    steps: list[Step] = []
    now = timedelta(0)
    for change in opening:
        steps.append(Step(now, Deed.OPEN, change.key, authors[change.key]))
        now += _pause(chance, 0.1, 0.3)
    for change in _labelling(chance, opening):
        steps.append(Step(now, Deed.LABEL, change.key, people[0]))
        steps += _later(change, now, authors[change.key], people[0])
        now += _pause(chance, 0.1, 0.5)
    return Story(people, opening, authors, tuple(sorted(steps, key=lambda step: step.after)))


def _later(change: Change, now: timedelta, author: str, maintainer: str) -> Sequence[Step]:
    if change.closes:
        return [Step(now, Deed.CLOSE, change.key, author)]
    if change.push:
        return [Step(now, Deed.PUSH, change.key, author), Step(now, Deed.LABEL_AGAIN, change.key, maintainer)]
    return []


def _labelling(chance: random.Random, changes: Sequence[Change]) -> list[Change]:
    """Any order, except that a good one goes first, and that what changes while queued comes late enough to."""
    early = [change for change in changes if not change.closes and not change.push]
    late = [change for change in changes if change.closes or change.push]
    chance.shuffle(early)
    first = next((change for change in early if change.plain), None)
    if first is not None:
        early.remove(first)
        early.insert(0, first)
    rest = early[_LATE:] + late
    chance.shuffle(rest)
    return early[:_LATE] + rest


def _pause(chance: random.Random, shortest: float, longest: float) -> timedelta:
    return timedelta(seconds=round(chance.uniform(shortest, longest), 2))
