"""Pace one installation: the cost of calls against GitHub's secondary limits, and when the next one fits.

Figures and costs from GitHub's "Rate limits for the REST API"; what counts as content are the endpoints that its
reference marks with "creating content too quickly". Octokit keeps the same list (plugin-throttling.js,
`triggers-notification-paths`); `update-branch` and check runs are in neither, and are writes like others. Should GitHub
refuse a check run for a secondary limit all the same, check runs count as content for an hour.

Merges come before comments: content is kept for what this hour can land, except a tenth for notices that need an
action. Comments, check runs and labels also leave enough points for the merges that may come at any moment.

Updates and merges come before everything else: a share of the points is theirs alone. Reads cost one point and would
take each one that becomes free, so that a write, which needs five at once, would never find room.

Each process decides by the windows of `pacing`, filled with what all of them have reserved, in a transaction that one
process at a time is in. Calls that create content are reserved one by one, as they are few. Points are reserved in
advance, as many as were used within the last second, so that a busy process asks the database once for many calls. Once
half of a window is used up, points are reserved one by one as well.

A reservation of points lasts two seconds, so that a killed process loses few. Reads leave a share of the points
to updates and merges, which need five at once. A pause that GitHub asks one process for pauses all. `imq run` on
SQLite is the only process, and reserves nothing.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.gateway.http.client import Call
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.store import Store
from queue_engine.store.figures import GRAPHQL_POINTS, POINTS, VALID

_MINUTE = timedelta(minutes=1)
_HALF_MINUTE = timedelta(seconds=30)
_HOUR = timedelta(hours=1)

MARGIN = 0.9
"""GitHub counts requests when they arrive, by its own clock, and does not report its count."""

_BACKGROUND_SHARE = 0.8
"""The share of a window that background work may fill, so that urgent calls find room during a sweep."""

_HALF_MINUTE_SHARE = 0.65
"""The share of a minute's points that half of it may use: a burst finds room, and the next half has points as well."""

_MERGE_SHARE = {RequestPriority.NOW: 0.5, RequestPriority.BACKGROUND: 0.6}
"""The share of points that comments, check runs and labels of each priority leave to merges at most."""

_RESERVED_SHARE = 0.5
"""The share of a window within which points are reserved ahead."""

_UPDATE_AND_MERGE_SHARE = 0.08
"""The share of REST's points that reads leave to updates and merges: four pull requests land within half a minute."""

_POINTS_PER_MERGE = 20
"""The points of a merge that comes soon: an update, the merge, and reads of checks and commits."""

_READ, _WRITE = 1, 5
_ANY = 1_000_000

_MERGES = (
    "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
    "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge-async",
)
_UPDATES_AND_MERGES = frozenset(
    {
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/update-branch",
        *_MERGES,
        "POST /repos/{owner}/{repo}/merges",
        "POST /repos/{owner}/{repo}/git/refs",
        "POST /repos/{owner}/{repo}/git/commits",
    }
)
"""Updates of heads, merges, and what builds candidates."""
_COMMENT = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
_CONTENT = frozenset({_COMMENT, *_MERGES, "POST /repos/{owner}/{repo}/pulls"})
_CHECK_RUN = "POST /repos/{owner}/{repo}/check-runs"
_NOTIFICATION_PATHS = ("/repos/{owner}/{repo}/issues/", "/repos/{owner}/{repo}/check-runs")
"""The beginnings of the templates of comments, labels and check runs."""

_COMMENTS_PER_MINUTE = 0.5
"""The share of a minute's content that comments may fill: a merge finds room at once."""

_COMMENTS_PER_HOUR = 0.1
"""The share of an hour's content that urgent comments may use although merges wait for all of it."""

_MAX_DELAY = timedelta(minutes=10)
"""The longest delay of a comment that yields to merges."""


@dataclass(frozen=True, slots=True)
class Rates:
    """GitHub's limits of an installation.

    "No more than 900 points per minute are allowed for REST API endpoints, and no more than 2,000 points per minute
    are allowed for the GraphQL API endpoint." That all REST endpoints share the 900 is the stricter reading.
    """

    content_per_minute: int = 80
    content_per_hour: int = 500
    points_per_minute: int = 900
    graphql_points_per_minute: int = 2_000


DOCUMENTED = Rates()

_Taken = tuple[datetime, int]


