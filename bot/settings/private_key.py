"""Read the App's private key in the forms in which operators and platforms give it."""

import base64
import binascii
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


@lru_cache(maxsize=2)
def read_key(pem: str) -> PrivateKeyTypes:
    """Load the key, once per process, because the library's validation takes 40 ms.

    Raises TypeError when it is encrypted, and errors of the library when it is invalid.
    """
    return load_pem_private_key(pem.encode(), password=None)


def derive_key(pem: str, purpose: bytes) -> bytes:
    """Derive a key for Fernet from the private key: another one for each purpose."""
    secret = read_key(pem).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return base64.urlsafe_b64encode(HKDF(SHA256(), length=32, salt=None, info=purpose).derive(secret))


def private_key(given: str) -> str:
    """Return the PEM in `given`: a PEM with real or escaped newlines, its base64, or a file's path.

    Raises ValueError, whose message never repeats the key.
    """
    text = given.strip().strip("\"'")
    if "-----BEGIN" not in text:
        text = _decoded(text) or _file_content(text)
    pem = text.replace("\\r", "").replace("\\n", "\n").replace("\r\n", "\n").strip() + "\n"
    try:
        key = read_key(pem)
    except TypeError:
        raise ValueError("is encrypted; give the key as GitHub's settings page lets you download it") from None
    except Exception:
        # The library's message may quote the key.
        raise ValueError("is no valid PEM; give the whole .pem file that GitHub lets you download") from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("is not an RSA key; generate one on the App's settings page")
    return pem


def _decoded(text: str) -> str | None:
    try:
        decoded = base64.b64decode("".join(text.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return decoded if "-----BEGIN" in decoded else None


def _file_content(text: str) -> str:
    try:
        content = Path(text).expanduser().read_text()
    except (OSError, ValueError, RuntimeError):
        # The value is not repeated: it may be a damaged key.
        raise ValueError("is neither a PEM, nor its base64, nor the path of a readable file") from None
    return content


def derive_secret(secret: str, purpose: str) -> bytes:
    """Return 32 bytes for one purpose."""
    return HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(secret.encode())
