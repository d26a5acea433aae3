"""Opaque ids of requests: only an id that IMQ gave to somebody leads to a request.

IMQ's own ids follow from a repository and a number, so anyone could try them and measure the answers. People and
programs get them encrypted with a key made of the App's private key: each process of an IMQ gives the same ids.
"""

import base64
import binascii

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from pydantic import SecretStr

from bot.settings.private_key import derive_key

PATTERN = r"[A-Za-z0-9_-]{30,160}"

_PURPOSE = b"imq ids of requests"
_LONGEST = 160


class RequestIds:
    """Makes and reads opaque ids. An id always has the same opaque one (AES-SIV, RFC 5297), so that pages know it."""

    def __init__(self, private_key: SecretStr) -> None:
        """`private_key` is the App's, as PEM."""
        self._cipher = AESSIV(base64.urlsafe_b64decode(derive_key(private_key.get_secret_value(), _PURPOSE)))

    def seal(self, request_id: str) -> str:
        """Return the opaque id of a request."""
        return base64.urlsafe_b64encode(self._cipher.encrypt(request_id.encode(), None)).decode().rstrip("=")

    def open(self, sealed: str) -> str | None:
        """Return the id of a request; None for an opaque id that this IMQ did not make."""
        if len(sealed) > _LONGEST:
            return None
        try:
            content = base64.b64decode(sealed.encode() + b"=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
            return self._cipher.decrypt(content, None).decode()
        except (InvalidTag, binascii.Error, ValueError):
            return None
