"""One installation's pace: what its calls cost of GitHub's secondary limits, and when the next one fits.

Figures and costs from GitHub's "Rate limits for the REST API"; what counts as content are the endpoints that its
reference marks with "creating content too quickly". Octokit keeps the same list (plugin-throttling.js,
`triggers-notification-paths`); `update-branch` stands in neither, and is a write like others.

Merges come before words: the hour's content is left to the merges that wait, but for a tenth, by which people are told
what they must act on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gateway.client import Call
from queue_engine.core.pace import Window
from queue_engine.core.urgency import Priority

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)

_MARGIN = 0.9
"""GitHub counts when requests arrive, by its own clock, and does not tell how far one has come."""

_BACKGROUND = 0.8
"""The part of a window that background work may fill: what people wait for finds room behind a sweep."""

_READ, _WRITE = 1, 5

_COMMENT = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
_CONTENT = frozenset({_COMMENT, "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"})

_COMMENTS_PER_MINUTE = 0.5
"""The part of a minute's content that comments may fill: a merge finds room at once."""

_COMMENTS_PER_HOUR = 0.1
"""The part of an hour's content that urgent comments may use although merges wait for all of it."""

_PUT_OFF = timedelta(minutes=10)
"""The longest time until a comment that yields to merges is tried again: how many wait changes."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What GitHub allows an installation. Points are for all endpoints together, which is the stricter reading."""

    content_per_minute: int = 80
    content_per_hour: int = 500
    points_per_minute: int = 900


DOCUMENTED = Rates()

_Taken = tuple[datetime, int]


class Pacing:
    """The windows of one installation."""

    def __init__(self, rates: Rates) -> None:
        self._content = (
            Window(int(rates.content_per_minute * _MARGIN), _MINUTE),
            Window(int(rates.content_per_hour * _MARGIN), _HOUR),
        )
        self._points = Window(int(rates.points_per_minute * _MARGIN), _MINUTE)
        self._comments = (
            Window(max(1, int(rates.content_per_minute * _MARGIN * _COMMENTS_PER_MINUTE)), _MINUTE),
            Window(max(1, int(rates.content_per_hour * _MARGIN * _COMMENTS_PER_HOUR)), _HOUR),
        )

    def admit(self, call: Call, priority: Priority, now: datetime) -> timedelta | None:
        """Count a call that is sent now; or, if it would break a window, when to come back with it."""
        comments = call.name == _COMMENT
        if comments and (put_off := self._yield_to_merges(call.merges_waiting, priority, now)) is not None:
            return put_off
        costs = [(self._points, points_of(call))]
        if content_of(call) is not None:
            costs += [(window, 1) for window in self._content]
        parts = [(window, cost, _part(window, priority)) for window, cost in costs]
        wait, window, cost, part = max(
            ((window.wait(now, cost, of=part), window, cost, part) for window, cost, part in parts),
            key=lambda each: each[0],
        )
        if wait > timedelta(0):
            return window.turn_away(now, cost, of=part)
        for window, cost in costs:
            window.take(now, cost)
        if comments:
            for window in self._comments:
                window.take(now)
        return None

    def fill(self, taken: Iterable[tuple[str, datetime, int]]) -> None:
        """Replace what the windows hold: by kind (points, or of content as `content_of` names it), oldest first."""
        points, content, comments = list[_Taken](), list[_Taken](), list[_Taken]()
        for kind, at, amount in taken:
            (points if kind == "points" else content).append((at, amount))
            if kind == "comment":
                comments.append((at, amount))
        self._points.fill(points)
        for windows, found in ((self._content, content), (self._comments, comments)):
            for window in windows:
                window.fill(found)

    def reserve_points(self, wanted: int, priority: Priority, now: datetime) -> int:
        """Take so many points, or what is left of this priority's part; how many."""
        found = min(wanted, max(0, _part(self._points, priority) - self._points.used(now)))
        if found:
            self._points.take(now, found)
        return found

    def _yield_to_merges(self, waiting: int, priority: Priority, now: datetime) -> timedelta | None:
        """When a comment is tried again, if merges need the content that it would create; None if there is enough."""
        (_, hour), (minutes_share, hours_share) = self._content, self._comments
        if minutes_share.wait(now) > timedelta(0):
            return minutes_share.turn_away(now)
        if hour.used(now) + waiting < hour.limit:
            return None
        if priority is Priority.BACKGROUND:
            return _PUT_OFF
        if hours_share.wait(now) <= timedelta(0):
            return None
        return min(hours_share.turn_away(now), _PUT_OFF)


def points_of(call: Call) -> int:
    """What GitHub counts for a call against the points of a minute."""
    return _READ if call.reads else _WRITE


def content_of(call: Call) -> str | None:
    """What a call creates: `comment` or `merge`; None for one that creates no content."""
    if call.name == _COMMENT:
        return "comment"
    return "merge" if call.name in _CONTENT else None


def _part(window: Window, priority: Priority) -> int:
    return window.limit if priority is Priority.NOW else int(window.limit * _BACKGROUND)
