"""Uber's speculation tree, by its paper: for each pull request, runs on the likeliest outcomes of those before it."""

import heapq
from collections.abc import Callable, Iterator

from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Start

_WINDOW = 40
"""Pull requests that the tree reaches over."""


class SpeculationTree:
    """Runs the contents that are needed most probably; the front lands or leaves by the run of it alone."""

    def __init__(self, slots: int, lands: Callable[[int], float]) -> None:
        """Take the predictor: the chance that a pull request passes."""
        self._slots, self._lands = slots, lands
        self._queue: list[int] = []
        self._chances: dict[int, float] = {}
        self._runs: dict[tuple[int, ...], int] = {}
        self._outcomes: dict[int, bool] = {}
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self._queue.append(pull)
        self._chances[pull] = min(0.999, max(0.001, self._lands(pull)))

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the run."""
        self._runs[content] = run

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Note the outcome."""
        self._outcomes[run] = passed

    def action(self, now: float) -> Action | None:
        """Settle the front, then run what is needed most probably and cancel what is needed least."""
        if self._due:
            return self._due.pop(0)
        front = self._runs.get(tuple(self._queue[:1])) if self._queue else None
        if front in self._outcomes:
            return self._settle(front)
        wanted: list[tuple[int, ...]] = []
        for content in self._likeliest():
            if self._runs.get(content) not in self._outcomes:
                wanted.append(content)
            if len(wanted) == self._slots:
                break
        active = [content for content, run in self._runs.items() if run not in self._outcomes]
        for content in active:
            if content not in wanted and len(active) >= self._slots:
                return Cancel(self._runs.pop(content))
        missing = [content for content in wanted if content not in self._runs]
        return Start(missing[0]) if missing and len(active) < self._slots else None

    def _settle(self, run: int) -> Action:
        front = self._queue.pop(0)
        passed = self._outcomes[run]
        kept: dict[tuple[int, ...], int] = {}
        for content, other in self._runs.items():
            if passed == (content[0] == front) and content != (front,):
                kept[content[1:] if passed else content] = other
            elif other not in self._outcomes:
                self._due.append(Cancel(other))
        self._runs = kept
        return Land(run) if passed else Eject(front)

    def _likeliest(self) -> Iterator[tuple[int, ...]]:
        """Yield contents, the likeliest to be needed first: a pull request on a guess about each before it."""
        heap: list[tuple[float, int, tuple[int, ...]]] = [(-1.0, 0, ())]
        queue = self._queue[:_WINDOW]
        for _ in range(20 * min(self._slots, _WINDOW)):
            if not heap:
                return
            chance, depth, landed = heapq.heappop(heap)
            if depth >= len(queue):
                continue
            pull = queue[depth]
            yield (*landed, pull)
            lands = self._chances[pull]
            heapq.heappush(heap, (chance * lands, depth + 1, (*landed, pull)))
            heapq.heappush(heap, (chance * (1 - lands), depth + 1, landed))
