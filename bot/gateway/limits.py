"""GitHub's limits, obeyed before they bite: what remains of them, and who must wait until when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from queue_engine.core.clock import Clock
from queue_engine.errors import RateLimited


@dataclass(frozen=True, slots=True)
class Budget:
    """The primary limit as GitHub last told it: requests per hour, how many remain, and when they are renewed (UTC)."""

    limit: int
    remaining: int
    resets_at: datetime


class Limits:
    """The limits of each installation; of the App itself under the key None.

    Whoever goes on asking while limited may be banned, says GitHub's "Best practices for using the REST API".
    """

    def __init__(self, clock: Clock) -> None:
        self.budget: dict[int | None, Budget] = {}
        self._held_until: dict[int | None, datetime] = {}
        self._clock = clock

    def check(self, installation_id: int | None) -> None:
        """Raise RateLimited, without any request, while this installation has to wait."""
        until = self._held_until.get(installation_id)
        if until is None:
            return
        wait = until - self._clock.now()
        if wait > timedelta(0):
            raise RateLimited("waiting for GitHub's limit to pass", retry_after=wait)
        del self._held_until[installation_id]

    def note(self, installation_id: int | None, headers: Mapping[str, str]) -> None:
        """Remember what an answer's headers say."""
        try:
            budget = Budget(
                limit=int(headers["x-ratelimit-limit"]),
                remaining=int(headers["x-ratelimit-remaining"]),
                resets_at=datetime.fromtimestamp(int(headers["x-ratelimit-reset"]), UTC),
            )
        except (KeyError, ValueError):
            return
        self.budget[installation_id] = budget
        if budget.remaining <= 0:
            self._hold(installation_id, budget.resets_at)

    def hold(self, installation_id: int | None, wait: timedelta) -> None:
        """Make this installation wait: GitHub has refused a request for its limits."""
        self._hold(installation_id, self._clock.now() + wait)

    def _hold(self, installation_id: int | None, until: datetime) -> None:
        held = self._held_until.get(installation_id)
        self._held_until[installation_id] = until if held is None else max(held, until)
