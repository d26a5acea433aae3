"""Send requests for an installation: signed, counted, conditional, limited, parsed into models.

Every request to GitHub passes here, so that here alone writes to repositories in shadow mode are refused: no other
module has to know the mode. Calls of the App itself, such as requests for tokens, concern no repository. Reads pass.
"""

import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp
import structlog
from cachetools import LRUCache
from pydantic import SecretStr

from bot.gateway.http.client import (
    Call,
    Client,
    Credential,
    M,
    QueryAnswer,
    Reply,
    Unsupported,
    limit_of,
    owner_and_repo,
    parse_answer,
    parse_list,
    query,
)
from bot.gateway.http.installation_tokens import (
    AppKey,
    Grants,
    StoredTokens,
    Token,
    Tokens,
    exceeds_grant,
    is_inaccessible,
    token_request,
)
from bot.gateway.http.limits import Limits
from bot.gateway.http.pacing import SharedPace
from bot.gateway.http.scopes import Purpose, Scope, Target, requested_permissions, scope_of
from bot.gateway.schemas import InstallationAnswer, TokenAnswer
from queue_engine.core.concurrency.request_context import current_work
from queue_engine.core.concurrency.slots import Slots, SlotsBusy, SlotsStatus
from queue_engine.core.observability import trace
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import (
    Busy,
    Disorder,
    Forbidden,
    GitHubError,
    GitHubOutage,
    Invalid,
    NotFound,
    RateLimitError,
    ReadLagError,
    Refused,
    Unauthorized,
    Unavailable,
    WriteRefused,
)
from queue_engine.domain.model import Repository
from queue_engine.known.own_writes import expects_lag, remembered

_MOST_BYTES = 4 * 1024 * 1024
"""Of one installation; a pull request's answer has about 20 kB, and a tenth of that when compressed."""

_MOST_BYTES_OF_ALL = 16 * 1024 * 1024
"""Of all installations together, so that memory is flat however many there are."""

_OF_EACH = 1_000
"""What a reply takes beside its body, in bytes."""

_READ_AGAIN = ("content-type", "etag")

Variables = Mapping[str, str] | None
"""What a template is filled with."""


class Replies:
    """The latest replies with an ETag, by key, within a bound of memory."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: LRUCache[str, Reply] = LRUCache(most_bytes, getsizeof=lambda kept: len(kept.body) + _OF_EACH)

    @property
    def size(self) -> int:
        """How many bytes the kept replies take."""
        return int(self._kept.currsize)

    def get(self, key: str) -> Reply | None:
        """Return the kept reply as it came."""
        kept = self._kept.get(key)
        return None if kept is None else replace(kept, body=zlib.decompress(kept.body))

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply, unless it has no ETag, or would take much of the room of all others."""
        if "etag" in reply.headers:
            headers = {name: reply.headers[name] for name in _READ_AGAIN if name in reply.headers}
            kept = replace(reply, headers=headers, body=zlib.compress(reply.body, 1))
            if len(kept.body) < self._kept.maxsize // 4:
                self._kept[key] = kept

    def drop(self, key: str) -> None:
        """Forget a reply."""
        self._kept.pop(key, None)

    def drop_oldest(self) -> None:
        """Forget the reply that was not used for the longest time."""
        self._kept.popitem()


class CachedReplies:
    """The replies of all installations, each within its own bound of memory: none drops those of another."""

    def __init__(self, most_bytes: int = _MOST_BYTES_OF_ALL) -> None:
        self._most_bytes = most_bytes
        self._replies: OrderedDict[int, Replies] = OrderedDict()
        """By installation, the latest used last."""

    def of(self, installation_id: int) -> Replies:
        """Return the replies of an installation, which are then the latest used. Older ones make room first."""
        replies = self._replies.setdefault(installation_id, Replies())
        self._replies.move_to_end(installation_id)
        self._trim()
        return replies

    def _trim(self) -> None:
        """Forget replies until all are within the bound: those of installations not used for the longest time first."""
        size = sum(replies.size for replies in self._replies.values())
        while size > self._most_bytes:
            installation_id, oldest = next(iter(self._replies.items()))
            if not oldest.size:
                del self._replies[installation_id]
                continue
            before = oldest.size
            oldest.drop_oldest()
            size += oldest.size - before


