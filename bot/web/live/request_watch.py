"""Watch pending requests for the event streams of this process, whichever process works on them.

One monitor of the shared core polls the database for each watched request: after a second, then ever less often. An
event of the request's pull request has it polled at once.

IMQ's own ids follow from a repository and a number, so anyone could try them and measure the answers. People and
programs get them encrypted with a key made of the App's private key: each process of an IMQ gives the same ids.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from pydantic import SecretStr

from bot.api.api_errors import ApiError
from bot.api.permissions import Access
from bot.logs.configure import mask
from bot.settings.private_key import derive_key
from notifications.event_bus import EventBus, EventStream
from queue_engine.core.concurrency.monitor import Monitor
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import TimelineEvent
from queue_engine.effects.context import Engine
from queue_engine.queries.request_status import RequestState, RequestStatus, load_request
from queue_engine.store import Store
from queue_engine.store.tokens import Token

MAX_WATCHED = 1000
"""Requests that one process watches; the scripts of further pages poll by themselves."""

TOPIC = "requests"
"""The topic that wakes the loop of the watch."""


class RequestWatch:
    """Polls the pending requests that somebody watches, and passes on each change."""

    def __init__(
        self, store: Store, clock: Clock, random: Callable[[], float], *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed` is called when a poll may be due sooner."""
        self._store, self._clock = store, clock
        self._bus = EventBus[RequestStatus]()
        self._known: dict[str, RequestStatus] = {}
        self._watched: Counter[str] = Counter()
        self._monitor = Monitor[str](self._poll, pending=self._is_pending, clock=clock, random=random, changed=changed)

    @property
    def watched(self) -> int:
        """How many requests are watched."""
        return len(self._watched)

    @contextmanager
    def open(self, requests: Sequence[RequestStatus]) -> Iterator[EventStream[RequestStatus]]:
        """Watch requests until the end of the context; the stream has each change of any watched request."""
        stream = self._bus.stream(buffer=max(1, 2 * len(requests)))
        chosen = []
        for each in requests:
            if self.watched >= MAX_WATCHED and each.id not in self._watched:
                continue
            chosen.append(each)
            self._watched[each.id] += 1
            self._known.setdefault(each.id, each)
            self._monitor.start(each.id)
        try:
            yield stream
        finally:
            stream.close()
            for each in chosen:
                self._release(each.id)

    def happened(self, event: TimelineEvent) -> None:
        """Poll the watched requests of an event's pull request now."""
        for request_id, known in list(self._known.items()):
            its_own = known.repository is not None and known.repository.id == event.repository_id
            if its_own and known.number == event.number:
                self._monitor.reset(request_id)

    async def run_due(self) -> bool:
        """Do the polls that are due; whether there were any."""
        return await self._monitor.run_due()

    async def next_due(self) -> datetime | None:
        """Return when the next poll is due; None if nothing is watched."""
        return await self._monitor.next_due()

    async def close(self) -> None:
        """End the polls under way."""
        await self._monitor.cancel()

    def _release(self, request_id: str) -> None:
        self._watched[request_id] -= 1
        if self._watched[request_id] <= 0:
            del self._watched[request_id]
            self._known.pop(request_id, None)
            self._monitor.stop(request_id)

    def _is_pending(self, request_id: str) -> bool | None:
        known = self._known.get(request_id)
        return None if known is None else known.pending

    async def _poll(self, request_id: str) -> None:
        found = await self._store.read(lambda tx: load_request(tx, request_id, self._clock.now()))
        known = self._known.get(request_id)
        if known is None:
            return
        # A request that asked IMQ for nothing is forgotten, and nothing more will happen.
        found = found or replace(known, state=RequestState.DONE)
        if found != known:
            self._known[request_id] = found
            self._bus.publish(found)


PATTERN = r"[A-Za-z0-9_-]{30,160}"

_PURPOSE = b"imq ids of requests"
_LONGEST = 160


class RequestIds:
    """Makes and reads opaque ids. An id always has the same opaque one (AES-SIV, RFC 5297), so that pages know it."""

    def __init__(self, private_key: SecretStr) -> None:
        """`private_key` is the App's, as PEM."""
        self._cipher = AESSIV(base64.urlsafe_b64decode(derive_key(private_key.get_secret_value(), _PURPOSE)))

    def seal(self, request_id: str) -> str:
        """Return the opaque id of a request."""
        return base64.urlsafe_b64encode(self._cipher.encrypt(request_id.encode(), None)).decode().rstrip("=")

    def open(self, sealed: str) -> str | None:
        """Return the id of a request; None for an opaque id that this IMQ did not make."""
        if len(sealed) > _LONGEST:
            return None
        try:
            content = base64.b64decode(sealed.encode() + b"=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
            return self._cipher.decrypt(content, None).decode()
        except (InvalidTag, binascii.Error, ValueError):
            return None


def shown(request: RequestStatus, token: Token, opaque_id: str) -> RequestStatus:
    """Return a request as a caller may see it, by its opaque id."""
    return replace(request, id=opaque_id, error=shown_error(request, token))


def shown_error(request: RequestStatus, token: Token) -> str | None:
    """Return the error of a request for a caller, without secrets; it may quote GitHub, so strangers do not read it."""
    if request.error is None:
        return None
    known = token.login is not None or token.grant.operator
    return mask(request.error) if known else "Log in to read the error."


class RequestAccess:
    """Decides which requests a caller may see: those of repositories that they may read, and operators all."""

    def __init__(self, engine: Engine, access: Access, ids: RequestIds) -> None:
        self.engine, self._access, self.ids = engine, access, ids

    async def visible(self, token: Token) -> frozenset[int] | None:
        """Return the ids of repositories whose requests the caller may see; None for all, and those of none."""
        if token.grant.operator:
            return None
        having = await self.engine.store.read(lambda tx: tx.requests.repositories())
        return await self._access.visible(token, having, ())

    async def find(self, token: Token, sealed: str) -> RequestStatus:
        """Return the request of an opaque id. Raises ApiError 404 alike for a hidden and an unknown one."""
        found = await self.find_all(token, [sealed])
        if not found:
            raise ApiError(404, "IMQ has no such request, or you may not see it")
        return found[0]

    async def find_all(self, token: Token, sealed: Sequence[str]) -> Sequence[RequestStatus]:
        """Return the requests of those opaque ids that are known and that the caller may see."""
        ids = [each for each in map(self.ids.open, sealed) if each is not None]
        async with self.engine.store.reading() as tx:
            loaded = [await load_request(tx, each, self.engine.clock.now()) for each in ids]
        return await self._shows(token, [each for each in loaded if each is not None])

    async def _shows(self, token: Token, requests: Sequence[RequestStatus]) -> Sequence[RequestStatus]:
        if token.grant.operator:
            return requests
        repositories = {each.repository.id: each.repository for each in requests if each.repository is not None}
        visible = await self._access.visible(token, repositories.values(), ())
        return [each for each in requests if each.repository is not None and each.repository.id in visible]
