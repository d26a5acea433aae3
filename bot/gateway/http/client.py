"""Send one request to GitHub and return its answer: the only module that imports gidgethub.

gidgethub's part without input and output is used: headers, URLs from templates, deciphered answers. Its clients are
not, because they have no time limits, follow redirects of writes as reads, send the token wherever a link points, and
share one mutable cached object.
"""

import asyncio
import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
from gidgethub import GitHubException, sansio
from pydantic import BaseModel, Field, SecretStr, ValidationError
from yarl import URL

from bot import __version__
from bot.gateway.http.refusals import disorder_of, refusal
from queue_engine.core.concurrency.request_context import NOTHING_WAITS, WaitCount
from queue_engine.core.read_model import ReadModel, adapter
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, GitHubError, GitHubOutage, NotFound, Refused, Unavailable
from queue_engine.domain.model import Repository

API_VERSION = "2022-11-28"
USER_AGENT = f"imq/{__version__}"

GRAPHQL = "/graphql"
"""The template of every query; `Call.link` has its URL."""

_CONNECT_SECONDS = 5.0
_DOWNLOAD_SECONDS = 30.0
_CHUNK = 64 * 1024
_REDIRECTS = frozenset({301, 302, 307, 308})
_MAX_REDIRECTS = 3


def owner_and_repo(repository: Repository) -> dict[str, str]:
    """Return the variables of every template below `/repos/{owner}/{repo}`."""
    return {"owner": repository.owner, "repo": repository.name}


@dataclass(frozen=True)
class Call:
    """A request: a method, a URL template as in GitHub's documentation, and its variables.

    Variables are escaped, also a slash, `#` or `%`; a sequence fills `{/name*}` part by part. `link` is a full URL from
    GitHub that replaces the template, as for paging. `limit` bounds the whole exchange. `merges_ahead` are the
    merges for which comments and check runs leave room.
    """

    method: str
    template: str
    variables: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: Any = None
    limit: timedelta = timedelta(seconds=20)
    link: str | None = None
    merges_ahead: WaitCount = NOTHING_WAITS
    repository_id: int | None = None
    """The repository that the request is counted for."""
    accept: str | None = None
    """The type of the answer, where it is not the one of the API."""
    wants_address: bool = False
    """Whether the answer is the address to which GitHub redirects: that of a download, which gets no token."""
    answered_with: frozenset[int] = frozenset()
    """Statuses from 300 on that come with an answer of the endpoint, which has `details`; otherwise it is a refusal."""

    @cached_property
    def reads(self) -> bool:
        """Whether it changes nothing, like IMQ's GraphQL queries, which are POST requests. A mutation is a write."""
        if self.template == GRAPHQL:
            return str((self.body or {}).get("query", "query")).lstrip().startswith("query")
        return self.method == "GET"

    @property
    def may_conflict(self) -> bool:
        """Whether GitHub documents 405 or 409 for it: merges, and workflow runs that have ended."""
        return not self.reads and any(part in self.template for part in ("/merge", "/cancel"))

    @cached_property
    def resource(self) -> str:
        """Return GitHub's name of the primary limit that it counts against."""
        return "graphql" if self.template == GRAPHQL else "core"

    @cached_property
    def name(self) -> str:
        """Return its name in metrics: the method and the template's path."""
        return f"{self.method} {self.template.partition('{?')[0].partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Credential:
    """A token, the App's JWT, or in `basic` its client id and secret with a colon between them."""

    token: SecretStr | None = None
    jwt: SecretStr | None = None
    basic: SecretStr | None = None
    permissions: Mapping[str, str] | None = None
    """Those of an installation's token, as GitHub issued it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response, with the links of its `Link` header by relation."""

    status: int
    headers: Mapping[str, str]
    links: Mapping[str, str]
    body: bytes


