"""A receiver over a real socket."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from pydantic import SecretStr

from bot.metrics import Metrics
from bot.web.application import Readiness, create_app, serve
from bot.webhooks.receiver import Receiver
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.webhooks.signed import SECRET, Inbox


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def read_limit() -> timedelta:
    return timedelta(seconds=30)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def url(inbox: Inbox, clock: ManualClock, read_limit: timedelta, metrics: Metrics) -> AsyncIterator[str]:
    receiver = Receiver(
        secret=SecretStr(SECRET),
        own_app_id=77,
        store=inbox.store,
        clock=clock,
        read_limit=read_limit,
        meter=metrics,
    )
    runner = await serve(create_app(receiver, Readiness({}, clock)), 0, "127.0.0.1")
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    await runner.cleanup()
