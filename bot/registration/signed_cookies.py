"""Bind a step of the registration to one browser by a signed cookie."""

from datetime import datetime, timedelta
from typing import Any

import jwt
from aiohttp import web

LIFE = timedelta(hours=1)
"""As long as GitHub's code lives."""
_ALGORITHM = "HS256"


class SignedCookies:
    """Sets and reads cookies that scripts cannot read, and that other sites' forms do not send."""

    def __init__(self, key: bytes, *, secure: bool) -> None:
        """`secure` cookies go over https only."""
        self._key = key
        self._secure = secure

    def set(self, response: web.StreamResponse, name: str, content: dict[str, Any], now: datetime) -> None:
        """Have the browser keep `content` for an hour."""
        claims = {**content, "name": name, "until": (now + LIFE).timestamp()}
        response.set_cookie(
            name,
            jwt.encode(claims, self._key, _ALGORITHM),
            max_age=int(LIFE.total_seconds()),
            path="/setup",
            httponly=True,
            samesite="Lax",
            secure=self._secure,
        )

    def get(self, request: web.Request, name: str, now: datetime) -> dict[str, Any] | None:
        """Return what this browser was given under the name; None if it is missing, too old or not IMQ's."""
        try:
            claims: dict[str, Any] = jwt.decode(request.cookies.get(name, ""), self._key, [_ALGORITHM])
        except jwt.InvalidTokenError:
            return None
        return claims if claims.get("name") == name and claims.get("until", 0) > now.timestamp() else None