MayWrite = Callable[[Repository], Awaitable[bool]]
"""Whether IMQ may write in a repository. Raises GitHubError if it cannot know: then IMQ sends nothing."""


async def assert_may_write(target: Target, call: Call, may_write: MayWrite | None) -> None:
    """Let reads pass, and writes to repositories in which IMQ may write. Raises WriteRefused, and GitHubError.

    A write names its repository: one that names only an installation is refused. `may_write` None: no repository is in
    shadow mode, as for tools that only read.
    """
    if call.reads or target is None or may_write is None:
        return
    if not isinstance(target, Repository) or not await may_write(target):
        raise WriteRefused(call.name)


_LOG_EVERY = timedelta(minutes=1)


class OutageLog:
    """Counts the requests without an answer since the last answer, and logs one line a minute, however many fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: datetime | None = None
        self._requests = 0
        self._logged_at: datetime | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record whether GitHub answers the request that is sent within the block."""
        try:
            yield
        except GitHubOutage as error:
            self._failed(error)
            raise
        self._answered()

    def _failed(self, error: GitHubOutage) -> None:
        now = self._clock.now()
        self._since = self._since or now
        self._requests += 1
        if self._logged_at is None or not timedelta(0) <= now - self._logged_at < _LOG_EVERY:
            self._logged_at = now
            log.warning("github_unreachable", error=error.message, requests=self._requests, since=str(self._since))

    def _answered(self) -> None:
        if self._since is None:
            return
        if self._logged_at is not None and self._logged_at >= self._since:
            log.info("github_reachable", requests_failed=self._requests, since=str(self._since))
        self._since, self._requests = None, 0


log = structlog.get_logger(__name__)

_MAX_PAGES = 100

_REPOSITORY = "/repositories/{repository_id}"
"""A read that works wherever IMQ may read anything of a repository."""
_DISPATCHES = "/dispatches"
_READABLE = ("/comments/{comment_id}", "/check-runs/{check_run_id}")
"""Objects that IMQ changes and deletes, and may read by the same address."""
_MAY_BE_GONE = ("/issues/", "/artifacts/")
"""Reads that GitHub answers with 410: of issues and their comments, and of artifacts (greenbone/actions #1794,
dawidd6/action-download-artifact #283). A pull request stays."""
_NOT_EVERYWHERE = ("/merge-async",)
"""Endpoints that not every GitHub has."""

_MAX_CONCURRENT = 8
"""Concurrent calls of one installation. GitHub allows a hundred, and advises serial requests."""
_MAX_CONCURRENT_TOTAL = 80
"""Concurrent calls of one installation by all processes together."""
_MAX_WAITING = 200
_RETRY_AFTER_FULL = timedelta(seconds=30)
"""When a caller should retry after all slots and the queue for them were full."""
_RETRY_MARGIN = timedelta(seconds=1)
"""How long a retry may take from its due time to its call, while its slot is kept."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an answer: its JSON, and the URLs of other pages by relation (next, prev, last)."""

    data: Any
    links: Mapping[str, str]