class Client:
    """Sends calls to one GitHub and deciphers its replies. It keeps no state between calls."""

    def __init__(self, session: aiohttp.ClientSession, *, api_url: str, clock: Clock) -> None:
        self._session = session
        self._api_url = api_url.rstrip("/")
        self._origin = URL(self._api_url).origin()
        self._clock = clock

    async def exchange(self, call: Call, credential: Credential, *, etag: str | None = None) -> Reply:
        """Send a call once. Raises GitHubOutage without a complete response within the limit.

        Only ETags make requests conditional: a pull request's `Last-Modified` stays when `mergeable` becomes known.
        """
        headers = sansio.create_headers(
            USER_AGENT,
            accept=call.accept or sansio.accept_format(),
            oauth_token=_secret_text(credential.token),
            jwt=_secret_text(credential.jwt),
        )
        headers["x-github-api-version"] = API_VERSION
        if credential.basic is not None:
            encoded = base64.b64encode(credential.basic.get_secret_value().encode()).decode()
            headers["authorization"] = f"Basic {encoded}"
        if etag is not None:
            headers["if-none-match"] = etag
        body = b""
        if call.body is not None:
            body = json.dumps(call.body).encode()
            headers["content-type"] = "application/json; charset=utf-8"
        url = call.link or sansio.format_url(call.template, dict(call.variables), base_url=self._api_url)
        try:
            return await self._follow(call, url, headers, body)
        except TimeoutError:
            raise GitHubOutage(f"GitHub did not answer {call.name} in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise GitHubOutage(f"{call.name} failed: {type(error).__name__}: {error}") from error

    def parse(self, reply: Reply, call: Call | None = None, permissions: Mapping[str, str] | None = None) -> Any:
        """Parse a JSON reply to a call signed with these permissions. Raises the error of any other reply."""
        if reply.status < 300:
            try:
                data, _, _ = sansio.decipher_response(reply.status, reply.headers, reply.body)
            except (GitHubException, ValueError, LookupError) as error:
                raise Unavailable("the answer is not GitHub's: it cannot be read", status=reply.status) from error
            if isinstance(data, str):
                raise Unavailable("the answer is not GitHub's: it is no JSON", status=reply.status)
            return data
        if call is not None and call.wants_address and reply.status in _REDIRECTS:
            return reply.headers.get("location")
        if call is not None and reply.status in call.answered_with and (answer := _answer_of(reply)) is not None:
            return answer
        conflicts, reads = (call.may_conflict, call.reads) if call is not None else (False, False)
        now = self._clock.now()
        raise refusal(
            reply.status, reply.headers, reply.body, now, conflicts=conflicts, reads=reads, granted=permissions
        )

    async def download(self, address: str, most: int) -> bytes | None:
        """Download what GitHub stores elsewhere, without any credential; None for more than so many bytes.

        GitHub signs such addresses, which its storage refuses with a further credential (octocrab #562, atmos #2683).
        Raises GitHubOutage without a complete response within the limit.
        """
        with _parsing_links():
            url = URL(address, encoded=True)
            allowed = url.absolute and url.scheme == self._origin.scheme and url.user is None and url.password is None
        if not allowed:
            raise Unavailable("GitHub redirected a download to no address of its own kind")
        timeout = aiohttp.ClientTimeout(total=_DOWNLOAD_SECONDS, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.get(
                url, headers={"user-agent": USER_AGENT}, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != HTTPStatus.OK or (response.content_length or 0) > most:
                    return None
                body = bytearray()
                async for part in response.content.iter_chunked(_CHUNK):
                    body += part
                    if len(body) > most:
                        return None
                return bytes(body)
        except TimeoutError:
            raise GitHubOutage("a download did not end in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise GitHubOutage(f"a download failed: {type(error).__name__}") from error

    async def _follow(self, call: Call, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send to `url`. Only reads follow redirects, such as those of a renamed repository."""
        target = self._check_target(URL(), url)
        async with asyncio.timeout(call.limit.total_seconds()):
            for _ in range(_MAX_REDIRECTS + 1):
                reply = await self._send(call.method, target, headers, body)
                location = reply.headers.get("location")
                if call.method != "GET" or call.wants_address or reply.status not in _REDIRECTS or not location:
                    return reply
                target = self._check_target(target, location)
        raise Unavailable(f"GitHub redirects {call.name} in circles", status=reply.status)

    async def _send(self, method: str, url: URL, headers: Mapping[str, str], body: bytes) -> Reply:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        middlewares = () if method == "GET" else (_no_retry,)
        async with self._session.request(
            method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False, middlewares=middlewares
        ) as response:
            links = _links(response) if method == "GET" else {}
            return Reply(response.status, response.headers, links, await response.read())

    def _check_target(self, place: URL, address: str) -> URL:
        """Refuse to send the token to another scheme, host or port; `place` is the URL that redirected."""
        with _parsing_links():
            url = place.join(URL(address)) if place.absolute else URL(address, encoded=True)
            elsewhere = not url.absolute or url.origin() != self._origin
            host = url.host
        if elsewhere or url.user is not None or url.password is not None:
            raise GitHubError(f"GitHub pointed to another host, {host}; the token stays here")
        return url


def _links(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Parse the links of a response to a read, by relation."""
    with _parsing_links():
        return {relation: str(link["url"]) for relation, link in response.links.items() if "url" in link}


@contextmanager
def _parsing_links() -> Iterator[None]:
    """Convert errors of URLs, which yarl raises as ValueError, to an error of the response."""
    try:
        yield
    except ValueError as error:
        raise Unavailable(f"the answer is not GitHub's: it points to what is no address ({error})") from error


async def _no_retry(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a merge whose answer was lost: GitHub would answer 405, as if it had refused."""
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise GitHubOutage(f"the connection broke: {type(error).__name__}: {error}") from error


def _answer_of(reply: Reply) -> Any:
    """Return the endpoint's own answer with a status that others have for a refusal; None if it is a refusal."""
    with suppress(ValueError):
        answer = json.loads(reply.body)
        if isinstance(answer, dict) and "details" in answer:
            return answer
    return None


def _secret_text(secret: SecretStr | None) -> str | None:
    """Return the text of a credential, for the request's header only."""
    return None if secret is None else secret.get_secret_value()


M = TypeVar("M", bound=BaseModel)


def parse_answer(model: type[M], data: Any) -> M:
    """Parse `data` as `model`. Raises Unavailable when it does not match GitHub's documentation."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Unavailable(_mismatch_message(model, error)) from error


def parse_list(model: type[M], data: Any, key: str | None = None) -> list[M]:
    """Parse `data`, or the list under `key` in it, as a list of `model`. Raises Unavailable like `parse_answer`."""
    items = data.get(key) if key is not None and isinstance(data, dict) else data
    try:
        parsed: list[M] = adapter(list[model]).validate_python(items)  # type: ignore[valid-type]
        return parsed
    except ValidationError as error:
        raise Unavailable(_mismatch_message(model, error)) from error


def _mismatch_message(model: type[BaseModel], error: ValidationError) -> str:
    # Only places and kinds: the values may hold secrets.
    places = ", ".join(".".join(map(str, problem["loc"])) or "answer" for problem in error.errors()[:5])
    return f"the answer is not GitHub's: {model.__name__} lacks or mistakes {places}"


_LIMITS = frozenset({"RATE_LIMIT", "RATE_LIMITED"})
"""Both were seen (githubkit #271)."""
_SCHEMA_ERRORS = frozenset({"undefinedField", "argumentNotAccepted", "undefinedType", "variableMismatch"})
_LIMIT_WORDS = "rate limit"


class Unsupported(Exception):
    """This GitHub has no GraphQL API, or its schema lacks a requested field."""


class ErrorAnswer(ReadModel):
    """An error in an answer. `path` names the field that is null because of it."""

    type: str = ""
    message: str = ""
    path: list[str | int] | None = None
    extensions: dict[str, Any] | None = None


class QueryAnswer(ReadModel):
    """The body of an answer."""

    data: dict[str, Any] | None = None
    errors: list[ErrorAnswer] = Field(default_factory=list)


def endpoint(api_url: str) -> str:
    """Return the GraphQL URL of a REST API: Enterprise Server has them at `/api/v3` and `/api/graphql`."""
    url = URL(api_url)
    path = url.path.rstrip("/")
    return str(url.with_path(path.removesuffix("/v3") + "/graphql"))


def query(api_url: str, text: str, variables: Mapping[str, Any]) -> Call:
    return Call("POST", GRAPHQL, body={"query": text, "variables": variables}, link=endpoint(api_url))


def limit_of(data: Any) -> str | None:
    """Return GitHub's message if an answer of status 200 says that a limit is reached; None otherwise."""
    errors = data.get("errors") if isinstance(data, dict) else None
    for error in errors if isinstance(errors, list) else ():
        message = str(error.get("message", "")) if isinstance(error, dict) else ""
        if isinstance(error, dict) and (error.get("type") in _LIMITS or _LIMIT_WORDS in message.lower()):
            return message or "API rate limit exceeded"
    return None


def check(answer: QueryAnswer, needed: Iterable[tuple[str, ...]]) -> None:
    """Raise the error of a `needed` field, or of the whole query; other fields may be null.

    Raises Unsupported where the schema lacks a requested field.
    """
    fields = set(needed)
    for error in answer.errors:
        if (error.extensions or {}).get("code") in _SCHEMA_ERRORS:
            raise Unsupported(error.message)
        if not error.path or answer.data is None or tuple(map(str, error.path)) in fields:
            raise _to_error(error)
    if answer.data is None:
        raise Unavailable("the answer is not GitHub's: it holds no data")


def _to_error(error: ErrorAnswer) -> GitHubError:
    """Convert an error; unknown types are transient: timeouts come as "Something went wrong"."""
    if (disorder := disorder_of(error.message)) is not None:
        return Refused(error.message, status=403, disorder=disorder)
    if error.type == "NOT_FOUND":
        return NotFound(error.message, status=404)
    if error.type in {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
        return Forbidden(error.message, status=403)
    return Unavailable(error.message or "GitHub's GraphQL API refuses without a message", status=200)
