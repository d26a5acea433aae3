"""The courier: takes letters from the outbox to GitHub, and decides what becomes of those that fail.

Letters of one pull request go one after another; different pull requests do not wait for each other, but only a few
are served at once. A letter that fails for good is buried with its error and harms no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from notifications.delivery import Delivery
from queue_engine.core import trace
from queue_engine.core.backoff import OUTDATED, OVERLOAD, Backoff, wait
from queue_engine.core.clock import Clock
from queue_engine.core.meter import Meter, Silent
from queue_engine.errors import Forbidden, GitHubError, OutdatedRead, RateLimited, Unauthorized, Unavailable
from queue_engine.port import Letters
from queue_engine.store import Store
from queue_engine.store.outbox import Letter

LEASE = timedelta(minutes=2)
"""How long a claimed letter is left alone by other couriers; then its sender counts as dead.

A letter may be begun in the first half of it: it makes a few requests, each with its time limit.
"""

MAX_TRIES = 288
"""With OVERLOAD's waits a day, unless GitHub itself asks for longer ones: what people are to read about an outage has
to outlast it."""

_log = structlog.get_logger(__name__)

_Chains = dict[tuple[int, int], deque[tuple[Letter, datetime]]]


class Courier:
    """Sends what is due. `owner` names this running worker in leases; `random` gives numbers from 0 up to 1."""

    def __init__(
        self,
        store: Store,
        letters: Letters,
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
        self._meter = meter or Silent()
        self._lease = lease
        self._concurrency = concurrency
        self._delivery = Delivery(store, letters, clock)

    async def run_due(self) -> bool:
        """Send everything that is due by now. Returns whether anything was sent.

        Raises what the database raises; the letters concerned come back when their leases end.
        """
        chains: _Chains = {}
        first = await self._claim(self._concurrency)
        results = await asyncio.gather(*(self._work(chains, letter) for letter in first), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return any(results)

    async def next_due(self) -> datetime | None:
        """When the next letter can be sent: an instant that may be past; None if nothing waits."""
        async with self._store.reading() as tx:
            return await tx.outbox.next_due()

    async def _claim(self, at_most: int) -> list[Letter]:
        """Take what is due in one transaction, so many letters at most."""
        claimed = list[Letter]()
        async with self._store.transaction() as tx:
            while len(claimed) < at_most:
                letter = await tx.outbox.claim(owner=self._owner, now=self._clock.now(), lease=self._lease)
                if letter is None:
                    break
                claimed.append(letter)
        return claimed

    async def _work(self, chains: _Chains, letter: Letter) -> bool:
        """Serve pull requests until nothing is due. A letter for one that is being served joins its chain."""
        sent, claimed = False, [letter]
        while claimed:
            letter = claimed.pop()
            key = (letter.repository.id, letter.number)
            item = (letter, self._clock.now() + self._lease / 2)
            if key in chains:
                chains[key].append(item)
                claimed = await self._claim(1)
                continue
            chain = chains[key] = deque([item])
            try:
                while chain:
                    due, last_start = chain.popleft()
                    with trace.continued(due.trace, f"letter {due.kind}"):
                        sent |= await self._deliver(due, last_start)
            finally:
                del chains[key]
            claimed = await self._claim(1)
        return sent

    async def _deliver(self, letter: Letter, last_start: datetime) -> bool:
        """Send one letter; whether it arrived. What becomes of a failed one is stored before this returns."""
        log = _log.bind(kind=letter.kind, repository=letter.repository.full_name, number=letter.number)
        if self._clock.now() >= last_start:
            log.warning("letter_left_to_the_next_courier")
            return False
        try:
            await self._delivery.send(letter)
        except RateLimited as error:
            await self._later(letter, error, log)
        # A key or a token that is not accepted is the operator's trouble, and mended while letters wait.
        except (Unavailable, Unauthorized) as error:
            outdated = isinstance(error, OutdatedRead) and not OUTDATED.exhausted(letter.attempts)
            await self._again(letter, error.message, log, OUTDATED if outdated else OVERLOAD)
        except GitHubError as error:
            mended = isinstance(error, Forbidden)
            await self._bury(letter, f"{type(error).__name__}: {error.message}", log, retryable=mended)
        except Exception as error:
            log.exception("letter_failed_unexpectedly")
            await self._again(letter, repr(error), log)
        else:
            self._meter.count("letters_sent", kind=letter.kind)
            log.info("letter_sent", version=letter.version)
            return True
        return False

    async def _later(self, letter: Letter, limited: RateLimited, log: structlog.typing.FilteringBoundLogger) -> None:
        """A limit is nobody's failure: it passes, and costs no try."""
        at = self._clock.now() + limited.retry_after
        async with self._store.transaction() as tx:
            await tx.outbox.hold(letter, at=at)
        log.info("letter_held", message=limited.message, at=at.isoformat())

    async def _again(
        self, letter: Letter, error: str, log: structlog.typing.FilteringBoundLogger, backoff: Backoff = OVERLOAD
    ) -> None:
        """Try again after this wait; not for ever."""
        if letter.attempts + 1 >= MAX_TRIES:
            await self._bury(letter, error, log, retryable=True)
            return
        at = self._clock.now() + wait(backoff, letter.attempts, random=self._random)
        async with self._store.transaction() as tx:
            await tx.outbox.retry(letter, at=at, error=error)
        log.warning("letter_will_be_sent_again", error=error, at=at.isoformat(), attempts=letter.attempts + 1)

    async def _bury(
        self, letter: Letter, error: str, log: structlog.typing.FilteringBoundLogger, *, retryable: bool
    ) -> None:
        """Keep it among the dead letters; `retryable` if it may arrive once somebody has mended what it met."""
        async with self._store.transaction() as tx:
            await tx.outbox.dead(letter, error, self._clock.now(), retryable=retryable)
        log.error("letter_dead", error=error)
