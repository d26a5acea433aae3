"""Send one request to GitHub and return its answer: the only module that imports gidgethub.

gidgethub's part without input and output is used: headers, URLs from templates, deciphered answers. Its clients are
not, because they have no time limits, follow redirects of writes as reads, send the token wherever a link points, and
hand out one mutable cached object to everybody.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
from gidgethub import GitHubException, sansio
from pydantic import SecretStr
from yarl import URL

from bot import __version__
from bot.gateway.http.errors import refusal
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError, LinkError, Unavailable
from queue_engine.domain.model import Repository

API_VERSION = "2022-11-28"
USER_AGENT = f"imq/{__version__}"

GRAPHQL = "/graphql"
"""The template of every query; `Call.link` says where it is."""

_CONNECT_SECONDS = 5.0
_REDIRECTS = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS = 3


def owner_and_repo(repository: Repository) -> dict[str, str]:
    """The variables of every template below `/repos/{owner}/{repo}`."""
    return {"owner": repository.owner, "repo": repository.name}


@dataclass(frozen=True, slots=True)
class Call:
    """A request to be made: a method, a URL template as GitHub's documentation spells it, and what fills it.

    What fills it is escaped, so that a slash, `#` or `%` in a name stays one of that name; a sequence fills `{/name*}`,
    part by part. `link` is a whole URL from GitHub that replaces the template, as paging does. `limit` bounds the whole
    exchange. `merges_waiting` tells what is written for people how many merges wait, for which it leaves
    room.
    """

    method: str
    template: str
    variables: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: Any = None
    limit: timedelta = timedelta(seconds=20)
    link: str | None = None
    merges_waiting: int = 0

    @property
    def reads(self) -> bool:
        """Whether it changes nothing: all of IMQ's GraphQL queries, though each is a POST."""
        return self.method == "GET" or self.template == GRAPHQL

    @property
    def resource(self) -> str:
        """The primary limit that it costs of, by GitHub's name."""
        return "graphql" if self.template == GRAPHQL else "core"

    @property
    def name(self) -> str:
        """What metrics call it: the method and the template's path."""
        return f"{self.method} {self.template.partition('{?')[0].partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request is signed with: an installation's token, or the App's JWT."""

    token: SecretStr | None = None
    jwt: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer as it came, with the links of its `Link` header by relation."""

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
        """Send a call, once. Raises Unavailable when no whole answer came within the limit.

        Only ETags make requests conditional: a pull request's `Last-Modified` stays when `mergeable` becomes known.
        """
        headers = sansio.create_headers(
            USER_AGENT, accept=sansio.accept_format(), oauth_token=_shown(credential.token), jwt=_shown(credential.jwt)
        )
        headers["x-github-api-version"] = API_VERSION
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
            raise Unavailable(f"GitHub did not answer {call.name} in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{call.name} failed: {type(error).__name__}: {error}") from error

    def understand(self, reply: Reply) -> Any:
        """The JSON of a good reply, fresh on every call. Raises the error that any other reply means."""
        if reply.status < 300:
            try:
                data, _, _ = sansio.decipher_response(reply.status, reply.headers, reply.body)
            except (GitHubException, ValueError, LookupError) as error:
                raise Unavailable("the answer is not GitHub's: it cannot be read", status=reply.status) from error
            if isinstance(data, str):
                raise Unavailable("the answer is not GitHub's: it is no JSON", status=reply.status)
            return data
        raise refusal(reply.status, reply.headers, reply.body, self._clock.now())

    async def _follow(self, call: Call, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send to `url`. A read follows a renamed repository; a write never goes where it was not sent to."""
        target = self._checked(URL(), url)
        async with asyncio.timeout(call.limit.total_seconds()):
            for _ in range(_MOST_REDIRECTS + 1):
                reply = await self._send(call.method, target, headers, body)
                location = reply.headers.get("location")
                if call.method != "GET" or reply.status not in _REDIRECTS or not location:
                    return reply
                target = self._checked(target, location)
        raise Unavailable(f"GitHub redirects {call.name} in circles", status=reply.status)

    async def _send(self, method: str, url: URL, headers: Mapping[str, str], body: bytes) -> Reply:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        middlewares = () if method == "GET" else (_once,)
        async with self._session.request(
            method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False, middlewares=middlewares
        ) as response:
            links = _links(response) if method == "GET" else {}
            return Reply(response.status, response.headers, links, await response.read())

    def _checked(self, place: URL, address: str) -> URL:
        """Refuse to take the token anywhere but to the configured scheme, host and port; `place` is where one was."""
        with _reading_links():
            url = place.join(URL(address)) if place.absolute else URL(address, encoded=True)
            elsewhere = not url.absolute or url.origin() != self._origin
            host = url.host
        if elsewhere or url.user is not None or url.password is not None:
            raise GitHubError(f"GitHub pointed to another host, {host}; the token stays here")
        return url


def _links(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The links of the answer's header by relation; no answer to a write is read for them."""
    with _reading_links():
        return {relation: str(link["url"]) for relation, link in response.links.items() if "url" in link}


@contextmanager
def _reading_links() -> Iterator[None]:
    """What cannot be parsed (yarl raises ValueError, at once or when a part is read) is an error of the answer."""
    try:
        yield
    except ValueError as error:
        raise LinkError(f"the answer is not GitHub's: it points to what is no address ({error})") from error


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a PUT or DELETE by itself when a reused connection breaks.

    A merge whose answer was lost would be answered 405 the second time, as if it had been refused.
    """
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Unavailable(f"the connection broke: {type(error).__name__}: {error}") from error


def _shown(secret: SecretStr | None) -> str | None:
    """What is sent: the one place where a credential is text."""
    return None if secret is None else secret.get_secret_value()
