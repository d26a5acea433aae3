"""Merge queues that test one batch at a time, by their documented rules."""

from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Start


class Bors:
    """All that wait are one batch; a batch that fails is halved, and its halves are tested one after the other."""

    def __init__(self, slots: int, *, most: int = 10_000) -> None:
        """Set how many a batch may hold."""
        self._most = most
        self._waiting: list[int] = []
        self._batches: list[list[int]] = []
        self._testing: list[int] = []
        self._run: int | None = None
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Let it wait for the next batch."""
        self._waiting.append(pull)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the batch's run."""
        self._run = run

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Land, halve or eject."""
        self._run = None
        if passed:
            self._due.append(Land(run))
        elif len(self._testing) == 1:
            self._due.append(Eject(self._testing[0]))
        else:
            half = len(self._testing) // 2
            self._batches = [self._testing[:half], self._testing[half:], *self._batches]

    def action(self, now: float) -> Action | None:
        """Do what is due, then test the next batch."""
        if self._due:
            return self._due.pop(0)
        if self._run is not None:
            return None
        if self._batches:
            self._testing = self._batches.pop(0)
        elif self._waiting:
            self._testing, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        else:
            return None
        return Start(tuple(self._testing))


class Tide:
    """A batch of the first 15 beside a run of the first alone: the batch lands if it passes, else the first decides."""

    def __init__(self, slots: int, *, most: int = 15) -> None:
        """Set how many a batch may hold; with one slot there are no batches."""
        self._most = most if slots > 1 else 1
        self._waiting: list[int] = []
        self._runs: dict[int, tuple[int, ...]] = {}
        self._outcomes: dict[tuple[int, ...], tuple[int, bool]] = {}
        self._due: list[Action] = []

    def arrived(self, pull: int, now: float) -> None:
        """Queue it last."""
        self._waiting.append(pull)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        """Note the run."""
        self._runs[run] = content

    def finished(self, run: int, passed: bool, now: float) -> None:
        """Land the batch, or the first when the batch has failed."""
        content = self._runs.pop(run)
        if passed and (len(content) > 1 or not self._runs):
            self._land(run, content)
        elif len(content) == 1 and not passed:
            self._due.append(Eject(content[0]))
            self._waiting.remove(content[0])
            self._cancel()
        else:
            self._outcomes[content] = run, passed
            if not self._runs:
                self._decide()

    def _decide(self) -> None:
        for content, (run, passed) in sorted(self._outcomes.items(), key=lambda item: -len(item[0])):
            if passed:
                self._land(run, content)
                return
        self._outcomes.clear()

    def _land(self, run: int, content: tuple[int, ...]) -> None:
        self._due.append(Land(run))
        self._waiting = [each for each in self._waiting if each not in content]
        self._cancel()

    def _cancel(self) -> None:
        self._due += [Cancel(run) for run in self._runs]
        self._runs.clear()
        self._outcomes.clear()

    def action(self, now: float) -> Action | None:
        """Do what is due, then test the first, and a batch."""
        if self._due:
            return self._due.pop(0)
        if not self._waiting:
            return None
        first, batch = tuple(self._waiting[:1]), tuple(self._waiting[: self._most])
        known = {*self._runs.values(), *self._outcomes}
        if not known:
            return Start(first)
        if first in known and len(known) == 1 and len(batch) > 1 and self._runs:
            return Start(batch)
        return None
