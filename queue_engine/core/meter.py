"""What is counted and timed while working. The core names what happened; whoever runs it decides where figures go."""

from typing import Protocol


class Meter(Protocol):
    """Takes figures. It must neither raise nor wait."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Something happened `amount` times."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Something took this long, in seconds."""


class Silent:
    """Counts nothing: for tests and for tools that nobody watches."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Nobody listens."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Nobody listens."""
