"""Load the App's private key once per process, because the library's validation takes 40 ms."""

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key


@lru_cache(maxsize=2)
def read_key(pem: str) -> PrivateKeyTypes:
    """Load the key. Raises TypeError when it is encrypted, and errors of the library when it is invalid."""
    return load_pem_private_key(pem.encode(), password=None)
