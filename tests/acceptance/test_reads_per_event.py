"""IMQ reads the entry and the policy of a pull request at most once for each event, outside of transactions."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial, wraps
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.api.pull_request_routes import QueueRoutes
from bot.gateway.policy_cache import Policies
from queue_engine.domain.model import Entry
from queue_engine.handlers.inbox import Inbox
from queue_engine.store import Store
from queue_engine.store.entries import Entries
from tests.acceptance.callers import caller, path_of
from tests.acceptance.commenting import ready
from tests.acceptance.world import LABEL, World, a_world

counted: ContextVar[Counter[str] | None] = ContextVar("counted", default=None)
"""The reads of the event that is handled now."""


def count(word: str) -> None:
    """Count one read, if an event is handled now."""
    if (counter := counted.get()) is not None:
        counter[word] += 1


class CountedEntries(Entries):
    """Counts each entry that is read by itself."""

    async def find(self, repository_id: int, number: int) -> Entry | None:
        count("entry")
        return await super().find(repository_id, number)

    async def get(self, entry_id: str) -> Entry | None:
        count("entry")
        return await super().get(entry_id)

    async def is_queued(self, repository_id: int, number: int) -> bool:
        count("entry")
        return await super().is_queued(repository_id, number)


Handled = list[tuple[str, Counter[str]]]


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Handled:
    """Each event that was handled, with its reads outside of transactions."""
    events: Handled = []
    reading, of = Store.reading, Policies.of

    @asynccontextmanager
    async def counted_reading(store: Store) -> AsyncIterator[Any]:
        async with reading(store) as tx:
            tx.__dict__["entries"] = CountedEntries(tx.connection)
            yield tx

    async def counted_of(policies: Policies, *of_what: Any) -> Any:
        count("policy")
        return await of(policies, *of_what)

    def event(name: Callable[..., str], handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(handler)
        async def handle(*given: Any) -> Any:
            reads = Counter[str]()
            token = counted.set(reads)
            try:
                return await handler(*given)
            finally:
                counted.reset(token)
                events.append((name(*given), reads))

        return handle

    monkeypatch.setattr(Store, "reading", counted_reading)
    monkeypatch.setattr(Policies, "of", counted_of)
    of_webhook = event(lambda _inbox, webhook, _job: getattr(webhook, "action", webhook.kind), Inbox._handle)
    monkeypatch.setattr(Inbox, "_handle", of_webhook)
    for call in ("queue", "requeue", "dequeue", "prioritise"):
        name = f"{call}_pull_request"
        monkeypatch.setattr(QueueRoutes, name, event(lambda *_: "call", getattr(QueueRoutes, name)))
    return events


async def reads(world: World, handled: Handled, name: str, act: Callable[[], object]) -> Counter[str]:
    """The most reads of one event of this name that comes of an act; entries and policies each."""
    handled.clear()
    act()
    await world.settle()
    found = [each for event, each in handled if event == name]
    assert found, [event for event, _ in handled]
    return Counter({word: max(each[word] for each in found) for word in ("entry", "policy")})


@pytest.mark.thorough
async def test_event_of_a_pull_request_reads_its_entry_and_its_policy_at_most_once(
    tmp_path: Path, handled: Handled
) -> None:
    """A label, a push, a label that is taken off: before these a pull request was read at up to seven places."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "0"}) as world:
        pull = world.open("add")
        await world.settle()
        assert await reads(world, handled, "labeled", lambda: pull.label(LABEL, by="mona")) == {"entry": 1, "policy": 1}
        assert len(await world.entries()) == 1
        assert await reads(world, handled, "labeled", lambda: pull.label("docs", by="mona")) == {
            "entry": 1,
            "policy": 1,
        }
        pushed = await reads(world, handled, "synchronize", lambda: pull.push({"more.py": "more\n"}, by="mona"))
        assert pushed == {"entry": 1, "policy": 1}
        assert await world.entries() == ()
        pull.label(LABEL, by="mona")
        await world.settle()
        assert len(await world.entries()) == 1
        taken_off = await reads(world, handled, "unlabeled", lambda: pull.unlabel(LABEL, by="mona"))
        assert taken_off == {"entry": 1, "policy": 1}
        assert await world.entries() == ()


@pytest.mark.thorough
async def test_event_of_a_pull_request_that_is_not_queued_asks_for_no_policy(tmp_path: Path, handled: Handled) -> None:
    """P7: a push to any other pull request costs one statement."""
    async with a_world(tmp_path) as world:
        pull = await ready(world)
        assert await reads(world, handled, "synchronize", lambda: pull.push({"more.py": "more\n"}, by="mona")) == {
            "entry": 1,
            "policy": 0,
        }


@pytest.mark.thorough
async def test_command_reads_the_entry_and_the_policy_at_most_once(tmp_path: Path, handled: Handled) -> None:
    """Its reply needs no second read."""
    async with a_world(tmp_path) as world:
        pull = world.open("add")
        await world.settle()
        for command, queued in (("/queue", 1), ("/queue", 1), ("/requeue", 1), ("/unqueue", 0)):
            counted_reads = await reads(world, handled, "comment", partial(pull.comment, command, by="mona"))
            assert counted_reads == {"entry": 1, "policy": 1}, command
            assert len(await world.entries()) == queued, command


async def test_call_reads_the_entry_and_the_policy_at_most_once(
    tmp_path: Path, handled: Handled, session: aiohttp.ClientSession
) -> None:
    """Programs call often."""
    async with a_world(tmp_path) as world:
        mona, pull = await caller(world, session), world.open("add")
        await world.settle()
        answers = [await mona.queue(pull), await mona.queue(pull)]
        answers.append(await mona.ask("POST", path_of(pull).replace("/queue", "/requeue")))
        answers.append(await mona.leave(pull))
        assert [answer.status for answer in answers] == [202, 200, 202, 200]
        assert [counts for event, counts in handled if event == "call"] == [{"entry": 1, "policy": 1}] * 4
