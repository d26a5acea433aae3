"""Sign webhooks as Standard Webhooks does, so that receivers verify them with a library they have.

Signed is `{id}.{timestamp}.{body}` by HMAC-SHA256, in base64 after `v1,`. While a secret is replaced there are several
signatures, separated by spaces. Sources: the specification (github.com/standard-webhooks/standard-webhooks), its
library for Python (`standardwebhooks` 1.1.0), and Symfony's StandardWebhooksSignature.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

PREFIX = "whsec_"
"""Begins a secret; its key follows in base64."""

_SHORTEST, _LONGEST = 24, 64
"""Bytes of a key, by the specification."""


def key_of(secret: str) -> bytes:
    """Return the key of a secret. Raises ValueError, whose message does not repeat the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except ValueError:
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ValueError(
            f"must be {PREFIX} and the base64 of {_SHORTEST} to {_LONGEST} random bytes: draw one with "
            f'`echo "{PREFIX}$(openssl rand -base64 32)"`'
        )
    return key


def headers(message_id: str, at: datetime, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return the three headers of a webhook that is sent at this instant."""
    timestamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    signatures = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
