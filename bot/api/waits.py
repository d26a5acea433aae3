"""Long polls: a reading call waits until its answer changes, or until its time is over.

An event of this process wakes the calls about its repository. Other processes' events are found by a poll every few
seconds. A waiting call holds no connection to the database, and its rights are judged at each poll. The number of
waiting calls is bounded, for each caller and in all; they end when the process does. While all slots are taken, the
caller with most calls gets an answer without a change to one of them, and its slot is another caller's.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from aiohttp import web
from pydantic import Field

from bot.api.auth import caller, identify
from bot.api.errors import ApiError
from bot.api.payload import Payload
from bot.api.permissions import budget_key
from bot.api.views import LONGEST_WAIT
from bot.http.connections import SharedSlots, SlotRefused
from queue_engine.domain.model import TimelineEvent
from queue_engine.effects.context import Engine
from queue_engine.store.tokens import Token

MOST, MOST_OF_CALLER = 100, 10
"""Waiting calls in one process, and those of one person or service."""

POLL_EVERY = timedelta(seconds=5)
"""How soon a waiting call finds what another process did."""

_BUSY = "too many calls wait for a change; try again, or ask without `wait`"

Load = Callable[[], Awaitable[Mapping[str, Any]]]
"""Judges the caller's rights and loads the answer."""


class WaitQuery(Payload):
    """How many seconds to wait for a change, and the `version` of the last answer, or its ETag."""

    wait: int | None = Field(None, ge=1, le=LONGEST_WAIT)
    since: str | None = Field(None, pattern=r'^"?[0-9a-f]{16}"?$')


class ChangeWaits:
    """Lets reading calls wait until their answer changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.waiting: dict[object, tuple[str, asyncio.Event]] = {}
        """The calls that wait: what each is about, and what wakes it."""
        self._slots = SharedSlots(MOST, MOST_OF_CALLER)

    def on_event(self, event: object) -> None:
        """Wake the calls about the repository of an event; a subscriber of the event bus."""
        if isinstance(event, TimelineEvent):
            self.wake(of_repository(event.repository_id))

    def wake(self, subject: str) -> None:
        """Wake the calls about this subject."""
        for each, woken in self.waiting.values():
            if each == subject:
                woken.set()

    async def answer(self, request: web.Request, subject: str, load: Load, asked: WaitQuery) -> web.Response:
        """Answer a reading call, at once or after a change, with its version as ETag.

        304 if the caller sent that ETag as `If-None-Match`. Raises ApiError 429, and the errors of `load`.
        """
        sent = _sent_versions(request)
        known = {asked.since.strip('"')} if asked.since is not None else sent
        found = await load()
        if asked.wait is not None and (not known or found["version"] in known):
            known = known or {found["version"]}
            found = await self._changed(request, subject, load, known, timedelta(seconds=asked.wait))
        headers = {"ETag": f'"{found["version"]}"', "Cache-Control": "private, no-cache"}
        if found["version"] in sent:
            return web.Response(status=304, headers=headers)
        return web.json_response(found, headers=headers)

    async def _changed(
        self, request: web.Request, subject: str, load: Load, known: set[str], limit: timedelta
    ) -> Mapping[str, Any]:
        with self._slot(caller(request), subject) as (woken, slot):
            timer = asyncio.create_task(self._engine.clock.sleep(limit))
            ends = [timer, *(asyncio.create_task(each.wait()) for each in (self._engine.ending, slot))]
            try:
                while True:
                    woken.clear()
                    found = await load()
                    if found["version"] not in known or any(each.done() for each in ends):
                        return found
                    await self._poll_again(woken, *ends)
                    # The token may have been revoked since.
                    await identify(request, self._engine.store, self._engine.clock)
            finally:
                for each in ends:
                    each.cancel()

    async def _poll_again(self, woken: asyncio.Event, *ends: asyncio.Task[Any]) -> None:
        poll, wakes = asyncio.create_task(self._engine.clock.sleep(POLL_EVERY)), asyncio.create_task(woken.wait())
        try:
            await asyncio.wait({poll, wakes, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            poll.cancel()
            wakes.cancel()

    @contextmanager
    def _slot(self, token: Token, subject: str) -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
        """Count a waiting call; yield what wakes it, and what is set when it loses its slot. Raises ApiError 429."""
        key, woken = object(), asyncio.Event()
        with ExitStack() as stack:
            try:
                slot = stack.enter_context(self._slots.take(budget_key(token)))
            except SlotRefused:
                raise ApiError(429, _BUSY, retry_after=POLL_EVERY) from None
            self.waiting[key] = subject, woken
            stack.callback(self.waiting.pop, key)
            yield woken, slot


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
