"""RSA keys of apps, made when first needed: most apps in a test never sign anything."""

from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


class KeyPair:
    """A fresh 2048-bit RSA key."""

    @cached_property
    def private(self) -> str:
        """PEM, PKCS #1 as GitHub hands it out."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()

    @cached_property
    def public(self) -> RSAPublicKey:
        """The key itself, which each check of a signature would read from a PEM again."""
        return self._key.public_key()

    @cached_property
    def _key(self) -> RSAPrivateKey:
        return generate_private_key(public_exponent=65537, key_size=2048)
