"""What GitHub's records were some seconds ago, for reads that lag: kept only while `keep` says so.

GitHub answers reads from replicas that follow its primary database. The records here are the primary; a read that
lags is answered while they show what they were at an earlier instant. Commits never change, so they need no versions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any

from github_emulator.core.clock import Clock
from github_emulator.core.git import Git
from github_emulator.core.schedule import Schedule
from github_emulator.events.events import RepositoryEvent
from github_emulator.state import Repository, State

_EVER = datetime.min.replace(tzinfo=UTC)
Version = tuple[datetime, tuple[Any, ...]]


class History:
    """Versions of every record of every repository, each with the instant since which it held.

    `keep` is how long a version is kept after another replaced it; zero keeps none and costs nothing.
    """

    def __init__(self, clock: Clock, schedule: Schedule, state: State) -> None:
        self._clock, self._schedule, self._state = clock, schedule, state
        self._versions: dict[Any, list[Version]] = {}
        self._planned = False
        self._shown: datetime | None = None
        self._present: list[tuple[Any, tuple[Any, ...]]] = []
        self.keep = timedelta(0)

    def start(self, keep: timedelta) -> None:
        """Keep versions from now on, for at least so long."""
        self.keep = max(self.keep, keep)
        if not self._versions:
            self._note(_EVER)

    def stop(self) -> None:
        """Forget all versions."""
        self.keep = timedelta(0)
        self._versions.clear()

    def on_change(self, _event: RepositoryEvent) -> None:
        """Note the change."""
        self.changed()

    def changed(self) -> None:
        """Something changes just now: note it as soon as the caller is done, before time passes."""
        if self.keep and not self._planned:
            self._planned = True
            self._schedule.after(timedelta(0), self.note, name="history")

    def note(self) -> None:
        """Add a version of each record that is not what it was."""
        self._planned = False
        if self.keep:
            self._note(self._clock.now())

    def _note(self, now: datetime) -> None:
        for record in self._records():
            values = _getter(record.__class__)(record)
            versions = self._versions.setdefault(record, [])
            if versions and versions[-1][1] == values:
                continue
            version = (now, tuple(_copy(value) for value in values))
            if versions and versions[-1][0] == now:
                versions[-1] = version
            else:
                versions.append(version)
            while len(versions) > 1 and versions[1][0] + self.keep <= now:
                versions.pop(0)

    @contextmanager
    def as_of(self, instant: datetime | None) -> Iterator[None]:
        """Within it all records show what they were at an instant; None: the present. Nothing may be awaited or
        changed in there. Inside of another one, this one counts until it ends."""
        outer = self._shown
        if instant == outer:
            yield
            return
        self._show(instant)
        try:
            yield
        finally:
            self._show(outer)

    def _show(self, instant: datetime | None) -> None:
        """Show what was at an instant instead of what is shown."""
        for record, values in self._present:
            _set(record, values)
        self._present, self._shown = [], instant
        if instant is not None:
            self.note()
            for record, versions in self._versions.items():
                if versions[-1][0] > instant:
                    self._present.append((record, _getter(record.__class__)(record)))
                    _set(record, _at(versions, instant))
        for repository in self._state.repositories.values():
            repository.git.as_of = instant

    def _records(self) -> Iterator[Any]:
        for repository in self._state.repositories.values():
            yield repository
            yield repository.git
            yield from _of_repository(repository)


def _of_repository(repository: Repository) -> Iterator[Any]:
    yield from repository.labels.values()
    yield from repository.suites.values()
    yield from repository.runs.values()
    yield from repository.workflow_runs.values()
    for pull in repository.pulls.values():
        yield pull
        yield from pull.comments.values()
        yield from pull.reviews
        yield from pull.threads


def _at(versions: list[Version], instant: datetime) -> tuple[Any, ...]:
    """The version that held at an instant; the oldest one known when all are younger."""
    return next((values for at, values in reversed(versions) if at <= instant), versions[0][1])


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return ("_refs",) if kind is Git else tuple(field.name for field in fields(kind))


@cache
def _getter(kind: Any) -> "attrgetter[tuple[Any, ...]]":
    # One name alone would give its value instead of a tuple.
    return attrgetter(*_names(kind), "__class__")


def _set(record: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(_names(record.__class__), values, strict=False):
        setattr(record, name, value)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return value.copy() if isinstance(value, list | set) else value
