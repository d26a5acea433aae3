"""Log that GitHub does not answer: one line a minute, however many requests fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubOutage

log = structlog.get_logger("bot.gateway.http.connection")

_LOG_EVERY = timedelta(minutes=1)


class OutageLog:
    """Counts the requests without an answer since the last answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: datetime | None = None
        self._requests = 0
        self._logged_at: datetime | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record whether GitHub answers the request that is sent within the block."""
        try:
            yield
        except GitHubOutage as error:
            self._failed(error)
            raise
        self._answered()

    def _failed(self, error: GitHubOutage) -> None:
        now = self._clock.now()
        self._since = self._since or now
        self._requests += 1
        if self._logged_at is None or not timedelta(0) <= now - self._logged_at < _LOG_EVERY:
            self._logged_at = now
            log.warning("github_unreachable", error=error.message, requests=self._requests, since=str(self._since))

    def _answered(self) -> None:
        if self._since is None:
            return
        if self._logged_at is not None and self._logged_at >= self._since:
            log.info("github_reachable", requests_failed=self._requests, since=str(self._since))
        self._since, self._requests = None, 0