class Connection:
    """The App's connection to GitHub. An installation id of None means the App itself, with its JWT."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        api_url: str,
        app_id: str,
        private_key: SecretStr,
        clock: Clock,
        meter: Meter | None = None,
        shared: SharedPace | None = None,
        stored_tokens: StoredTokens | None = None,
    ) -> None:
        self.api_url, self.app_id, self.clock = api_url, int(app_id), clock
        self._meter = meter or NullMeter()
        self.may_write: MayWrite | None = None
        self.request_counts: Counter[int] = Counter()
        """Requests sent since the last report, by the number of the repository."""
        self.limits = Limits(clock, self._meter, shared)
        self._slots: defaultdict[int | None, Slots] = defaultdict(self._new_slots)
        self.client = Client(session, api_url=api_url, clock=clock)
        self._outage, self._grants = OutageLog(clock), Grants()
        self._key = AppKey(app_id, private_key, clock)
        self._tokens = Tokens(self._fetch_token, clock, stored=stored_tokens, fits=self._grants.fits)
        # Raw replies, so that every reader gets its own object; never shared between installations.
        self._replies = CachedReplies()

    def slots_status(self) -> SlotsStatus:
        """Return how busy the slots of all installations are, without the App's own; they accept while any does."""
        lines = {key: slots.status() for key, slots in self._slots.items()} or {None: self._new_slots().status()}
        installations = [status for key, status in lines.items() if key is not None]
        return SlotsStatus(
            rt_queue=sum(status.rt_queue for status in lines.values()),
            be_queue=sum(status.be_queue for status in lines.values()),
            total_slots=sum(status.total_slots for status in lines.values()),
            available_slots=sum(status.available_slots for status in lines.values()),
            accepting=any(status.accepting for status in installations or lines.values()),
            max_queue_depth=sum(status.max_queue_depth for status in lines.values()),
        )

    def forget_token(self, installation_id: int) -> None:
        """Drop the installation's cached tokens and permissions."""
        self._grants.forget(installation_id)
        self._tokens.renew(installation_id)

    async def prepare_writes(self, repository: Repository) -> None:
        """Fetch a token for writes early: GitHub's replicas accept a new one only after seconds. Ignores refusals."""
        with suppress(GitHubError):
            await self._tokens.prepare(Scope(repository.installation_id, repository.id, Purpose.WRITE))

    def grant(self, installation_id: int, permissions: Mapping[str, str]) -> None:
        """Remember an installation's permissions; if they changed, its tokens are replaced."""
        if self._grants.note(installation_id, permissions):
            self._tokens.renew(installation_id)

    def missing(self, installation_id: int) -> Mapping[str, str]:
        """Return the optional permissions that an installation is known to lack, each with its consequence."""
        return self._grants.missing(installation_id)

    async def call(self, target: Target, call: Call, *, fresh: bool = False) -> Page:
        """Make a call, and repeat it with a new token if GitHub refuses the old one. `fresh` skips the cache.

        A repository as the target gives the template its `{owner}` and `{repo}`.
        """
        await assert_may_write(target, call, self.may_write)
        if isinstance(target, Repository):
            call = replace(call, variables={**owner_and_repo(target), **call.variables})
        if target is None:
            try:
                return await self._attempt(None, call, Credential(jwt=self._key.jwt()), None)
            except Forbidden as refusal:
                # The App itself needs no permission that could be missing.
                raise Refused(refusal.message, status=refusal.status) from refusal
        scope, cache = scope_of(target, call), None
        call = replace(call, repository_id=scope.repository_id)
        if call.method == "GET" and not fresh:
            cache = self._replies.of(scope.installation_id)
        token = await self._tokens.get(scope)
        try:
            return await self._signed(scope, call, token, cache)
        except Unauthorized:
            await self._tokens.forget(scope, token.value)
            return await self._signed(scope, call, await self._tokens.get(scope), cache)
        except Refused as refused:
            if token.incomplete and refused.status == HTTPStatus.FORBIDDEN:
                await self._tokens.forget(scope, token.value)
            raise
        except NotFound as missing:
            await self._assert_missing(scope, call, missing)
            raise

    async def _assert_missing(self, scope: Scope, call: Call, missing: NotFound) -> None:
        """Raise Refused unless something else shows that an object is missing: a proxy may answer 404 to anything.

        Who believes it may conclude that a branch has no rules, or that a person deleted IMQ's comment. GitHub may name
        what is missing; else a read of the object written, or of its repository, has to tell.
        """
        gone = missing.status == HTTPStatus.GONE
        if gone and call.reads and not any(each in call.template for each in _MAY_BE_GONE):
            raise Refused(missing.message, status=missing.status) from missing
        named = missing.message.strip().lower() != "not found" or call.template.endswith(_NOT_EVERYWHERE)
        named = named and (call.reads or not gone)
        if named or scope.repository_id is None or call.template == _REPOSITORY:
            return
        if call.reads and await expects_lag():
            # It is asked again, whatever a 404 means: nothing is concluded from it.
            return
        if call.reads:
            witness, there = Call("GET", _REPOSITORY, {"repository_id": str(scope.repository_id)}), True
        elif call.template.endswith(_READABLE):
            witness, there = Call("GET", call.template, call.variables), False
        elif call.template.endswith(_DISPATCHES):
            witness, there = Call("GET", call.template.removesuffix(_DISPATCHES), call.variables), False
        else:
            raise Refused(missing.message, status=missing.status) from missing
        try:
            await self.call(scope, witness, fresh=True)
        except NotFound:
            if not there:
                return
        except (Unauthorized, Unavailable):
            pass
        else:
            if there:
                return
        raise Refused(missing.message, status=missing.status) from missing

    async def _signed(self, scope: Scope, call: Call, token: Token, cache: Replies | None) -> Page:
        """Make a call once. Raises ReadLagError if GitHub's replicas do not know a new token yet, and Unavailable if
        GitHub has accepted no token for long.
        """
        try:
            credential = Credential(token=token.value, permissions={**token.issued, **token.permissions})
            page = await self._attempt(scope.installation_id, call, credential, cache)
        except Unauthorized as refused:
            if not self._tokens.is_new(scope, token.value):
                raise
            message = f"a token that was just issued is not accepted yet: {refused.message}"
            if (wait := self._tokens.refused(scope)) is None:
                raise Unavailable(message, status=refused.status) from refused
            raise ReadLagError(message, retry_after=wait, status=refused.status) from refused
        self._tokens.accepted(scope)
        return page

    async def get(
        self, target: Target, model: type[M], template: str, variables: Variables = None, *, fresh: bool = False
    ) -> M:
        """Read one object."""
        page = await self.call(target, Call("GET", template, variables or {}), fresh=fresh)
        return parse_answer(model, page.data)

    async def listed(
        self,
        target: Target,
        model: type[M],
        template: str,
        variables: Variables = None,
        *,
        key: str | None = None,
        fresh: bool = False,
    ) -> list[M]:
        """Read the first page of a list; `key` names the list where GitHub wraps it in an object."""
        page = await self.call(target, Call("GET", template, variables or {}), fresh=fresh)
        return parse_list(model, page.data, key)

    async def items(
        self, target: Target, model: type[M], template: str, variables: Variables = None, *, key: str | None = None
    ) -> list[M]:
        """Read a list, all pages of it; `key` as above."""
        call = Call("GET", template, variables or {})
        found: list[M] = []
        async for page in self.pages(target, call, "next"):
            found += parse_list(model, page.data, key)
        return found

    async def pages(self, target: Target, call: Call, relation: str) -> AsyncIterator[Page]:
        """Iterate over pages, following `next` or `prev`. Raises Unavailable when they do not end."""
        for _ in range(_MAX_PAGES):
            page = await self.call(target, call)
            yield page
            if relation not in page.links:
                return
            call = replace(call, link=page.links[relation])
        raise Unavailable(f"{call.name} has more than {_MAX_PAGES} pages")

    async def ask(self, target: Target, text: str, variables: Mapping[str, Any]) -> QueryAnswer:
        """Send a query or a mutation of GraphQL. Raises Unsupported where GitHub has none."""
        try:
            return parse_answer(QueryAnswer, (await self.call(target, query(self.api_url, text, variables))).data)
        except NotFound as missing:
            raise Unsupported(missing.message) from missing

    async def _attempt(
        self, installation_id: int | None, call: Call, credential: Credential, cache: Replies | None
    ) -> Page:
        """Make a call once, in a slot of its installation; a retry soon after a failure keeps the slot."""
        context, arrived = current_work(), self.clock.now()
        call = replace(call, merges_ahead=context.yields_to)
        try:
            async with self._slots[installation_id].hold(context.priority, context.holder) as slot:
                self._meter.observe("slot_wait", self._seconds_since(arrived), priority=context.priority.value)
                try:
                    await self.limits.reserve(installation_id, call, context.priority)
                    self._slots[installation_id].resize(
                        min(_MAX_CONCURRENT, _MAX_CONCURRENT_TOTAL // self.limits.processes)
                    )
                    with self.limits.sending(installation_id, call, context.priority):
                        return await self._exchange(installation_id, call, credential, cache)
                except Unavailable:
                    if context.again is not None:
                        slot.keep(self.clock.now() + context.again + _RETRY_MARGIN)
                    raise
        except SlotsBusy:
            self._meter.count("github_limited", kind="slots")
            raise Busy("too many calls to GitHub are waiting for a slot", retry_after=_RETRY_AFTER_FULL) from None

    async def _exchange(
        self, installation_id: int | None, call: Call, credential: Credential, cache: Replies | None
    ) -> Page:
        key = call.link or f"{call.template} {sorted(call.variables.items())}"
        cached = cache.get(key) if cache is not None else None
        reply = await self._send(installation_id, call, credential, cached)
        if cached is not None and reply.status == HTTPStatus.NOT_MODIFIED:
            reply = cached
        try:
            page = Page(self.client.parse(reply, call, credential.permissions), reply.links)
            if call.resource == "graphql" and (message := limit_of(page.data)) is not None:
                raise RateLimitError(message, retry_after=timedelta(0), status=reply.status)
        except RateLimitError as limited:
            wait = self.limits.refused(installation_id, call, reply.headers)
            await self.limits.share_pause(installation_id)
            raise RateLimitError(limited.message, retry_after=wait, status=limited.status) from None
        self.limits.answered(installation_id)
        if cache is not None:
            remembered(partial(cache.drop, key))
        if cache is not None and reply is not cached and reply.status == HTTPStatus.OK:
            # After parsing: a truncated body would otherwise come back with every 304.
            cache.put(key, reply)
        return page

    async def _send(
        self, installation_id: int | None, call: Call, credential: Credential, cached: Reply | None
    ) -> Reply:
        """Send a call, and record the limits in its response's headers."""
        began, status = self.clock.now(), "none"
        if call.repository_id is not None:
            self.request_counts[call.repository_id] += 1
        try:
            with trace.span(call.name), self._outage.watched():
                reply = await self.client.exchange(call, credential, etag=cached.headers["etag"] if cached else None)
                log.debug("github", call=call.name, status=reply.status, installation=installation_id)
            status = str(reply.status)
            self._meter.count("github_unauthorized", reply.status == HTTPStatus.UNAUTHORIZED)
        finally:
            self._meter.count("github_requests", call=call.name, status=status)
            self._meter.observe("github_duration", self._seconds_since(began), call=call.name)
        self.limits.note(installation_id, call, reply.headers)
        return reply

    def _seconds_since(self, instant: datetime) -> float:
        """Return the seconds since an instant; never negative, also after the clock was set back."""
        return max(0.0, (self.clock.now() - instant).total_seconds())

    def _new_slots(self) -> Slots:
        return Slots(_MAX_CONCURRENT, max_depth=_MAX_WAITING, clock=self.clock)

    async def _fetch_token(self, scope: Scope) -> Token:
        granted = self._grants.of(scope.installation_id)
        try:
            return await self._request_token(scope, granted)
        except Invalid as refusal:
            if not exceeds_grant(refusal):
                raise
            # The installation's permissions are unknown or have changed.
            where = {"installation_id": str(scope.installation_id)}
            found = await self.get(None, InstallationAnswer, "/app/installations/{installation_id}", where)
            self.grant(scope.installation_id, found.permissions)
            return await self._request_token(scope, found.permissions)

    async def _request_token(self, scope: Scope, granted: Mapping[str, str] | None) -> Token:
        try:
            answer = parse_answer(TokenAnswer, (await self.call(None, token_request(scope, granted))).data)
        except Invalid as refusal:
            if is_inaccessible(refusal):
                raise _gone(scope, refusal) from refusal
            raise
        except NotFound as missing:
            raise _gone(scope, missing) from missing
        asked = requested_permissions(scope, granted)
        now = self.clock.now()
        return Token(answer.token, answer.expires_at, issued_at=now, permissions=asked, issued=answer.permissions)


def _gone(scope: Scope, refusal: GitHubError) -> GitHubError:
    """Return the error for an installation that is uninstalled, or a repository that it does not reach any more.

    What belongs to no repository of ours may be missing: an organisation's shared configuration.
    """
    if scope.repository_id is None:
        # As GitHub answers to a call with a token that does not reach the repository.
        return NotFound(refusal.message, status=refusal.status)
    return Refused(refusal.message, status=refusal.status, disorder=Disorder.GONE)
