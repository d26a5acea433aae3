"""GitHub's rate limits, counted with the emulator's clock.

Numbers from GitHub's documentation ("Rate limits for the REST API"): primary 5,000 requests an hour; secondary
100 requests at once, 900 points a minute per endpoint (a read is 1, a write 5), 80 contents created a minute
and 500 an hour. GraphQL has a primary limit of its own, 5,000 points an hour, and 2,000 points a minute.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from github_emulator.callers.errors import Refusal
from github_emulator.core.clock import Clock

_DOCS = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"
_PRIMARY_DOCS = f"{_DOCS}#about-primary-rate-limits"
_SECONDARY_DOCS = f"{_DOCS}#about-secondary-rate-limits"
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID {request_id}."
)


MUTATION_ID = "C0DE:GRAPHQL"
"""The id of the request in the refusal of a mutation."""


@dataclass(frozen=True)
class Violation:
    """A limit that a client ran into by itself; faults on demand are not counted."""

    at: datetime
    kind: Literal["primary", "concurrent", "points", "creations"]
    key: str
    template: str


@dataclass
class _Window:
    """Amounts of the last `span`, each with its instant, and their sum."""

    span: timedelta
    entries: deque[tuple[datetime, int]] = field(default_factory=deque)
    sum: int = 0

    def add(self, at: datetime, amount: int) -> None:
        self.entries.append((at, amount))
        self.sum += amount

    def total(self, now: datetime) -> int:
        while self.entries and now - self.entries[0][0] >= self.span:
            self.sum -= self.entries.popleft()[1]
        return self.sum

    def frees_at(self, now: datetime) -> datetime:
        """The earliest instant at which something falls out of the span."""
        return (self.entries[0][0] if self.entries else now) + self.span


class PrimaryLimit(Refusal):
    """The caller has used up its hour."""


@dataclass
class Budget:
    """What one caller has used of its hour; `reset` is when the hour ends."""

    limit: int
    reset: datetime
    used: int = 0
    resource: str = "core"

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(ceil(self.reset.timestamp())),
            "X-RateLimit-Used": str(self.used),
            "X-RateLimit-Resource": self.resource,
        }

    def body(self) -> dict[str, int]:
        return {
            "limit": self.limit,
            "used": self.used,
            "remaining": self.remaining,
            "reset": ceil(self.reset.timestamp()),
        }


@dataclass
class Limits:
    """The limits in force and what each caller has used. Numbers may be changed at any time.

    `updates_create`: whether an update of a branch counts as content. GitHub's reference marks the merge as creating
    content and the update not, and octokit's list (plugin-throttling.js) has it neither; no one has measured it.
    `check_runs_create`: the same for check runs, which neither of them has.
    `points_together`: whether all endpoints of REST share the points of a minute. GitHub documents them for "too many
    requests to a single endpoint" and "for REST API endpoints", which can be read either way.
    `status` (403, 429, or 422: octokit/plugin-throttling.js #775) and `retry_after` ("when": until the window frees;
    None: no header; else seconds) say how a secondary limit is answered.
    """

    clock: Clock
    primary: int = 5_000
    anonymous: int = 60
    graphql: int = 5_000
    concurrent: int = 100
    points_per_minute: int = 900
    graphql_points_per_minute: int = 2_000
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    updates_create: bool = False
    check_runs_create: bool = False
    points_together: bool = False
    status: int = 403
    retry_after: int | Literal["when"] | None = "when"
    violations: list[Violation] = field(default_factory=list)
    _budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    _points: dict[tuple[str, str], _Window] = field(default_factory=dict)
    _creations: dict[tuple[str, timedelta], _Window] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)

    def budget(self, key: str, resource: str = "core") -> Budget:
        """The caller's present hour. GitHub's window is fixed: it starts with the first request."""
        now = self.clock.now()
        limit = self.anonymous if key == "anonymous" else self.primary if resource == "core" else self.graphql
        budget = self._budgets.get((key, resource))
        if budget is None or now >= budget.reset:
            budget = self._budgets[key, resource] = Budget(limit, now + _HOUR, resource=resource)
        budget.limit = limit
        return budget

    def enter(self, key: str) -> None:
        """A request of this caller begins; pair with `leave`."""
        self._open[key] = self._open.get(key, 0) + 1

    def leave(self, key: str) -> None:
        """A request has its answer."""
        self._open[key] -= 1

    def exhaust(self, key: str, resource: str = "core") -> PrimaryLimit:
        """Use up the primary limit and return its refusal; callers see none remaining until the reset."""
        budget = self.budget(key, resource)
        budget.used = max(budget.used, budget.limit)
        kind, _, number = key.partition(" ")
        whom = f"{kind} ID {number}" if number else "127.0.0.1"
        return PrimaryLimit(403, f"API rate limit exceeded for {whom}.", docs=_PRIMARY_DOCS)

    def secondary(self, request_id: str, status: int, retry_after: int | None) -> Refusal:
        """A secondary limit's refusal, with or without Retry-After (seconds)."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 422:
            abuse = {"resource": "IssueComment", "code": "abuse", "field": "base"}
            return Refusal(status, "Validation Failed", errors=[abuse], headers=headers)
        return Refusal(status, SECONDARY.format(request_id=request_id), docs=_SECONDARY_DOCS, headers=headers)

    def check(
        self, key: str, template: str, *, write: bool, creates: bool, request_id: str, resource: str = "core"
    ) -> None:
        """Counts the request against every limit, or raises the refusal and notes the violation."""
        now = self.clock.now()
        if self.budget(key, resource).remaining <= 0:
            self.violations.append(Violation(now, "primary", key, template))
            raise self.exhaust(key, resource)
        if self._open.get(key, 0) > self.concurrent:
            self._refuse("concurrent", key, template, now + _MINUTE, request_id)
        endpoint = resource if self.points_together else template
        points = self._points.setdefault((key, endpoint), _Window(_MINUTE))
        cost = 5 if write else 1
        if points.total(now) + cost > (
            self.points_per_minute if resource == "core" else self.graphql_points_per_minute
        ):
            self._refuse("points", key, template, points.frees_at(now), request_id)
        if creates and all(counts for path, counts in self._disputed().items() if template.endswith(path)):
            self._create(key, template, now, request_id)
        points.add(now, cost)
        self.budget(key, resource).used += 1

    def _disputed(self) -> dict[str, bool]:
        """Whether what no source counts as content does count."""
        return {"/update-branch": self.updates_create, "/check-runs": self.check_runs_create}

    def spend(self, key: str, resource: str, points: int) -> None:
        """Counts what a request costs beyond one point."""
        self.budget(key, resource).used += points

    def create_check_runs(self, key: str, template: str, count: int) -> None:
        """Counts the check runs that a mutation creates, where they count as content."""
        for _ in range(count if self.check_runs_create else 0):
            self._create(key, template, self.clock.now(), MUTATION_ID)

    def refund(self, key: str) -> None:
        """A 304 costs nothing of the primary limit."""
        self.budget(key).used -= 1

    def _create(self, key: str, template: str, now: datetime, request_id: str) -> None:
        windows = []
        for span, most in ((_MINUTE, self.creations_per_minute), (_HOUR, self.creations_per_hour)):
            created = self._creations.setdefault((key, span), _Window(span))
            if created.total(now) >= most:
                self._refuse("creations", key, template, created.frees_at(now), request_id)
            windows.append(created)
        for created in windows:
            created.add(now, 1)

    def _refuse(
        self, kind: Literal["concurrent", "points", "creations"], key: str, template: str, free: datetime, request: str
    ) -> None:
        now = self.clock.now()
        self.violations.append(Violation(now, kind, key, template))
        wait = self.retry_after
        seconds = max(1, ceil((free - now).total_seconds())) if wait == "when" else wait
        raise self.secondary(request, self.status, seconds)
