"""How a world drives its bot: the parts with work that is due run, and the others are not even asked.

A part that is asked claims in a transaction of its own. Only the test moves a world's clock, so nine claims of
ten would find nothing, and take longer than everything else that a bot does.
"""

from datetime import datetime

from sqlalchemy import select

from bot.process.wiring import Bot
from notifications.outbox_dispatcher import OutboxDispatcher
from queue_engine.core.jobs.job import NEXT_DUE as NEXT_JOB
from queue_engine.core.jobs.worker import Worker
from queue_engine.core.timing.clock import Clock
from queue_engine.executor.scheduler import Scheduler
from queue_engine.store import WakeupKind
from queue_engine.store.outbox.outbox import NEXT_DUE as NEXT_ITEM
from queue_engine.store.queues import NEXT_DUE as NEXT_QUEUE

_NEXT_DUE = select(*(each.scalar_subquery() for each in (NEXT_JOB, NEXT_QUEUE, NEXT_ITEM)))


class Driver:
    """Drives one bot step by step, as its process would."""

    def __init__(self, bot: Bot, clock: Clock) -> None:
        """`clock` is the world's; the bot's own may be wrong."""
        self.bot = bot
        self._clock = clock
        # In the order of `_NEXT_DUE`.
        parts: dict[WakeupKind, Worker | Scheduler | OutboxDispatcher] = {
            WakeupKind.JOBS: bot.worker,
            WakeupKind.QUEUES: bot.scheduler,
            WakeupKind.OUTBOX: bot.dispatcher,
        }
        self._parts = [(topic, part, bot.engine.wakeup.waiter({topic})._event) for topic, part in parts.items()]
        self._dues: dict[WakeupKind, datetime] = {}

    async def next_due(self) -> datetime | None:
        """When something is due next, in the world's time."""
        await self._show()
        for _, _, rung in self._parts:
            rung.clear()
        async with self.bot.engine.store.reading() as tx:
            found = (await tx.connection.execute(_NEXT_DUE)).one()
        dues = zip(self._parts, found, strict=True)
        self._dues = {topic: due for (topic, *_), due in dues if due is not None}
        others = (await self.bot.sweeper.next_due(), await self.bot.watch.next_due())
        due = min([*self._dues.values(), *(each for each in others if each is not None)], default=None)
        return None if due is None else due - (self.bot.clock.now() - self._clock.now())

    async def run_due(self) -> bool:
        """Do what was due when `next_due` was asked, and what may have become so since; whether anything was done."""
        done = await self.bot.watch.run_due() or await self.bot.sweeper.run_due()
        for topic, part, rung in self._parts:
            due = self._dues.get(topic)
            if rung.is_set() or (due is not None and due <= self.bot.clock.now()):
                rung.clear()
                done = await part.run_due() or done
        return done

    async def _show(self) -> None:
        """Let event streams have what happened."""
        if self.bot.feed.readers:
            await self.bot.feed.run_due()
