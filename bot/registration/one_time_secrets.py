"""Keep what may be used once: the code that opens the pages, and the state of a registration."""

import base64
import hashlib
import hmac
import secrets
from typing import Protocol

_CODE_BYTES = 10
"""80 bits, which cannot be guessed."""


class OneTimeSecrets(Protocol):
    """The code that opens the pages, and the state of the newest registration."""

    async def code(self) -> str:
        """Return the code that opens the pages now."""
        ...

    async def use_code(self, given: str) -> bool:
        """Whether this is the code; if so, another one takes its place."""
        ...

    async def begin(self, state: str) -> None:
        """Expect GitHub to come back with this state."""
        ...

    async def finish(self, state: str) -> bool:
        """Whether this state was expected; it is not any more."""
        ...


class MemorySecrets:
    """Secrets in the memory of one process."""

    def __init__(self) -> None:
        self._code = format_code(secrets.token_bytes(_CODE_BYTES))
        self._state: str | None = None

    async def code(self) -> str:
        """Return the code."""
        return self._code

    async def use_code(self, given: str) -> bool:
        """Use the code."""
        if not same_code(given, self._code):
            return False
        self._code = format_code(secrets.token_bytes(_CODE_BYTES))
        return True

    async def begin(self, state: str) -> None:
        """Expect the state."""
        self._state = digest(state)

    async def finish(self, state: str) -> bool:
        """Use the state."""
        expected, self._state = self._state, None
        if expected is not None and hmac.compare_digest(expected, digest(state)):
            return True
        self._state = expected
        return False


def format_code(content: bytes) -> str:
    """Return a code that people can type: groups of four characters."""
    text = base64.b32encode(content[:_CODE_BYTES]).decode()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def same_code(given: str, code: str) -> bool:
    """Compare codes in constant time, without regard to case and separators."""
    typed = "".join(each for each in given.upper() if each.isalnum())
    return hmac.compare_digest(typed.encode(), code.replace("-", "").encode())


def digest(state: str) -> str:
    """Return what is kept of a state: who reads it cannot use it."""
    return hashlib.sha256(state.encode()).hexdigest()
