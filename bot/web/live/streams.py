"""Event streams: `/events` for people at pages, `/api/v1/events` for programs.

A stream has the events of one repository, or of all that its reader may read. It holds no database connection while
nothing happens. Each minute IMQ looks again whether the session or token is valid, and what it may read (GitHub is
asked again after five minutes). Then the stream of a reader who may not go on ends, with the reason.

While all streams are open, a reader with fewer gets one of the reader with most: that one ends, and its page polls.

A reader who is slower than the events loses the oldest ones, and gets an event `missed`. A reader whose connection
takes no bytes for seconds is cut off. The specification of server-sent events is WHATWG's (HTML, section 9.2).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from aiohttp import web

from bot.api.api_errors import ApiError, known_error
from bot.api.auth import ANONYMOUS, identify
from bot.api.events import MAX_REQUESTS, EventAnswer, EventFilter
from bot.api.payload import json_data, query
from bot.api.permissions import Access, budget_key, no_such_repository
from bot.http.client_address import ClientAddresses
from bot.http.connections import SharedSlots, SlotRefused
from bot.http.event_stream import StreamAnswer
from bot.http.protocol import ClientConnection
from bot.web.live.feed import Feed, FeedEvent, FeedReader
from bot.web.live.request_watch import RequestAccess, RequestIds, RequestWatch, shown
from notifications.event_bus import EventStream
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.queries.request_status import RequestStatus
from queue_engine.store.tokens import Token

CHECK_INTERVAL = timedelta(minutes=1)
"""How often rights are looked at again while a stream is open."""

STREAMS_SHARE = 4
"""One of so many connections may be a stream: the others are for webhooks and pages."""

_RETRY = timedelta(seconds=30)
"""When a reader may try again who met the limit of streams."""
_NO_STREAM = "IMQ has no event stream left: poll, or try again later"
_MAX_EVENT_ID = 2**63
_MAX_EVENT_DIGITS = len(str(_MAX_EVENT_ID))


Renew = Callable[[web.Request], Awaitable[Token]]
"""Finds the token of a request again. Raises ApiError for an ended session, or a revoked token."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    streams: int = 128
    of_person: int = 12
    """Streams of a person, of a token that is no person's, or of the address of a client who is not logged in."""
    send_seconds: float = 10.0
    """How long a connection may take no bytes before it is cut off."""
    keep_alive_seconds: float = 15.0
    """Between comments that keep proxies from closing an idle connection."""
    reconnect: timedelta = timedelta(seconds=3)
    """When a browser connects again after it lost the stream."""


