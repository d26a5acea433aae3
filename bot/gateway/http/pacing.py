"""Pace one installation: what its calls cost of GitHub's secondary limits, and when the next one fits.

Figures and costs from GitHub's "Rate limits for the REST API"; what counts as content are the endpoints that its
reference marks with "creating content too quickly". Octokit keeps the same list (plugin-throttling.js,
`triggers-notification-paths`); `update-branch` stands in neither, and is a write like others.

Merges come before words: the hour's content is left to the merges that wait, but for a tenth, by which people are told
what they must act on. Of points, too, comments, check runs and labels leave what the merges that wait may need; where
few wait, that is little, and nothing of a burst waits.

Updates and merges come before everything else: a part of the points is theirs alone. Reads cost one point and would
take each one that becomes free, so that a write, which needs five at once, would never find room.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gateway.http.client import Call
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.store.operations.rate_limits import GRAPHQL_POINTS, POINTS

_MINUTE = timedelta(minutes=1)
_HALF_A_MINUTE = timedelta(seconds=30)
_HOUR = timedelta(hours=1)

_MARGIN = 0.9
"""GitHub counts when requests arrive, by its own clock, and does not tell how far one has come."""

_BACKGROUND = 0.8
"""The part of a window that background work may fill: what people wait for finds room behind a sweep."""

_IN_HALF_A_MINUTE = 0.65
"""The part of a minute's points that half of it may use: a burst finds room, and the next half has points as well."""

_FOR_MERGES = {RequestPriority.NOW: 0.5, RequestPriority.BACKGROUND: 0.6}
"""The part of points that comments, check runs and labels of each priority leave to merges at most."""

_AHEAD = 0.5
"""The part of a window within which points are reserved ahead."""

_FOR_UPDATES_AND_MERGES = 0.08
"""The part of REST's points that reads leave to updates and merges: four pull requests land within half a minute."""

_POINTS_OF_A_MERGE = 20
"""What each merge that waits may need: an update, the merge, and reads of checks and commits."""

_READ, _WRITE = 1, 5

_UPDATES_AND_MERGES = frozenset(
    {
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/update-branch",
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
    }
)
_COMMENT = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
_CONTENT = frozenset({_COMMENT, "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"})
_TELLS = ("/repos/{owner}/{repo}/issues/", "/repos/{owner}/{repo}/check-runs")
"""How the templates begin of all calls by which people are told something."""

_COMMENTS_PER_MINUTE = 0.5
"""The part of a minute's content that comments may fill: a merge finds room at once."""

_COMMENTS_PER_HOUR = 0.1
"""The part of an hour's content that urgent comments may use although merges wait for all of it."""

