"""Estimates of how often pull requests fail and runs flake."""

from dataclasses import dataclass, replace

LEAST_FLAKES = 0.002
"""A queue that has never seen a flake still expects one in 500 runs."""
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


@dataclass(frozen=True, slots=True)
class Estimates:
    """Chances that a plan reckons with; the first values count as so many observations as their weight."""

    fails: Rate = Rate(0.1, 10.0)
    """A pull request that no run tested yet makes its run fail."""
    flakes: Rate = Rate(0.01, 50.0)
    """A run fails although its members are good."""
    fails_later: Rate = Rate(0.003, 200.0)
    """A qualified pull request makes a later run fail."""

    @property
    def flake_chance(self) -> float:
        """The chance that a run of good members fails, never quite none."""
        return max(LEAST_FLAKES, self.flakes.share)

    def chance(self, qualified: bool) -> float:
        """Return the chance that a pull request makes a run fail, before any run with it failed."""
        return (self.fails_later if qualified else self.fails).share

    def settled(self, qualified: bool, failed: bool) -> "Estimates":
        """Return them after a pull request landed or was ejected."""
        if qualified:
            return replace(self, fails_later=self.fails_later.observed(failed))
        return replace(self, fails=self.fails.observed(failed))
