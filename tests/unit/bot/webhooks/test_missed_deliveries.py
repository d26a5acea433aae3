"""Deliveries that could not be stored: a look for them is asked for once the database is back."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from bot.webhooks.receiver import TOPIC, MissedDeliveries
from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.core.database.outage import ReadOnly
from queue_engine.domain.webhooks import WebhookEvent
from tests.support.real_time import LIMIT


class Database:
    """Stores deliveries and requested sweeps, or fails to."""

    def __init__(self) -> None:
        self.away = False
        self.sweeps = 0

    async def receive(self, webhook_event: WebhookEvent) -> bool:
        self._answer()
        return True

    async def request_sweep(self) -> None:
        self._answer()
        self.sweeps += 1

    def _answer(self) -> None:
        if self.away:
            raise ReadOnly("a standby")


async def test_delivery_that_was_not_stored_is_swept_for_when_the_database_is_back() -> None:
    """P2: GitHub sends nothing again by itself; the next sweep may be ten minutes away."""
    database, wakeup, webhook_event = Database(), Wakeup(), cast(WebhookEvent, cast(Any, None))
    missed, waiter = MissedDeliveries(database.receive, database.request_sweep, wakeup), wakeup.waiter((TOPIC,))
    assert await missed.receive(webhook_event)
    assert (await missed.run_due(), await missed.next_due()) == (False, None)
    database.away = True
    with pytest.raises(ReadOnly):
        await missed.receive(webhook_event)
    async with asyncio.timeout(LIMIT):
        await waiter.wait(timedelta(hours=1))
    with pytest.raises(ReadOnly):
        await missed.run_due()
    database.away = False
    assert await missed.run_due(), "the sweep could not be stored before"
    assert (await missed.run_due(), database.sweeps) == (False, 1)


async def test_delivery_missed_while_a_sweep_is_stored_gets_another_sweep() -> None:
    """P2: it may have been lost after GitHub listed those that were."""

    async def request_sweep() -> None:
        if not sweeps:
            missed.note()
        sweeps.append(1)

    sweeps = list[int]()
    missed = MissedDeliveries(Database().receive, request_sweep, Wakeup())
    missed.note()
    assert [await missed.run_due() for _ in range(3)] == [True, True, False]