class EventStreams:
    def __init__(
        self,
        engine: Engine,
        access: Access,
        feed: Feed,
        watch: RequestWatch,
        *,
        ids: RequestIds,
        addresses: ClientAddresses,
        limits: StreamLimits | None = None,
    ) -> None:
        self._engine, self._access, self._feed, self._watch = engine, access, feed, watch
        self._requests, self._addresses = RequestAccess(engine, access, ids), addresses
        self._limits = limits or StreamLimits()
        self._slots = SharedSlots(self._limits.streams, self._limits.of_person)

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._slots.taken

    async def serve_token(self, request: web.Request) -> web.StreamResponse:
        """Answer a call of the API with a stream. Raises what `serve` does."""
        return await self.serve(request, partial(identify, store=self._engine.store, clock=self._engine.clock))

    async def serve(self, request: web.Request, renew: Renew) -> web.StreamResponse:
        """Answer with a stream. Raises ApiError: 400, 404, 429 and 503; and GitHubError."""
        wanted, token = query(request, EventFilter), await renew(request)
        after = _last_event_id(request, wanted)
        with self._slot(request, token) as slot:
            repositories = await self._readable(token, wanted)
            watched = await self._watched(token, wanted)
            async with self._feed.open(after) as reader:
                response = StreamAnswer(
                    send_timeout=self._limits.send_seconds, ping_interval=self._limits.keep_alive_seconds
                )
                with self._watch.open(watched) as changes:
                    opaque_ids = {each.id: self._requests.ids.seal(each.id) for each in watched}
                    stream = _Stream(response, reader, changes, wanted, repositories, opaque_ids)
                    stream.token = token
                    await response.serve(request, partial(self._send, request, stream, renew, slot))
        return response

    async def _send(self, request: web.Request, stream: "_Stream", renew: Renew, slot: asyncio.Event) -> None:
        protocol = request.protocol
        lost = protocol.lost if isinstance(protocol, ClientConnection) else asyncio.Event()
        ends = (lost, self._engine.ending, slot)
        await stream.begin(self._limits.reconnect)
        while not self._engine.ending.is_set():
            await stream.run(self._engine.clock, CHECK_INTERVAL, ends)
            if any(each.is_set() for each in ends):
                return
            if (refusal := await self._refusal(request, stream, renew)) is not None:
                await stream.response.send(refusal, event="end")
                return
            await stream.send_mark()

    async def _refusal(self, request: web.Request, stream: "_Stream", renew: Renew) -> str | None:
        """Look at the reader's rights again; return why the stream has to end, or None."""
        try:
            token = await renew(request)
            await stream.readable(await self._readable(token, stream.wanted))
            known = await self._requests.find_all(token, list(stream.watched.values()))
            stream.watched = {each.id: stream.watched[each.id] for each in known}
        except Exception as error:
            if (known_ := known_error(request, error)) is None:
                raise
            return str(known_.body["error"])
        return None

    async def _readable(self, token: Token, wanted: EventFilter) -> Mapping[int, Repository]:
        """Return the repositories whose events the stream may have. Raises ApiError 404 for a hidden one."""
        if wanted.repository is not None:
            owner, _, name = wanted.repository.partition("/")
            found = await self._engine.store.read(lambda tx: tx.repositories.named(owner, name))
            if found is None or found.id not in await self._access.visible(token, [found], ()):
                # A repository of which nothing is known takes as long as a hidden one.
                if found is None:
                    found = await self._access.readable_by(token, owner, name)
                raise no_such_repository()
            return {found.id: found}
        async with self._engine.store.reading() as tx:
            every = {queue.repository.id: queue.repository for queue in await tx.queues.all()}
        visible = await self._access.visible(token, every.values(), ())
        return {number: repository for number, repository in every.items() if number in visible}

    async def _watched(self, token: Token, wanted: EventFilter) -> list[RequestStatus]:
        ids = list(dict.fromkeys((wanted.requests or "").split(","))) if wanted.requests else []
        if len(ids) > MAX_REQUESTS:
            raise ApiError(400, f"the query is not understood: requests: a stream watches at most {MAX_REQUESTS}")
        return [each for each in await self._requests.find_all(token, ids) if each.pending] if ids else []

    @contextmanager
    def _slot(self, request: web.Request, token: Token) -> Iterator[asyncio.Event]:
        """Count a stream. Raises ApiError 429 for too many of one reader, and 503 for too many of all."""
        client = self._addresses.share(request) if token is ANONYMOUS else ""
        reader = budget_key(token) if token is not ANONYMOUS else f"client {client}"
        with ExitStack() as stack:
            try:
                # Behind a proxy that names no client, persons who are not logged in have one address.
                slot = stack.enter_context(self._slots.take(reader, limited=client is not None))
            except SlotRefused as full:
                if full.own is None:
                    raise ApiError(503, _NO_STREAM, retry_after=_RETRY) from None
                sentence = f"you have {full.own} event streams open: close another page, or poll"
                raise ApiError(429, sentence, retry_after=_RETRY) from None
            yield slot


