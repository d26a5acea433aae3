"""The record of every request: what the tests and the benchmarks count."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

Phase = Literal["before", "after"]


@dataclass
class RecordedCall:
    """One request and its response.

    `template` is method and route ("GET /repos/{owner}/{repo}"), or "unknown" for a path GitHub does not have.
    `phase` is "before" until the state was changed, then "after". `status` is None while unanswered, and stays
    None when the connection was dropped. `applied` is the status before a fault replaced the response.
    """

    sequence: int
    at: datetime
    method: str
    path: str
    query: dict[str, str]
    template: str
    resource: Literal["core", "graphql"] = "core"
    phase: Phase = "before"
    body: Any = None
    status: int | None = None
    applied: int | None = None
    installation: int | None = None
    login: str | None = None
    conditional: bool = False
    fault: str | None = None
    lag: timedelta = timedelta(0)
    """How old the state was that a read showed."""

    @property
    def not_modified(self) -> bool:
        """Whether the answer was a 304, which costs nothing of the primary limit."""
        return self.status == 304


@dataclass
class Requests:
    """All calls since the start (or the last `clear`), oldest first."""

    _all: list[RecordedCall] = field(default_factory=list)
    _sequence: int = 0

    def open(self, at: datetime, method: str, path: str, query: dict[str, str], template: str) -> RecordedCall:
        """Record a request that has arrived."""
        self._sequence += 1
        call = RecordedCall(self._sequence, at, method, path, query, template)
        self._all.append(call)
        return call

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> RecordedCall:
        return self._all[index]

    def of(self, template: str) -> list[RecordedCall]:
        """The calls of one route, for example "PUT /repos/{owner}/{repo}/pulls/{number}/merge"."""
        return [call for call in self._all if call.template == template]

    def by_template(self, *, since: datetime | None = None, installation: int | None = None) -> Counter[str]:
        """How many requests each route had, optionally from an instant on and of one installation."""
        return Counter(
            call.template
            for call in self._all
            if (since is None or call.at >= since) and (installation is None or call.installation == installation)
        )

    def between(self, start: datetime, end: datetime) -> list[RecordedCall]:
        """The calls with `start <= at < end`."""
        return [call for call in self._all if start <= call.at < end]

    def busiest(self, window: timedelta) -> int:
        """The largest number of requests that any span of that length saw."""
        times = [call.at for call in self._all]
        most = first = 0
        for last, at in enumerate(times):
            while at - times[first] >= window:
                first += 1
            most = max(most, last - first + 1)
        return most

    def clear(self) -> None:
        """Forget all calls; the numbering continues."""
        self._all.clear()