class Pacing:
    """The windows of one installation."""

    def __init__(self, rates: Rates) -> None:
        self.check_runs_create = False
        """Whether GitHub counts check runs as content, by one that it refused within the hour."""
        self._believed_until: datetime | None = None
        self._check_runs = _uncounted()
        """The check runs created, in case GitHub counts them as content."""
        self._content = (
            RateLimit(int(rates.content_per_minute * MARGIN), _MINUTE),
            RateLimit(int(rates.content_per_hour * MARGIN), _HOUR),
        )
        self._points = {
            POINTS: _minute_windows(rates.points_per_minute),
            GRAPHQL_POINTS: _minute_windows(rates.graphql_points_per_minute),
        }
        self._comments = (
            RateLimit(max(1, int(rates.content_per_minute * MARGIN * _COMMENTS_PER_MINUTE)), _MINUTE),
            RateLimit(max(1, int(rates.content_per_hour * MARGIN * _COMMENTS_PER_HOUR)), _HOUR),
        )

    def admit(self, call: Call, priority: RequestPriority, now: datetime) -> timedelta | None:
        """Count a call that is sent now; or return its delay, if it would exceed a window."""
        if self._believed_until is not None and now >= self._believed_until:
            self.check_runs_create, self._believed_until, self._check_runs = False, None, _uncounted()
        content = self._content_of(call)
        if (
            content == "comment"
            and (delay := self._yield_to_merges(call.merges_ahead.this_hour, priority, now)) is not None
        ):
            return delay
        cost = points_of(call)
        costs = [(window, cost, _share_of_points(window, priority, call)) for window in self._points[points_kind(call)]]
        if content is not None:
            costs += [(window, 1, _share(window, priority)) for window in self._content]
        wait, window, cost, share = max(
            ((window.wait(now, cost, of=share), window, cost, share) for window, cost, share in costs),
            key=lambda each: each[0],
        )
        if wait > timedelta(0):
            return window.delay(now, cost, of=share)
        for window, cost, _ in costs:
            window.take(now, cost)
        logs = (*self._comments,) if content == "comment" else ()
        for window in (*logs, *(self._check_runs if call.name == _CHECK_RUN else ())):
            window.take(now)
        return None

    def refused(self, call: Call, now: datetime) -> None:
        """Record a secondary limit."""
        if call.name == _CHECK_RUN:
            self.count_check_runs(now)

    def count_check_runs(self, now: datetime) -> None:
        """Have check runs count as content for an hour, since GitHub refused some.

        GitHub may have meant another limit: its words for content are also those for too many calls at once
        (JasonEtco/create-an-issue #142, nix-community/buildbot-nix #178).
        """
        if self.check_runs_create:
            return
        self.check_runs_create, self._believed_until = True, now + _HOUR
        for window, created in zip(self._content, self._check_runs, strict=True):
            window.add(created)

    def has_other_words(self, call: Call) -> bool:
        """Whether a call is a comment whose words a check run can show, which creates no content."""
        return call.name == _COMMENT and not self.check_runs_create

    def _content_of(self, call: Call) -> str | None:
        """Return the kind of content that a call creates, as far as check runs are known to count."""
        kind = content_of(call)
        return ("comment" if self.check_runs_create else None) if kind == "check_run" else kind

    def fill(self, taken: Iterable[tuple[str, datetime, int]]) -> None:
        """Replace the content of the windows, by kind (of points, or of content as in `content_of`), oldest first."""
        by_kind: defaultdict[str, list[_Taken]] = defaultdict(list)
        for kind, at, amount in taken:
            by_kind[kind].append((at, amount))
        check_runs = by_kind["check_run"] if self.check_runs_create else []
        comments = sorted((*by_kind["comment"], *check_runs))
        filled = [(windows, by_kind[kind]) for kind, windows in self._points.items()]
        filled += [(self._content, sorted((*comments, *by_kind["merge"]))), (self._comments, comments)]
        for windows, found in (*filled, (self._check_runs, by_kind["check_run"])):
            for window in windows:
                window.fill(found)

    def reserve_points(self, kind: str, amount: int, now: datetime) -> int:
        """Take points in advance, as far as half of each window has them; return how many. Short ones might expire."""
        left = [int(window.limit * _RESERVED_SHARE) - window.used(now) for window in self._points[kind]]
        found = max(0, min(amount, *left))
        if found:
            for window in self._points[kind]:
                window.take(now, found)
        return found

    def _yield_to_merges(self, waiting: int, priority: RequestPriority, now: datetime) -> timedelta | None:
        """Return the delay of a comment, if merges need the content that it would create; None if there is enough."""
        (_, hour), (minutes_share, hours_share) = self._content, self._comments
        if minutes_share.wait(now) > timedelta(0):
            return minutes_share.delay(now)
        if hour.used(now) + waiting < hour.limit:
            return None
        if priority is RequestPriority.BACKGROUND:
            return _MAX_DELAY
        if hours_share.wait(now) <= timedelta(0):
            return None
        return min(hours_share.delay(now), _MAX_DELAY)


def points_of(call: Call) -> int:
    """Return the points that GitHub counts for a call."""
    return _READ if call.reads else _WRITE


def points_kind(call: Call) -> str:
    """Return the kind of points of a call: GitHub counts REST and GraphQL apart."""
    return GRAPHQL_POINTS if call.resource == "graphql" else POINTS


def content_of(call: Call) -> str | None:
    """Return the content that a call creates: `comment`, `merge` (also a pull request of a candidate), `check_run`
    (which no source counts), or None.
    """
    if call.name in (_COMMENT, _CHECK_RUN):
        return "comment" if call.name == _COMMENT else "check_run"
    return "merge" if call.name in _CONTENT else None


def _uncounted() -> tuple[RateLimit, RateLimit]:
    """Return windows of a minute and of an hour without a limit, in which calls are only counted."""
    return RateLimit(_ANY, _MINUTE), RateLimit(_ANY, _HOUR)


