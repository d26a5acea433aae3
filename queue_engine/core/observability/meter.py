"""Count and time events. The core names them; its user decides where the figures go."""

from typing import Protocol


class Meter(Protocol):
    """Takes figures. It must neither raise nor wait."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Something happened `amount` times."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Something took this long, in seconds."""


class NullMeter:
    """Counts nothing: for tests and tools without metrics."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Do nothing."""