_PUT_OFF = timedelta(minutes=10)
"""The longest time until a comment that yields to merges is tried again: how many wait changes."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What GitHub allows an installation.

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
        self._content = (
            RateLimit(int(rates.content_per_minute * _MARGIN), _MINUTE),
            RateLimit(int(rates.content_per_hour * _MARGIN), _HOUR),
        )
        self._points = {
            POINTS: _minute_and_half(rates.points_per_minute),
            GRAPHQL_POINTS: _minute_and_half(rates.graphql_points_per_minute),
        }
        self._comments = (
            RateLimit(max(1, int(rates.content_per_minute * _MARGIN * _COMMENTS_PER_MINUTE)), _MINUTE),
            RateLimit(max(1, int(rates.content_per_hour * _MARGIN * _COMMENTS_PER_HOUR)), _HOUR),
        )

    def admit(self, call: Call, priority: RequestPriority, now: datetime) -> timedelta | None:
        """Count a call that is sent now; or, if it would break a window, when to come back with it."""
        comments = call.name == _COMMENT
        if comments and (put_off := self._yield_to_merges(call.merges_waiting, priority, now)) is not None:
            return put_off
        cost = points_of(call)
        costs = [(window, cost, _part_of_points(window, priority, call)) for window in self._points[points_kind(call)]]
        if content_of(call) is not None:
            costs += [(window, 1, _part(window, priority)) for window in self._content]
        wait, window, cost, part = max(
            ((window.wait(now, cost, of=part), window, cost, part) for window, cost, part in costs),
            key=lambda each: each[0],
        )
        if wait > timedelta(0):
            return window.delay(now, cost, of=part)
        for window, cost, _ in costs:
            window.take(now, cost)
        if comments:
            for window in self._comments:
                window.take(now)
        return None

    def fill(self, taken: Iterable[tuple[str, datetime, int]]) -> None:
        """Replace what the windows hold: by kind (of points, or of content as `content_of` names it), oldest first."""
        points: dict[str, list[_Taken]] = {kind: [] for kind in self._points}
        content, comments = list[_Taken](), list[_Taken]()
        for kind, at, amount in taken:
            points.get(kind, content).append((at, amount))
            if kind == "comment":
                comments.append((at, amount))
        filled = [(windows, points[kind]) for kind, windows in self._points.items()]
        for windows, found in (*filled, (self._content, content), (self._comments, comments)):
            for window in windows:
                window.fill(found)

    def reserve_points(self, kind: str, wanted: int, now: datetime) -> int:
        """Take so many points of this kind, as far as half of each window has them; how many.

        Where points are short, none is reserved that may expire unused, or be lost with its process.
        """
        left = [int(window.limit * _AHEAD) - window.used(now) for window in self._points[kind]]
        found = max(0, min(wanted, *left))
        if found:
            for window in self._points[kind]:
                window.take(now, found)
        return found

    def _yield_to_merges(self, waiting: int, priority: RequestPriority, now: datetime) -> timedelta | None:
        """When a comment is tried again, if merges need the content that it would create; None if there is enough."""
        (_, hour), (minutes_share, hours_share) = self._content, self._comments
        if minutes_share.wait(now) > timedelta(0):
            return minutes_share.delay(now)
        if hour.used(now) + waiting < hour.limit:
            return None
        if priority is RequestPriority.BACKGROUND:
            return _PUT_OFF
        if hours_share.wait(now) <= timedelta(0):
            return None
        return min(hours_share.delay(now), _PUT_OFF)


def points_of(call: Call) -> int:
    """What GitHub counts for a call against the points of a minute."""
    return _READ if call.reads else _WRITE


def points_kind(call: Call) -> str:
    """Which points a call costs: GitHub counts REST and GraphQL apart."""
    return GRAPHQL_POINTS if call.resource == "graphql" else POINTS


def content_of(call: Call) -> str | None:
    """What a call creates: `comment` or `merge`; None for one that creates no content."""
    if call.name == _COMMENT:
        return "comment"
    return "merge" if call.name in _CONTENT else None


def _minute_and_half(points: int) -> tuple[RateLimit, RateLimit]:
    """The window of a minute, and that of half of it: once all is used up, nobody waits for more than half a minute."""
    limit = int(points * _MARGIN)
    return RateLimit(limit, _MINUTE), RateLimit(int(limit * _IN_HALF_A_MINUTE), _HALF_A_MINUTE)


def _part(window: RateLimit, priority: RequestPriority) -> int:
    """How much of a window calls of this priority may fill."""
    return int(window.limit * (_BACKGROUND if priority is RequestPriority.BACKGROUND else 1.0))


def _part_of_reads(window: RateLimit, priority: RequestPriority, kind: str) -> int:
    """How much of a window of points reads of this priority may fill."""
    part = _part(window, priority)
    return part if kind == GRAPHQL_POINTS else min(part, window.limit - int(window.limit * _FOR_UPDATES_AND_MERGES))


def _part_of_points(window: RateLimit, priority: RequestPriority, call: Call) -> int:
    """How much of a window of points this call may fill: others leave room to updates and merges."""
    if call.name in _UPDATES_AND_MERGES:
        return _part(window, priority)
    if call.reads or not call.template.startswith(_TELLS):
        return _part_of_reads(window, priority, points_kind(call))
    return window.limit - min(int(window.limit * _FOR_MERGES[priority]), call.merges_waiting * _POINTS_OF_A_MERGE)
