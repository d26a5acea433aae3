"""Seeded randomness."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Randomness:
    """Makes random numbers that are the same for the same seed and purpose."""

    seed: int = 0

    def of(self, purpose: str) -> random.Random:
        """Return the random numbers of one purpose; those of another purpose do not shift them."""
        return random.Random(f"{self.seed}/{purpose}")
