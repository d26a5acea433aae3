"""Compare the landings of each mode, and judge whether they kept IMQ's promises. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class BaseState:
    """A commit on which the base rested: whether its tree passes, and whether CI passed on exactly that tree."""

    sha: str
    green: bool
    tested: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """The measures of one mode. Times are seconds of the emulator."""

    name: str
    seconds: float
    """From the first label until IMQ was done."""
    landed: tuple[float, ...]
    """How long each that landed was queued."""
    bad_landed: tuple[str, ...]
    good_left: tuple[str, ...]
    ejected: int
    runs: int
    requests: int
    tips: tuple[BaseState, ...]

    @property
    def runs_per_landing(self) -> float:
        """Return CI runs for each pull request that landed."""
        return self.runs / max(1, len(self.landed))

    @property
    def requests_per_landing(self) -> float:
        """Return requests to GitHub for each pull request that landed."""
        return self.requests / max(1, len(self.landed))

    @property
    def waited(self) -> tuple[float, float]:
        """Return the median and the longest time in the queue of those that landed."""
        return (median(self.landed), max(self.landed)) if self.landed else (0.0, 0.0)

    @property
    def red(self) -> int:
        """Return on how many red commits the base rested."""
        return sum(not tip.green for tip in self.tips)


def problems(found: Sequence[Figures]) -> tuple[str, ...]:
    """Return the broken promises of all modes, a sentence each."""
    return tuple(f"{each.name}: {problem}" for each in found for problem in _problems(each))


def _problems(each: Figures) -> Iterable[str]:
    yield from (f"the base was red at {tip.sha[:7]}" for tip in each.tips if not tip.green)
    yield from (f"no run tested the tree of {tip.sha[:7]}" for tip in each.tips if not tip.tested)
    yield from (f"{title} landed, and must not" for title in each.bad_landed)
    yield from (f"{title} is good, and did not land" for title in each.good_left)
