"""The secret of an API token: a prefix that secret scanners know, 256 random bits, and a checksum.

The form is that of GitHub's own tokens (github.blog, "Behind GitHub's new authentication token formats"): Base62, and a
CRC32 in the last six characters, by which a scanner recognizes a token. Pure but for `create`.
"""

import re
import secrets
import string
import zlib

PREFIX = "imq_"
"""The beginning of every token."""

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM = 43
"""62 ** 43 is more than 2 ** 256."""
_CHECKSUM = 6

_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECKSUM}}})")


def create() -> str:
    """Generate a random secret."""
    text = "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM))
    return f"{PREFIX}{text}{_checksum(text)}"


def well_formed(secret: str) -> bool:
    """Return whether IMQ may have made this secret: a mistyped one is refused without a query."""
    parts = _FORM.fullmatch(secret)
    return parts is not None and _checksum(parts[1]) == parts[2]


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    found = ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_DIGITS))
        found = _DIGITS[digit] + found
    return found
