"""Long polls: a reading call waits until its answer changes, or until its time is over.

The feed reads the timeline once for all calls of this process, and an event wakes those that it concerns. A call that
waits for the outcome of a pull request is woken as that leaves its queue. What no event reports is found by polls that
become rarer, up to a bound. A waiting call holds no connection to the database; each poll judges its rights. The
number of waiting calls is bounded, for each caller and in all; they end when the process does, or their client leaves.
While all slots are taken, the caller with most calls gets an answer without a change to one of them, and its slot is
another caller's.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from aiohttp import web
from pydantic import Field

from bot.api.api_errors import ApiError
from bot.api.auth import caller, identify
from bot.api.payload import Payload
from bot.api.permissions import budget_key
from bot.http.connections import SharedSlots, SlotRefused
from bot.http.protocol import ClientConnection
from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import TimelineEvent
from queue_engine.effects.context import Engine
from queue_engine.store.tokens import Token

MOST, MOST_OF_CALLER = 100, 10
"""Waiting calls in one process, and those of one person. A service stands for many agents, and may have all."""

LONGEST_WAIT = 3600
"""Seconds that a call may wait. Proxies often end one that is silent for longer than a minute."""

FIRST_POLL = timedelta(seconds=5)
"""How soon a waiting call looks again although no event woke it; each later poll is twice as late, up to a bound."""

RAREST_POLL, RAREST_FOR_OUTCOME = timedelta(seconds=20), timedelta(minutes=5)
"""These bounds. For a change there is more that no event reports, such as results of a bulk call of another process.
A token that was revoked waits no longer than this."""

_LEAVES = ENDS | {"not_ready"}
"""The events after which a pull request may have left its queue, for good or until it is ready again."""

_BUSY = f"{MOST} calls wait for a change, and are the most; try again, or ask without `wait`"
_YOURS = (
    f"{MOST_OF_CALLER} of your calls wait, and are the most; end one, or ask without `wait`: a service may have {MOST}"
)

Load = Callable[[], Awaitable[Mapping[str, Any]]]
"""Judges the caller's rights and loads the answer."""


class WaitQuery(Payload):
    """How many seconds to wait for a change, and the `version` of the last answer, or its ETag."""

    wait: int | None = Field(None, ge=1, le=LONGEST_WAIT)
    since: str | None = Field(None, pattern=r'^"?[0-9a-f]{16}"?$')


