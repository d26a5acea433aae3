"""Keep GitHub's limits before GitHub enforces them: what remains, and who must wait until when."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gateway.http import pacing
from bot.gateway.http.client import Call
from bot.gateway.http.errors import asked_wait, reset_of
from bot.gateway.http.pacing import Pacing
from bot.gateway.http.shared_pace import SharedPace
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.observability.meter import Meter
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import RateLimitError

_RESERVE = 0.1
"""The part of the hour's requests that background work leaves to what people wait for."""

_UNNAMED = Backoff(base=timedelta(minutes=1), maximum=timedelta(hours=1), jitter=0)
"""A secondary limit that names no time: "wait for at least one minute", and each time longer, says GitHub."""

_MOMENT = timedelta(seconds=1)

_RESOURCES = ("core", "graphql")


@dataclass(frozen=True, slots=True)
class Budget:
    """The primary limit as GitHub last told it: requests per hour, how many remain, and when they are renewed (UTC)."""

    limit: int
    remaining: int
    resets_at: datetime


@dataclass(frozen=True, slots=True)
class _Held:
    """Until when nothing is sent, and since when."""

    since: datetime
    until: datetime


class Limits:
    """The limits of each installation; of the App itself under the key None.

    An App that keeps calling while limited may be banned, says GitHub's "Best practices for using the REST API".
    """

    def __init__(self, clock: Clock, meter: Meter, shared: SharedPace | None = None) -> None:
        """`shared` keeps the pace together with other processes; without it this process is the only one."""
        self.budget: dict[int | None, Budget] = {}
        """Of REST; GraphQL's points are counted apart from it."""
        self._points: dict[int | None, Budget] = {}
        self._clock = clock
        self._meter = meter
        self._shared = shared
        self.processes = 1
        """How many processes have sent requests lately."""
        self._held: dict[tuple[int | None, str], _Held] = {}
        self._unnamed: Counter[int | None] = Counter()
        """Refusals in a row that named no time."""
        self._under_way: Counter[int | None] = Counter()
        self._paces: defaultdict[int | None, Pacing] = defaultdict(lambda: Pacing(pacing.DOCUMENTED))

    async def reserve(self, installation_id: int | None, call: Call, priority: RequestPriority) -> None:
        """Reserve what a call costs, where processes share the limits. Raises RateLimitError if it has to wait."""
        if self._shared is None:
            return
        now = self._clock.now()
        self._check_held((installation_id, call.resource), now)
        self._check_budget(installation_id, call, priority, now)
        answer = await self._shared.admit(installation_id, call, priority, now, self._paces[installation_id])
        self.processes = answer.processes or self.processes
        if answer.paused_until is not None:
            self._hold((installation_id, call.resource), answer.paused_until)
        if answer.wait is not None:
            raise self.held_back("keeping a pace that GitHub's limits allow all processes", answer.wait)

    async def share_pause(self, installation_id: int | None) -> None:
        """Tell other processes until when nothing is sent, if GitHub asked for that."""
        held = self._held.get((installation_id, "core"))
        if self._shared is not None and held is not None:
            await self._shared.pause(installation_id, held.until)

    @contextmanager
    def sending(self, installation_id: int | None, call: Call, priority: RequestPriority) -> Iterator[None]:
        """A call is sent within. Raises RateLimitError instead, without any request, while it has to wait."""
        now = self._clock.now()
        self._check_held((installation_id, call.resource), now)
        self._check_budget(installation_id, call, priority, now)
        if self._shared is None:
            too_soon = self._paces[installation_id].admit(call, priority, now)
            if too_soon is not None:
                raise self.held_back("keeping a pace that GitHub's limits allow", too_soon)
        self._under_way[installation_id] += 1
        try:
            yield
        finally:
            self._under_way[installation_id] -= 1

    def note(self, installation_id: int | None, call: Call, headers: Mapping[str, str]) -> None:
        """Remember what an answer's headers say."""
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
            self._hold((installation_id, call.resource), budget.resets_at)

    def answered(self, installation_id: int | None) -> None:
        """GitHub answered without naming a limit."""
        del self._unnamed[installation_id]

    def refused(self, installation_id: int | None, call: Call, headers: Mapping[str, str]) -> timedelta:
        """GitHub refused a request for its limits; how long to wait: as long as it asks, else longer each time.

        Primary limits are counted for each API by itself, secondary ones for both together.
        """
        primary = headers.get("x-ratelimit-remaining") == "0"
        self._meter.count("github_limited", kind="primary" if primary else "secondary")
        now = self._clock.now()
        asked = asked_wait(headers, now)
        if asked is None:
            asked = wait(_UNNAMED, self._unnamed[installation_id], random=lambda: 0)
            self._unnamed[installation_id] += 1
        for resource in (call.resource,) if primary else _RESOURCES:
            self._hold((installation_id, resource), now + asked)
        return asked

    def held_back(self, message: str, wait: timedelta) -> RateLimitError:
        """The error of a call that is not sent, so that GitHub need not refuse it."""
        self._meter.count("github_limited", kind="own")
        return RateLimitError(message, retry_after=wait)

    def _budgets(self, call: Call) -> dict[int | None, Budget]:
        return self.budget if call.resource == "core" else self._points

    def _hold(self, key: tuple[int | None, str], until: datetime) -> None:
        held = self._held.get(key)
        if held is None or until > held.until:
            self._held[key] = _Held(self._clock.now(), until)

    def _check_held(self, key: tuple[int | None, str], now: datetime) -> None:
        held = self._held.get(key)
        if held is None:
            return
        if now < held.since:
            # The clock was set back: the wait starts again, instead of growing by as much.
            held = self._held[key] = _Held(now, now + (held.until - held.since))
        if now < held.until:
            raise self.held_back("waiting for GitHub's limit to pass", held.until - now)
        del self._held[key]

    def _check_budget(self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime) -> None:
        """What is under way is not in the last answer yet, and may cost a request each."""
        budget = self._budgets(call).get(installation_id)
        if budget is None or now >= budget.resets_at:
            return
        remaining = budget.remaining - self._under_way[installation_id]
        if priority is RequestPriority.BACKGROUND and remaining <= budget.limit * _RESERVE:
            raise self.held_back("the rest of this hour's requests is for what people wait for", budget.resets_at - now)
        if remaining <= 0:
            raise self.held_back("the last of this hour's requests are under way", _MOMENT)
