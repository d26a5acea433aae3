"""Conditional requests: the weak ETag of a body, and whether a client has that body already."""

import hashlib


def etag(body: bytes) -> str:
    """A weak validator of the body, as GitHub gives it."""
    return f'W/"{hashlib.sha256(body).hexdigest()}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether one of the client's validators names this body (weak comparison, RFC 9110 section 13.1.2)."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    return tag.removeprefix("W/") in [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
