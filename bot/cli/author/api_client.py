"""Call IMQ's API by the standard library, which starts in a tenth of the time of other clients."""

import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPErrorProcessor, Request, build_opener
from uuid import uuid4

from bot import __version__
from bot.settings.setting_values import is_private

SECONDS = 30.0
"""How long a call may take. One that waits for a change may take as much longer as the server lets it wait."""

WAIT_SECONDS = 90.0
_MAX_BODY = 16 * 1024 * 1024
_CONFLICT, _UNAVAILABLE = 409, 503
_LAGGING, _LONGEST_LAG = 10.0, 5.0
"""For so many seconds a call is sent again that IMQ cannot answer yet, and the longest pause it may ask for."""
_HELD = 60.0
"""The same for a call whose key a process of IMQ holds, which may have died: twice the usual `IMQ_LEASE_SECONDS`."""
_UNANSWERED = 2.0
"""The same for a call that changes something, without an answer."""
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 1.6


class ConnectionFailed(Exception):
    """IMQ did not answer. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Return the sentence of a refusal."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error or f"the server answered {self.status}")

    @property
    def pause(self) -> float | None:
        """Return after how many seconds to ask again, if IMQ cannot answer yet and says so."""
        return self.retry_after if self.status in {_CONFLICT, _UNAVAILABLE} else None

    @property
    def retry_after(self) -> float | None:
        """Return the seconds of the header `Retry-After`."""
        seconds = self.headers.get("retry-after", "")
        return float(seconds) if seconds.isdecimal() else None


@dataclass(slots=True)
class Retries:
    """The pauses after which a command asks again, each longer than the one before. `now` and `sleep` are the clock."""

    now: Callable[[], float] = lambda: time.monotonic()
    sleep: Callable[[float], None] = lambda seconds: time.sleep(seconds)
    _pause: float = _FIRST_PAUSE
    _since: float | None = None
    _slept: float = 0.0

    def rest(self, seconds: float | None = None) -> None:
        """Pause, by default for longer than the last time."""
        if seconds is None:
            seconds, self._pause = self._pause, min(self._pause * _GROWTH, _LONGEST_PAUSE)
        self.sleep(seconds)
        self._slept += seconds

    def outlasts(self, lasting: float, seconds: float | None = None) -> bool:
        """Pause; False in place of that once the command has had no answer for so many seconds."""
        self._since = self.now() if self._since is None else self._since
        if max(self.now() - self._since, self._slept) >= lasting:
            return False
        self.rest(seconds)
        return True

    def answered(self) -> None:
        """Note an answer: the time without one counts from the next failure."""
        self._since, self._slept = None, 0.0

    def shorten(self) -> None:
        """Make the next pause as short as the first."""
        self._pause = _FIRST_PAUSE


class _AsTheyCome(HTTPErrorProcessor):
    """Let each answer through, refusals too; follow no redirect, which could take the token to another host."""

    def http_response(self, request: Request, response: Any) -> Any:
        return response

    https_response = http_response


class ApiClient:
    """One server, and the token for it."""

    last_answered: ClassVar[str | None] = None
    """The address of the server that answered last."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._token = token
        self._opener = build_opener(_AsTheyCome)

    def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, seconds: float = SECONDS
    ) -> ApiAnswer:
        """Send a call; `key` is its Idempotency-Key. Raises ConnectionFailed without an answer of the API."""
        headers = {"Accept": "application/json", "User-Agent": f"imq-cli/{__version__}"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if method != "GET":
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key or str(uuid4())}
        data = None if body is None else json.dumps(body).encode()
        # The address was checked when it was chosen: http or https alone.
        request = Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                return self._parsed(answer.status, answer.read(_MAX_BODY), answer.headers)
        except (URLError, HTTPException, OSError) as error:
            raise ConnectionFailed(f"{self.url} does not answer: {_reason(error)}.") from None

    def insist(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, seconds: float = SECONDS
    ) -> ApiAnswer:
        """Send a call, again with its key while IMQ carries it out, or GitHub's reads lag. Raises ConnectionFailed.

        A call that changes something is sent again also if no answer came.
        """
        key, retries = key or str(uuid4()), Retries()
        while True:
            try:
                answer = self.call(method, path, body, key=key, seconds=seconds)
            except ConnectionFailed:
                if method == "GET" or not retries.outlasts(_UNANSWERED):
                    raise
                continue
            pause = answer.pause
            lasting = _HELD if answer.status == _CONFLICT else _LAGGING
            if pause is None or pause > _LONGEST_LAG or not retries.outlasts(lasting, max(pause, _FIRST_PAUSE)):
                return answer

    def _parsed(self, status: int, content: bytes, headers: Any) -> ApiAnswer:
        ApiClient.last_answered = self.url
        if status in (301, 302, 303, 307, 308):
            to = headers.get("Location", "another address")
            raise ConnectionFailed(f"{self.url} redirects to {to}. Log in there: `imq login URL`.")
        if not content:
            return ApiAnswer(status, None, dict(headers))
        try:
            return ApiAnswer(status, json.loads(content), {name.lower(): value for name, value in headers.items()})
        except (ValueError, RecursionError):
            raise ConnectionFailed(
                f"{self.url} answered {status}, but not as IMQ does. Check the address, and a proxy between."
            ) from None


def server_url(given: str) -> str:
    """Return the address of a server without a trailing slash. Raises ValueError, whose message has the way out."""
    text = given.strip() if "://" in given else f"https://{given.strip()}"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or more:
        raise ValueError(f"{given} is no address of a server; give one such as https://imq.example.com")
    if parts.scheme == "http" and not is_private(host):
        raise ValueError(f"{given} is plain http, over which others read the token; write https://")
    return text.rstrip("/")


def _reason(error: Exception) -> str:
    """Return why a connection failed, in a few words."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "it took too long"
    if isinstance(cause, socket.gaierror):
        return "its name is unknown"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return str(cause) or type(cause).__name__
