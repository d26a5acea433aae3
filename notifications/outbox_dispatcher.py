"""Send outbox items to GitHub, and retry those that failed.

Items of one pull request are sent one after another, and a few pull requests are served at once. An item that fails for
good becomes a dead letter and delays no other. Items that GitHub refuses for the installation or the repository are
held: the event that ends the refusal releases them, or the first item that GitHub accepts, or a slow timer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from notifications.github_writer import GithubWriter
from queue_engine.core.concurrency.wakeup import WakeupListener
from queue_engine.core.observability import trace
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing.backoff import OUTDATED, OVERLOAD, OWNER, Backoff, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import (
    CommentLimitError,
    Forbidden,
    GitHubError,
    Invalid,
    NotFound,
    RateLimitError,
    Refused,
    StaleRead,
    Unauthorized,
    Unavailable,
    WriteRefused,
    attempt_level,
)
from queue_engine.domain.port import Comments
from queue_engine.rules.policies import Policies
from queue_engine.store import Store, Transaction
from queue_engine.store.outbox.items import LATE, OutboxItem, OutboxKind

LEASE = timedelta(minutes=2)
"""How long a dispatcher may keep a claimed item before another one claims it.

The dispatcher starts an item only in the first half: an item takes a few requests, each with a time limit.
"""

MAX_ATTEMPTS = 288
"""About a day with OVERLOAD's waits: notices about an outage have to outlast it. Twelve days of those of `REFUSED`."""

REFUSED = OWNER
"""Waits of items that a person has to make possible: by a permission, an allow list, the end of an archive."""

REPEATED = 5
"""How often an item fails before a refusal of its content (422) counts: about ten minutes with OVERLOAD's waits.

GitHub in trouble, or a proxy, answers 422 too.
"""

_LONGEST_WAIT = timedelta(hours=1)
"""For another item, while one is sent, which takes seconds."""

_LOCKED = "is locked"
"""GitHub's words for a conversation that takes no comments until a maintainer unlocks it."""

_log = structlog.get_logger(__name__)

_Chains = dict[tuple[int, int], deque[tuple[OutboxItem, datetime]]]