class OutcomeQuery(WaitQuery):
    """The same, and whether to wait for any change, or until the pull request has left its queue."""

    until: Literal["change", "outcome"] = "change"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a pull request; `is_there` judges the rights, and says whether it has left its queue."""

    number: int
    is_there: Callable[[], Awaitable[bool]]


@dataclass(eq=False, slots=True)
class WaitingCall:
    """A call that waits: what it is about, what wakes it, and of which pull request it waits for the outcome."""

    subject: str
    number: int | None
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class ChangeWaits:
    """Lets reading calls wait until their answer changes."""

    def __init__(
        self, engine: Engine, following: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    ) -> None:
        """While a call waits in a context of `following`, `on_event` is called with the events of all processes."""
        self._engine, self._following = engine, following
        self.waiting: set[WaitingCall] = set()
        self._slots = SharedSlots(MOST, MOST_OF_CALLER)

    def on_event(self, event: TimelineEvent) -> None:
        """Wake the calls that an event concerns."""
        subject, left = of_repository(event.repository_id), event.number if event.event in _LEAVES else None
        for each in self.waiting:
            if each.subject == subject and each.number in {None, left}:
                each.woken.set()

    def wake(self, subject: str) -> None:
        """Wake the calls about this subject."""
        for each in self.waiting:
            if each.subject == subject:
                each.woken.set()

    async def answer(
        self, request: web.Request, subject: str, load: Load, asked: WaitQuery, outcome: Outcome | None = None
    ) -> web.Response:
        """Answer a reading call, at once or after a change, with its version as ETag.

        With `outcome`, a call waits until that pull request has left its queue. 304 if the caller sent that ETag as
        `If-None-Match`. Raises ApiError 429, and the errors of `load`.
        """
        sent = _sent_versions(request)
        known = {asked.since.strip('"')} if asked.since is not None else sent

        async def poll() -> Mapping[str, Any] | None:
            if outcome is not None:
                return await load() if await outcome.is_there() else None
            found = await load()
            return None if found["version"] in known else found

        found = await poll() if outcome is not None and asked.wait is not None else await load()
        if found is not None:
            known = known or {found["version"]}
        if asked.wait is not None and (found is None or (outcome is None and found["version"] in known)):
            call = WaitingCall(subject, None if outcome is None else outcome.number)
            found = await self._changed(request, call, load, poll, timedelta(seconds=asked.wait))
        assert found is not None
        headers = {"ETag": f'"{found["version"]}"', "Cache-Control": "private, no-cache"}
        if found["version"] in sent:
            return web.Response(status=304, headers=headers)
        return web.json_response(found, headers=headers)

    async def _changed(
        self,
        request: web.Request,
        call: WaitingCall,
        load: Load,
        poll: Callable[[], Awaitable[Mapping[str, Any] | None]],
        limit: timedelta,
    ) -> Mapping[str, Any]:
        protocol, pause = request.protocol, FIRST_POLL
        rarest = RAREST_POLL if call.number is None else RAREST_FOR_OUTCOME
        lost = protocol.lost if isinstance(protocol, ClientConnection) else asyncio.Event()
        async with self._following():
            with self._slot(caller(request), call) as slot:
                timer = asyncio.create_task(self._engine.clock.sleep(limit))
                ends = [timer, *(asyncio.create_task(each.wait()) for each in (self._engine.ending, slot, lost))]
                try:
                    while True:
                        call.woken.clear()
                        if any(each.done() for each in ends):
                            return await load()
                        if (found := await poll()) is not None:
                            return found
                        await self._next_poll(call.woken, pause, *ends)
                        # Events of other pull requests make no poll rarer.
                        if not call.woken.is_set():
                            pause = min(pause * 2, rarest)
                        # The token may have been revoked since.
                        await identify(request, self._engine.store, self._engine.clock)
                finally:
                    for each in ends:
                        each.cancel()

    async def _next_poll(self, woken: asyncio.Event, pause: timedelta, *ends: asyncio.Task[Any]) -> None:
        paused, wakes = asyncio.create_task(self._engine.clock.sleep(pause)), asyncio.create_task(woken.wait())
        try:
            await asyncio.wait({paused, wakes, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            paused.cancel()
            wakes.cancel()

    @contextmanager
    def _slot(self, token: Token, call: WaitingCall) -> Iterator[asyncio.Event]:
        """Count a waiting call; yield what is set when it loses its slot. Raises ApiError 429."""
        with ExitStack() as stack:
            try:
                slot = stack.enter_context(self._slots.take(budget_key(token), limited=not token.grant.service))
            except SlotRefused as full:
                raise ApiError(429, _BUSY if full.own is None else _YOURS, retry_after=FIRST_POLL) from None
            self.waiting.add(call)
            stack.callback(self.waiting.discard, call)
            yield slot


def of_repository(repository_id: int) -> str:
    """Return the subject of calls about a repository."""
    return f"repository:{repository_id}"


def of_process(process_id: str) -> str:
    """Return the subject of calls about a bulk call."""
    return f"process:{process_id}"


def with_version(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer with its version, which the call that waits for the next change names, too.

    The version changes with all but estimates: that of the landing, and how likely the pull request breaks its run.
    """
    version = _version_of(body)
    step = body.get("next")
    if step and step["call"] and step["call"]["method"] == "GET":
        call = step["call"] | {"path": f"{step['call']['path']}&since={version}"}
        body = {**body, "next": step | {"call": call}}
    return {**body, "version": version}


def _version_of(body: Mapping[str, Any]) -> str:
    stable, entry = {**body, "sentences": None}, body.get("entry")
    if isinstance(entry, Mapping):
        train = entry.get("train")
        sure = dict(train) | {"sentences": None, "suspicion": None} if isinstance(train, Mapping) else train
        stable["entry"] = dict(entry) | {"eta": None, "train": sure}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]


def _sent_versions(request: web.Request) -> set[str]:
    given = ",".join(request.headers.getall("If-None-Match", []))
    return {part.strip().removeprefix("W/").strip('"') for part in given.split(",") if part.strip()}
