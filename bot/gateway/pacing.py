"""One installation's pace: what its calls cost of GitHub's secondary limits, and when the next one fits.

Figures and costs from GitHub's "Rate limits for the REST API"; what counts as content are the endpoints that its
reference marks with "creating content too quickly", and updates of branches, which create commits. The windows are
this process's own: several processes that share an installation share GitHub's limits, and then GitHub's answers
are what keeps them below together.
"""

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

_CONTENT = frozenset(
    {
        "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/update-branch",
    }
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What GitHub allows an installation. Points are for all endpoints together, which is the stricter reading."""

    content_per_minute: int = 80
    content_per_hour: int = 500
    points_per_minute: int = 900


DOCUMENTED = Rates()


class Pacing:
    """The windows of one installation."""

    def __init__(self, rates: Rates) -> None:
        self._content = (
            Window(int(rates.content_per_minute * _MARGIN), _MINUTE),
            Window(int(rates.content_per_hour * _MARGIN), _HOUR),
        )
        self._points = Window(int(rates.points_per_minute * _MARGIN), _MINUTE)

    def admit(self, call: Call, priority: Priority, now: datetime) -> timedelta | None:
        """Count a call that is sent now; or, if it would break a window, when to come back with it."""
        costs = [(self._points, _READ if call.method == "GET" else _WRITE)]
        if call.name in _CONTENT:
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
        return None


def _part(window: Window, priority: Priority) -> int:
    return window.limit if priority is Priority.NOW else int(window.limit * _BACKGROUND)
