"""Sign what browsers keep. Keys can be replaced: the first signs, and each of them verifies."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

_SIZE = hashlib.sha256().digest_size


class Signer:
    """Signs values for one browser. A value is bound to its name, so that none serves as another."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """`keys` are of 32 bytes, the present one first."""
        self._keys = tuple(keys)

    def sign(self, name: str, text: str) -> str:
        """Return the text with its signature, in characters that a cookie may have."""
        content = text.encode()
        return _encode(_mac(self._keys[0], name, content) + content)

    def verify(self, name: str, value: str) -> str | None:
        """Return the text; None if the value was not signed under this name."""
        try:
            signed = base64.b64decode(value.encode() + b"=" * (-len(value) % 4), altchars=b"-_", validate=True)
            text = signed[_SIZE:].decode()
        except (binascii.Error, ValueError):
            return None
        given = signed[:_SIZE]
        if _encode(signed) != value or not any(
            hmac.compare_digest(given, _mac(key, name, signed[_SIZE:])) for key in self._keys
        ):
            return None
        return text

    def sign_content(self, name: str, content: Any, now: datetime, life: timedelta) -> str:
        """Sign JSON content that is valid for `life`."""
        return self.sign(name, json.dumps([(now + life).timestamp(), content]))

    def verify_content(self, name: str, value: str, now: datetime) -> Any:
        """Return such content; None if it is not signed, or too old."""
        text = self.verify(name, value)
        if text is None:
            return None
        until, content = json.loads(text)
        return content if now.timestamp() < until else None

    def derive(self, name: str, text: str) -> str:
        """Return a secret that belongs to a text. It changes with the key."""
        return _encode(_mac(self._keys[0], name, text.encode()))


def _mac(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.new(key, name.encode() + b"\x00" + content, hashlib.sha256).digest()


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
