"""Send outbox items to GitHub, and decide what follows a failure.

Items of one pull request go one after another; different pull requests do not wait for each other, but only a few
are served at once. An item that fails for good is buried with its error and harms no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from notifications.github_writer import GithubWriter
from queue_engine.core.observability import trace
from queue_engine.core.observability.meter import Meter, NullMeter
from queue_engine.core.timing.backoff import OUTDATED, OVERLOAD, Backoff, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, GitHubError, RateLimitError, StaleRead, Unauthorized, Unavailable
from queue_engine.domain.port import GitHubComments
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxItem

LEASE = timedelta(minutes=2)
"""How long a claimed item is left alone by other dispatchers; then its sender counts as dead.

An item may be begun in the first half of it: it makes a few requests, each with its time limit.
"""

MAX_TRIES = 288
"""With OVERLOAD's waits a day, unless GitHub itself asks for longer ones: what people are to read about an outage has
to outlast it."""

_log = structlog.get_logger(__name__)

_Chains = dict[tuple[int, int], deque[tuple[OutboxItem, datetime]]]


class OutboxDispatcher:
    """Sends what is due. `owner` names this running worker in leases; `random` gives numbers from 0 up to 1."""

    def __init__(
        self,
        store: Store,
        github: GitHubComments,
        clock: Clock,
        *,
        owner: str,
        random: Callable[[], float],
        lease: timedelta = LEASE,
        concurrency: int = 4,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._random = random
        self._meter = meter or NullMeter()
        self._lease = lease
        self._concurrency = concurrency
        self._writer = GithubWriter(store, github, clock)

    async def run_due(self) -> bool:
        """Send everything that is due by now. Returns whether anything was sent.

        Raises what the database raises; the items concerned come back when their leases end.
        """
        chains: _Chains = {}
        first = await self._claim(self._concurrency)
        results = await asyncio.gather(*(self._work(chains, item) for item in first), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return any(results)

    async def next_due(self) -> datetime | None:
        """When the next item can be sent: an instant that may be past; None if nothing waits."""
        async with self._store.reading() as tx:
            return await tx.outbox.next_due()

    async def _claim(self, at_most: int) -> list[OutboxItem]:
        """Take what is due in one transaction, so many items at most."""
        claimed = list[OutboxItem]()
        async with self._store.transaction() as tx:
            while len(claimed) < at_most:
                item = await tx.outbox.claim(owner=self._owner, now=self._clock.now(), lease=self._lease)
                if item is None:
                    break
                claimed.append(item)
        return claimed

    async def _work(self, chains: _Chains, item: OutboxItem) -> bool:
        """Serve pull requests until nothing is due. An item for one that is being served joins its chain."""
        sent, claimed = False, [item]
        while claimed:
            item = claimed.pop()
            key = (item.repository.id, item.number)
            started = (item, self._clock.now() + self._lease / 2)
            if key in chains:
                chains[key].append(started)
                claimed = await self._claim(1)
                continue
            chain = chains[key] = deque([started])
            try:
                while chain:
                    due, last_start = chain.popleft()
                    with trace.continued(due.trace, f"outbox {due.kind}"):
                        sent |= await self._deliver(due, last_start)
            finally:
                del chains[key]
            claimed = await self._claim(1)
        return sent

    async def _deliver(self, item: OutboxItem, last_start: datetime) -> bool:
        """Send one item; whether it arrived. What becomes of a failed one is stored before this returns."""
        log = _log.bind(kind=item.kind, repository=item.repository.full_name, number=item.number)
        if self._clock.now() >= last_start:
            log.warning("outbox_item_left_to_the_next_dispatcher")
            return False
        try:
            await self._writer.send(item)
        except RateLimitError as error:
            await self._later(item, error, log)
        # A key or a token that is not accepted is the operator's trouble, and mended while items wait.
        except (Unavailable, Unauthorized) as error:
            outdated = isinstance(error, StaleRead) and not OUTDATED.exhausted(item.attempts)
            await self._retry(item, error.message, log, OUTDATED if outdated else OVERLOAD)
        except GitHubError as error:
            mended = isinstance(error, Forbidden)
            await self._give_up(item, f"{type(error).__name__}: {error.message}", log, retryable=mended)
        except Exception as error:
            log.exception("outbox_item_failed_unexpectedly")
            await self._retry(item, repr(error), log)
        else:
            self._meter.count("outbox_sent", kind=item.kind)
            log.info("outbox_item_sent", version=item.version)
            return True
        return False

    async def _later(
        self, item: OutboxItem, limited: RateLimitError, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        """A limit is nobody's failure: it passes, and costs no try."""
        at = self._clock.now() + limited.retry_after
        async with self._store.transaction() as tx:
            await tx.outbox.hold(item, at=at)
        log.info("outbox_item_held", message=limited.message, at=at.isoformat())

    async def _retry(
        self, item: OutboxItem, error: str, log: structlog.typing.FilteringBoundLogger, backoff: Backoff = OVERLOAD
    ) -> None:
        """Try again after this wait; not for ever."""
        if item.attempts + 1 >= MAX_TRIES:
            await self._give_up(item, error, log, retryable=True)
            return
        at = self._clock.now() + wait(backoff, item.attempts, random=self._random)
        async with self._store.transaction() as tx:
            await tx.outbox.retry(item, at=at, error=error)
        log.warning("outbox_item_will_be_sent_again", error=error, at=at.isoformat(), attempts=item.attempts + 1)

    async def _give_up(
        self, item: OutboxItem, error: str, log: structlog.typing.FilteringBoundLogger, *, retryable: bool
    ) -> None:
        """Keep it among the dead letters; `retryable` if it may arrive once somebody has mended what it met."""
        async with self._store.transaction() as tx:
            await tx.outbox.dead(item, error, self._clock.now(), retryable=retryable)
        log.error("outbox_item_dead", error=error)
