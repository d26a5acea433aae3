"""A message for the next page that a browser opens, such as the result of a form."""

from datetime import timedelta

from aiohttp import web

from bot.web.login.cookies import Cookies
from bot.web.login.signing import Signer
from queue_engine.core.timing.clock import Clock

_COOKIE = "imq_message"
_LIFE = timedelta(minutes=5)
_LONGEST = 500


class Flash:
    """Keeps one message in a signed cookie until it was shown."""

    def __init__(self, clock: Clock, signer: Signer, cookies: Cookies) -> None:
        self._clock = clock
        self._signer = signer
        self._cookies = cookies

    def put(self, request: web.Request, message: str) -> None:
        """Have the next page show a message."""
        value = self._signer.sign_content(_COOKIE, message[:_LONGEST], self._clock.now(), _LIFE)
        self._cookies.set(request, _COOKIE, value, _LIFE)

    def take(self, request: web.Request) -> str:
        """Return the message and forget it; empty if there is none."""
        given = self._cookies.get(request, _COOKIE)
        if not given:
            return ""
        self._cookies.delete(request, _COOKIE)
        return str(self._signer.verify_content(_COOKIE, given, self._clock.now()) or "")
