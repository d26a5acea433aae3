"""Derive keys from IMQ_SECRET_KEY, so that no secret of IMQ serves two purposes. Pure."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def derive_key(secret: str, purpose: str) -> bytes:
    """Return 32 bytes for one purpose."""
    return HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(secret.encode())