class _Stream:
    """One open stream: it sends what its reader may see."""

    def __init__(
        self,
        response: StreamAnswer,
        reader: FeedReader,
        changes: EventStream[RequestStatus],
        wanted: EventFilter,
        repositories: Mapping[int, Repository],
        watched: Mapping[str, str],
    ) -> None:
        """`watched` are the requests whose changes the reader gets, with their opaque ids."""
        self.response, self.wanted, self.repositories, self.watched = response, wanted, repositories, watched
        self._reader, self._changes = reader, changes
        self.token = ANONYMOUS
        """Who reads. For a reader who is not logged in, rights count at each event: a repository may become private."""
        self._announced_missed = 0
        self._held: FeedEvent | None = None
        """An event that waits until the rights were looked at."""
        self._hidden: set[int] = set()
        self._mark, self._sent_mark = reader.mark, -1

    async def begin(self, reconnect: timedelta) -> None:
        """Send what the reader missed since it last read, and the mark where it begins."""
        reader = self._reader
        await self.response.send("{}", event="begin", retry=int(reconnect.total_seconds() * 1000))
        if reader.missed:
            await self._send_missed()
        for each in reader.replayed:
            await self._send_event(each)
        await self.send_mark()

    async def send_mark(self) -> None:
        """Send the mark, so that a reader who continues is not sent what did not concern it."""
        if self._mark != self._sent_mark:
            self._sent_mark = self._mark
            await self.response.send("{}", event="mark", id=str(self._mark))

    async def readable(self, repositories: Mapping[int, Repository]) -> None:
        """Take the present rights, and send an event that waited for them."""
        self.repositories, held, self._held = repositories, self._held, None
        self._hidden = set() if held is None else self._hidden | {held.event.repository_id} - repositories.keys()
        if held is not None:
            await self._send_event(held)
            self._mark = held.mark

    async def run(self, clock: Clock, duration: timedelta, ends: Sequence[asyncio.Event]) -> None:
        """Send what happens, until `duration` has passed, one of `ends`, or the rights may not cover an event."""
        until = [asyncio.ensure_future(each) for each in (clock.sleep(duration), *(end.wait() for end in ends))]
        senders = [asyncio.ensure_future(each) for each in (self._send_events(), self._send_changes())]
        try:
            done, _ = await asyncio.wait([*until, *senders], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in (*until, *senders):
                each.cancel()
            await asyncio.gather(*until, *senders, return_exceptions=True)

    async def _send_events(self) -> None:
        stream = self._reader.stream
        async for each in stream:
            if stream.missed > self._announced_missed:
                self._announced_missed = stream.missed
                await self._send_missed()
            if self._is_unknown(each):
                self._held = each
                return
            await self._send_event(each)
            self._mark = each.mark

    def _is_unknown(self, each: FeedEvent) -> bool:
        number = each.event.repository_id
        if self.token is ANONYMOUS and number in self.repositories:
            return True
        return self.wanted.repository is None and number not in self.repositories and number not in self._hidden

    async def _send_event(self, each: FeedEvent) -> None:
        repository = self.repositories.get(each.event.repository_id)
        if repository is not None and self.wanted.includes(each.event):
            answer = EventAnswer.of(repository, each.event)
            await self.response.send(answer.model_dump_json(), id=str(each.mark))

    async def _send_changes(self) -> None:
        async for changed in self._changes:
            if (opaque_id := self.watched.get(changed.id)) is not None:
                answer = shown(changed, self.token, opaque_id)
                await self.response.send(json.dumps(json_data(answer)), event="request")

    async def _send_missed(self) -> None:
        await self.response.send("{}", event="missed")


def _last_event_id(request: web.Request, wanted: EventFilter) -> int | None:
    """Return where the reader continues. A browser sends the header; one that IMQ did not give counts as none."""
    given = request.headers.get("Last-Event-ID", "")
    # Python refuses to convert thousands of digits.
    if given.isascii() and given.isdigit() and len(given) <= _MAX_EVENT_DIGITS and int(given) < _MAX_EVENT_ID:
        return int(given)
    return wanted.after
