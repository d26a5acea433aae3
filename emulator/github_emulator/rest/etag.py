"""Conditional requests: the weak ETag of a body, and whether a client has that body already."""

import hashlib


def etag(body: bytes, token: str) -> str:
    """A weak validator of the body for one token: another token's never matches (otterdog #201, github/docs #34689)."""
    return f'W/"{hashlib.sha256(token.encode() + b":" + body).hexdigest()}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether one of the client's validators names this body (weak comparison, RFC 9110 section 13.1.2)."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    return tag.removeprefix("W/") in [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
