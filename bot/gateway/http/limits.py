"""Keep GitHub's limits before GitHub enforces them: remaining requests, and pauses."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gateway.http import pacing
from bot.gateway.http.client import Call
from bot.gateway.http.errors import requested_wait, reset_of
from bot.gateway.http.pacing import Pacing, SharedPace
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.observability.progress import Meter
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import CommentLimitError, RateLimitError

_RESERVE = 0.1
"""The share of the hour's requests that background work leaves to urgent calls."""

_UNSPECIFIED = Backoff(base=timedelta(minutes=1), maximum=timedelta(hours=1), jitter=0)
"""A secondary limit that names no time: "wait for at least one minute", and each time longer, says GitHub."""

_RETRY_SOON = timedelta(seconds=1)

_RESOURCES = ("core", "graphql")


@dataclass(frozen=True, slots=True)
class Budget:
    """The primary limit by GitHub's last answer: requests per hour, remaining ones, and their renewal (UTC)."""

    limit: int
    remaining: int
    resets_at: datetime


@dataclass(frozen=True, slots=True)
class _Pause:
    """A time in which nothing is sent."""

    since: datetime
    until: datetime


class Limits:
    """The limits of each installation; of the App itself under the key None.

    An App that keeps calling while limited may be banned, says GitHub's "Best practices for using the REST API".
    """

    def __init__(self, clock: Clock, meter: Meter, shared: SharedPace | None = None) -> None:
        """`shared` keeps the pace together with other processes; without it this process is the only one."""
        self.budget: dict[int | None, Budget] = {}
        """Of REST; GitHub counts GraphQL's points apart."""
        self._points: dict[int | None, Budget] = {}
        self._clock = clock
        self._meter = meter
        self._shared = shared
        self.processes = 1
        """How many processes have sent requests lately."""
        self._pauses: dict[tuple[int | None, str], _Pause] = {}
        self._unspecified: Counter[int | None] = Counter()
        """Refusals in a row that named no time."""
        self._in_flight: Counter[int | None] = Counter()
        self._paces: defaultdict[int | None, Pacing] = defaultdict(lambda: Pacing(pacing.DOCUMENTED))

    async def reserve(self, installation_id: int | None, call: Call, priority: RequestPriority) -> None:
        """Reserve the cost of a call, if processes share the limits. Raises RateLimitError if it has to wait."""
        if self._shared is None:
            return
        now = self._clock.now()
        self._check_pause((installation_id, call.resource), now)
        self._check_budget(installation_id, call, priority, now)
        answer = await self._shared.admit(installation_id, call, priority, now, self._paces[installation_id])
        self.processes = answer.processes or self.processes
        if answer.paused_until is not None:
            self._pause((installation_id, call.resource), answer.paused_until)
        if answer.wait is not None:
            raise self._kept_back(installation_id, call, answer.wait)

    async def share_pause(self, installation_id: int | None) -> None:
        """Share a pause that GitHub asked for with other processes."""
        pause = self._pauses.get((installation_id, "core"))
        if self._shared is not None and pause is not None:
            await self._shared.pause(installation_id, pause.until)

    @contextmanager
    def sending(self, installation_id: int | None, call: Call, priority: RequestPriority) -> Iterator[None]:
        """Count a call while it is sent. Raises RateLimitError, before any request, if it has to wait."""
        now = self._clock.now()
        self._check_pause((installation_id, call.resource), now)
        self._check_budget(installation_id, call, priority, now)
        if self._shared is None:
            delay = self._paces[installation_id].admit(call, priority, now)
            if delay is not None:
                raise self._kept_back(installation_id, call, delay)
        self._in_flight[installation_id] += 1
        try:
            yield
        finally:
            self._in_flight[installation_id] -= 1

    def note(self, installation_id: int | None, call: Call, headers: Mapping[str, str]) -> None:
        """Remember the limits in a response's headers."""
        try:
            budget = Budget(
                limit=int(headers["x-ratelimit-limit"]),
                remaining=int(headers["x-ratelimit-remaining"]),
                resets_at=reset_of(headers, self._clock.now()),
            )
        except (KeyError, ValueError):
            return
        self._budgets(call)[installation_id] = budget
        if budget.remaining <= 0:
            self._pause((installation_id, call.resource), budget.resets_at)

    def answered(self, installation_id: int | None) -> None:
        """Record a response without a limit."""
        del self._unspecified[installation_id]

    def refused(self, installation_id: int | None, call: Call, headers: Mapping[str, str]) -> timedelta:
        """Record a refusal for a limit, and return how long to wait: as GitHub asks, else longer each time.

        Primary limits are counted for each API by itself, secondary ones for both together.
        """
        primary = headers.get("x-ratelimit-remaining") == "0"
        self._meter.count("github_limited", kind="primary" if primary else "secondary")
        now = self._clock.now()
        waited = requested_wait(headers, now)
        if waited is None:
            waited = wait(_UNSPECIFIED, self._unspecified[installation_id], random=lambda: 0)
            self._unspecified[installation_id] += 1
        if not primary:
            self._paces[installation_id].refused(call, now)
        for resource in (call.resource,) if primary else _RESOURCES:
            self._pause((installation_id, resource), now + waited)
        return waited

    def own_limit_error(self, message: str, wait: timedelta) -> RateLimitError:
        """Return the error of a call that is not sent, because GitHub would refuse it."""
        self._meter.count("github_limited", kind="own")
        return RateLimitError(message, retry_after=wait)

    def count_check_runs(self, installation_id: int | None) -> None:
        """Record that GitHub refused a mutation of check runs for a secondary limit."""
        self._paces[installation_id].count_check_runs(self._clock.now())

    def counts_check_runs(self, installation_id: int | None) -> bool:
        """Whether GitHub counts check runs as content, by one that it refused within the hour."""
        return self._paces[installation_id].check_runs_create

    def _kept_back(self, installation_id: int | None, call: Call, wait: timedelta) -> RateLimitError:
        """Return the error of a call that waits for its pace; for a comment, a check run may find room."""
        self._meter.count("github_limited", kind="own")
        kind = CommentLimitError if self._paces[installation_id].has_other_words(call) else RateLimitError
        return kind("keeping a pace that GitHub's limits allow", retry_after=wait)

    def _budgets(self, call: Call) -> dict[int | None, Budget]:
        return self.budget if call.resource == "core" else self._points

    def _pause(self, key: tuple[int | None, str], until: datetime) -> None:
        pause = self._pauses.get(key)
        if pause is None or until > pause.until:
            self._pauses[key] = _Pause(self._clock.now(), until)

    def _check_pause(self, key: tuple[int | None, str], now: datetime) -> None:
        pause = self._pauses.get(key)
        if pause is None:
            return
        if now < pause.since:
            # The clock was set back: the pause starts again instead of growing by the difference.
            pause = self._pauses[key] = _Pause(now, now + (pause.until - pause.since))
        if now < pause.until:
            raise self.own_limit_error("waiting for GitHub's limit to pass", pause.until - now)
        del self._pauses[key]

    def _check_budget(self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime) -> None:
        """Refuse a call beyond the budget; each call in flight counts as one request."""
        budget = self._budgets(call).get(installation_id)
        if budget is None or now >= budget.resets_at:
            return
        remaining = budget.remaining - self._in_flight[installation_id]
        if priority is RequestPriority.BACKGROUND and remaining <= budget.limit * _RESERVE:
            raise self.own_limit_error(
                "the rest of this hour's requests is kept for urgent calls", budget.resets_at - now
            )
        if remaining <= 0:
            raise self.own_limit_error("the last of this hour's requests are in flight", _RETRY_SOON)