class OutboxDispatcher:
    """Sends due items. `owner` names this process in leases; `random` returns numbers from 0 up to 1."""

    def __init__(
        self,
        store: Store,
        github: Comments,
        clock: Clock,
        *,
        owner: str,
        random: Callable[[], float],
        lease: timedelta = LEASE,
        concurrency: int = 12,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._random = random
        self._meter = meter or NullMeter()
        self._lease = lease
        self._concurrency = concurrency
        self._woken = WakeupListener()
        self._ends = False
        self._writer = GithubWriter(store, github, clock)

    def wake_by(self, woken: WakeupListener) -> None:
        """Claim items that become due while others are sent, when this listener wakes."""
        self._woken = woken

    def link_to(self, website: str) -> None:
        """Link pages of GitHub's website in what is sent from now on."""
        self._writer.website = website

    def answer_by(self, policies: Policies) -> None:
        """Answer `/why` and `/status` by these policies."""
        self._writer.policies = policies

    async def run_due(self) -> bool:
        """Send all due items; whether any was. Those of a fault of the database come back when their leases end."""
        chains: _Chains = {}
        sent, failed, under_way = False, list[BaseException](), set[asyncio.Task[bool]]()
        more, claims = asyncio.create_task(self._woken.wait(_LONGEST_WAIT)), True
        try:
            while True:
                try:
                    # A burst may begin with one item, and one may hang: others come meanwhile.
                    claims = not failed and (claims or await self._is_left())
                    claimed = await self._claim(self._concurrency - len(under_way)) if claims else []
                    under_way |= {asyncio.create_task(self._serve(chains, item)) for item in claimed}
                except Exception as error:
                    failed.append(error)
                if not under_way:
                    break
                await asyncio.wait({*under_way, more}, return_when=asyncio.FIRST_COMPLETED)
                ended = {task for task in under_way if task.done()}
                claims = bool(ended)
                if more.done():
                    claims = claims or more.result() is not False
                    more = asyncio.create_task(self._woken.wait(_LONGEST_WAIT))
                under_way -= ended
                failed += [raised for task in ended if (raised := task.exception()) is not None]
                sent |= any(task.result() for task in ended if task.exception() is None)
        finally:
            for task in (more, *under_way):
                task.cancel()
            await asyncio.gather(more, *under_way, return_exceptions=True)
        if failed:
            raise failed[0]
        return sent

    def end(self) -> None:
        """Send the claimed items, and claim no more."""
        self._ends = True

    async def next_due(self) -> datetime | None:
        """Return when the next item is due, which may be in the past; None without items."""
        return await self._store.read(lambda tx: tx.outbox.next_due())

    async def _is_left(self) -> bool:
        """Whether an item is due that another process, which does its own first, has left for a while."""
        due = await self.next_due()
        return due is not None and due + self._woken.delay <= self._clock.now()

    async def _claim(self, at_most: int) -> list[OutboxItem]:
        """Claim due items in one transaction, so many at most."""
        claimed = list[OutboxItem]()
        if self._ends or at_most <= 0:
            return claimed
        async with self._store.transaction() as tx:
            while len(claimed) < at_most:
                item = await tx.outbox.claim(owner=self._owner, now=self._clock.now(), lease=self._lease)
                if item is None:
                    break
                claimed.append(item)
        return claimed

    async def _serve(self, chains: _Chains, item: OutboxItem) -> bool:
        """Send an item; whether it arrived. One for a pull request that is being served joins its chain."""
        key = (item.repository.id, item.number)
        started = (item, self._clock.now() + self._lease / 2)
        if key in chains:
            chains[key].append(started)
            return False
        sent, chain = False, deque([started])
        chains[key] = chain
        try:
            while chain:
                due, last_start = chain.popleft()
                with trace.continued(due.trace, f"outbox {due.kind}"):
                    sent |= await self._deliver(due, last_start)
        finally:
            del chains[key]
        return sent

    async def _deliver(self, item: OutboxItem, last_start: datetime) -> bool:
        """Send one item, and return whether it arrived. A failure is stored before this returns."""
        log = _log.bind(kind=item.kind, repository=item.repository.full_name, number=item.number)
        if self._clock.now() >= last_start:
            log.warning("outbox_item_left_to_the_next_dispatcher")
            return False
        try:
            await self._writer.send(item)
        except RateLimitError as error:
            await self._hold(item, error, log)
        except WriteRefused:
            # Written before the repository entered shadow mode; it would be outdated when IMQ may write again.
            await self._store.write(lambda tx: tx.outbox.done(item, self._clock.now()))
            log.info("outbox_item_dropped")
        # An operator can replace a refused key or token while items wait.
        except (Unavailable, Unauthorized) as error:
            outdated = isinstance(error, StaleRead) and not OUTDATED.exhausted(item.attempts)
            out_of_order = isinstance(error, Refused) and error.disorder is not None
            backoff = OUTDATED if outdated else REFUSED if out_of_order else OVERLOAD
            await self._retry(item, error.message, log, backoff, level=attempt_level(error), all_of_it=out_of_order)
        except GitHubError as error:
            words = f"{type(error).__name__}: {error.message}"
            locked = isinstance(error, Forbidden) and _LOCKED in error.message.lower()
            if isinstance(error, Forbidden) and not locked:
                await self._retry(item, words, log, REFUSED)
            elif isinstance(error, Invalid) and (item.attempts < REPEATED or item.error != words):
                await self._retry(item, words, log)
            elif isinstance(error, Forbidden | NotFound | Invalid):
                await self._give_up(item, words, log, retryable=locked)
                if locked and item.kind is OutboxKind.COMMENT:
                    await self._store.write(lambda tx: self._show_on_check_run(tx, item))
            else:
                await self._retry(item, words, log)
        except Exception as error:
            log.exception("outbox_item_failed_unexpectedly")
            await self._retry(item, repr(error), log)
        else:
            if item.attempts:
                await self._store.write(lambda tx: tx.outbox.release(item.repository.id, self._clock.now()))
            self._meter.count("outbox_sent", kind=item.kind)
            log.debug("outbox_item_sent", version=item.version)
            return True
        return False

    async def _hold(
        self, item: OutboxItem, limited: RateLimitError, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        """Hold an item until GitHub's limit is renewed, without an attempt; a check run shows the words meanwhile."""
        now = self._clock.now()
        at, since = now + limited.retry_after, item.held_since or now
        elsewhere = isinstance(limited, CommentLimitError) and at - since > LATE
        async with self._store.transaction() as tx:
            await tx.outbox.hold(item, at=at, since=None if elsewhere else since)
            if elsewhere:
                await self._show_on_check_run(tx, item)
        log.debug("outbox_item_held", message=limited.message, at=at.isoformat())

    async def _retry(
        self,
        item: OutboxItem,
        error: str,
        log: structlog.typing.FilteringBoundLogger,
        backoff: Backoff = OVERLOAD,
        *,
        level: int = logging.WARNING,
        all_of_it: bool = False,
    ) -> None:
        """Schedule the next attempt, or give up after the last; `all_of_it` holds all items of the repository."""
        if item.attempts + 1 >= MAX_ATTEMPTS:
            await self._give_up(item, error, log, retryable=True)
            return
        at = self._clock.now() + wait(backoff, item.attempts, random=self._random)
        async with self._store.transaction() as tx:
            await tx.outbox.retry(item, at=at, error=error)
            if all_of_it:
                await tx.outbox.hold_back(item.repository.id, until=at, error=error)
        log.log(level, "outbox_item_will_be_sent_again", error=error, at=at.isoformat(), attempts=item.attempts + 1)

    async def _show_on_check_run(self, tx: Transaction, item: OutboxItem) -> None:
        """Have the check run show the words that no comment can show now, unless it has these or newer ones."""
        assert item.notice is not None
        key = (item.repository.id, item.number)
        shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, *key)
        if shown is None or shown.at < item.notice.at or not await tx.outbox.is_written(*key):
            due = self._clock.now()
            await tx.outbox.want(OutboxKind.CHECK_RUN, item.repository, item.number, due=due, notice=item.notice)
        await tx.outbox.need_check_run(*key, item.notice.at)

    async def _give_up(
        self, item: OutboxItem, error: str, log: structlog.typing.FilteringBoundLogger, *, retryable: bool
    ) -> None:
        """Make the item a dead letter; `retryable` if a person can fix the cause and send it again."""
        await self._store.write(lambda tx: tx.outbox.dead(item, error, self._clock.now(), retryable=retryable))
        # A person can mend the cause of a retryable one, so the fault is not IMQ's.
        log.log(logging.WARNING if retryable else logging.ERROR, "outbox_item_dead", error=error)
