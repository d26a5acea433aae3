"""An outage of GitHub is one line of the log a minute, however many requests fail."""

from contextlib import suppress
from datetime import timedelta

from structlog.testing import capture_logs

from bot.gateway.http.connection import OutageLog
from queue_engine.domain.errors import GitHubOutage, Unavailable
from tests.unit.bot.conftest import ManualClock


def request(outage: OutageLog, error: Exception | None = None) -> None:
    """A request that fails with this error, or that GitHub answers."""
    with suppress(Unavailable), outage.watched():
        if error is not None:
            raise error


def test_requests_without_an_answer_are_one_line_a_minute_until_github_answers() -> None:
    """The line says how many there were, and since when."""
    clock = ManualClock()
    outage, gone = OutageLog(clock), GitHubOutage("GET /app failed: no route")
    with capture_logs() as logs:
        for _ in range(180):
            request(outage, gone)
            clock.instant += timedelta(seconds=1)
        request(outage)
        request(outage)
    assert [(line["event"], line.get("requests")) for line in logs] == [
        ("github_unreachable", 1),
        ("github_unreachable", 61),
        ("github_unreachable", 121),
        ("github_reachable", None),
    ]
    assert logs[-1]["requests_failed"] == 180


def test_connection_that_comes_and_goes_is_still_one_line_a_minute() -> None:
    """Single answers in between start no new line."""
    clock = ManualClock()
    outage = OutageLog(clock)
    with capture_logs() as logs:
        for _ in range(59):
            request(outage, GitHubOutage("no route"))
            request(outage)
            clock.instant += timedelta(seconds=1)
    assert [line["event"] for line in logs] == ["github_unreachable", "github_reachable"]


def test_answer_that_is_an_error_is_no_outage() -> None:
    """GitHub can be reached, and what it says is logged where it matters."""
    with capture_logs() as logs:
        request(OutageLog(ManualClock()), Unavailable("Server Error", status=500))
    assert logs == []