def _minute_windows(points: int) -> tuple[RateLimit, RateLimit]:
    """Return the windows of a minute and of half a minute, so that no call waits for more than half a minute."""
    limit = int(points * MARGIN)
    return RateLimit(limit, _MINUTE), RateLimit(int(limit * _HALF_MINUTE_SHARE), _HALF_MINUTE)


def _share(window: RateLimit, priority: RequestPriority) -> int:
    """Return how much of a window calls of this priority may fill."""
    return int(window.limit * (_BACKGROUND_SHARE if priority is RequestPriority.BACKGROUND else 1.0))


def _share_of_reads(window: RateLimit, priority: RequestPriority, kind: str) -> int:
    """Return how many points of a window reads of this priority may use."""
    share = _share(window, priority)
    return share if kind == GRAPHQL_POINTS else min(share, window.limit - int(window.limit * _UPDATE_AND_MERGE_SHARE))


def _share_of_points(window: RateLimit, priority: RequestPriority, call: Call) -> int:
    """Return how many points of a window this call may use; other calls leave room to updates and merges."""
    if call.name in _UPDATES_AND_MERGES:
        return _share(window, priority)
    if call.reads or not call.template.startswith(_NOTIFICATION_PATHS):
        return _share_of_reads(window, priority, points_kind(call))
    return window.limit - min(int(window.limit * _MERGE_SHARE[priority]), call.merges_ahead.soon * _POINTS_PER_MERGE)


_MAX_RESERVED = 20
"""The most points reserved in advance: those of a killed process are missing for a minute."""

_RECENT = timedelta(seconds=1)
"""A process reserves in advance as many points as it used within this time."""

_ACTIVE_FOR = timedelta(seconds=15)
"""A process that has reserved something within this time counts among those that share the slots."""

_APP = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """The wait of a call (None: send it now), the pause of all processes, and their number."""

    wait: timedelta | None
    paused_until: datetime | None = None
    processes: int | None = None


@dataclass(slots=True)
class _Reserved:
    """Points reserved in advance: those left of each reservation, and those used recently; each with its instant."""

    left: deque[tuple[datetime, int]] = field(default_factory=deque)
    used: deque[tuple[datetime, int]] = field(default_factory=deque)

    def take(self, cost: int, now: datetime) -> bool:
        """Use reserved points for a call; return False, and use none, if they are too few."""
        self.left = deque((at, points) for at, points in self.left if at <= now < at + VALID)
        if cost > sum(points for _, points in self.left):
            return False
        while cost:
            at, points = self.left.popleft()
            if points > cost:
                self.left.appendleft((at, points - cost))
            cost -= min(cost, points)
        return True

    def wanted(self, cost: int, now: datetime) -> int:
        """Return how much to reserve in advance with a call of this cost: as much as was used within a second."""
        self.used = deque((at, points) for at, points in self.used if at <= now < at + _RECENT)
        return min(_MAX_RESERVED, cost + sum(points for _, points in self.used))


class SharedPace:
    """Reserves the calls of this process in the database."""

    def __init__(self, store: Store, owner: str) -> None:
        """`owner` names this process."""
        self._store = store
        self._owner = owner
        self._reserved: defaultdict[tuple[int | None, RequestPriority, str], _Reserved] = defaultdict(_Reserved)
        self._locks: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def admit(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Admission:
        """Reserve the cost of a call, or return its wait. Raises errors of the database."""
        reserved = self._reserved[installation_id, priority, points_kind(call)]
        async with self._locks[installation_id]:
            if content_of(call) is not None or not reserved.take(points_of(call), now):
                answer = await self._reserve(installation_id, call, priority, now, pacing)
            else:
                answer = Admission(None)
            if answer.wait is None:
                reserved.used.append((now, points_of(call)))
            return answer

    async def pause(self, installation_id: int | None, until: datetime) -> None:
        """Share a pause that GitHub asked for with all processes."""
        await self._store.write(lambda tx: tx.pace.pause(installation_id or _APP, until))

    async def _reserve(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Admission:
        kind, points, cost = content_of(call), points_kind(call), points_of(call)
        reserved = self._reserved[installation_id, priority, points]
        async with self._store.transaction() as tx:
            shared = await tx.pace.lock(installation_id or _APP, now)
            pacing.fill((each.kind, each.at, each.amount) for each in shared.reservations)
            owners = len({self._owner, *(each.owner for each in shared.reservations if now - each.at < _ACTIVE_FOR)})
            if shared.paused_until is not None and shared.paused_until > now:
                return Admission(shared.paused_until - now, shared.paused_until, owners)
            if (wait := pacing.admit(call, priority, now)) is not None:
                return Admission(wait, None, owners)
            found = 0 if kind is not None else pacing.reserve_points(points, reserved.wanted(cost, now), now)
            content = [] if kind is None else [(kind, 1)]
            await tx.pace.reserve(installation_id or _APP, self._owner, [*content, (points, cost + found)], now)
        if found:
            reserved.left.append((now, found))
        return Admission(None, None, owners)
