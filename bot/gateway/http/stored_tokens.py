"""Share installation tokens through the database, so that a starting process reuses them.

Each token is a request, and GitHub's replicas learn of a new one within seconds only; processes that are started again
and again would use up the App's own points, and wait for each new token. That such requests count is the careful
reading (codecov/shared #328 met 403, Pix4D/cogito #162 denies it).

A token is encrypted with a key derived from the App's private key: the database alone is useless to an attacker, and
the private key can create any token anyway.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.fernet import Fernet, InvalidToken
from pydantic import SecretStr

from bot.gateway.http.scopes import Scope
from bot.gateway.http.tokens import Token
from bot.settings.private_key import derive_key
from queue_engine.store import Store
from queue_engine.store.github_tokens import TokenKey

_KEY_INFO = b"imq installation tokens"
"""The purpose of the key, which keeps it different from other keys derived from the same private key."""


@dataclass(frozen=True, slots=True)
class _StoredToken:
    sealed: str
    token: Token


class StoredTokens:
    """Saves and loads the newest token of each scope."""

    def __init__(self, store: Store, private_key: SecretStr) -> None:
        """`private_key` is the App's, as PEM."""
        self._store = store
        self._cipher = Fernet(derive_key(private_key.get_secret_value(), _KEY_INFO))

    async def load(self, scope: Scope) -> Token | None:
        """Load the newest token of this scope. Raises errors of the database."""
        found = await self._find(scope)
        return None if found is None else found.token

    async def save(self, scope: Scope, token: Token) -> None:
        """Store a token that GitHub just issued."""
        sealed = self._cipher.encrypt(_serialize(scope, token)).decode()
        async with self._store.transaction() as tx:
            await tx.installation_tokens.put(_row(scope), sealed, token.issued_at)

    async def forget(self, scope: Scope, value: SecretStr) -> None:
        """Delete this token, which GitHub no longer accepts; a newer one stays."""
        found = await self._find(scope)
        if found is not None and found.token.value == value:
            async with self._store.transaction() as tx:
                await tx.installation_tokens.forget(_row(scope), found.sealed)

    async def _find(self, scope: Scope) -> _StoredToken | None:
        async with self._store.reading() as tx:
            sealed = await tx.installation_tokens.find(_row(scope))
        if sealed is None:
            return None
        try:
            token = _deserialize(scope, self._cipher.decrypt(sealed))
        except InvalidToken:
            return None  # Encrypted with another private key: the operator replaced the App's.
        return None if token is None else _StoredToken(sealed, token)


def _row(scope: Scope) -> TokenKey:
    return TokenKey(scope.installation_id, scope.repository_id, scope.purpose.value)


def _serialize(scope: Scope, token: Token) -> bytes:
    return json.dumps(
        {
            "scope": [scope.installation_id, scope.repository_id, scope.purpose],
            "value": token.value.get_secret_value(),
            "issued_at": token.issued_at.isoformat(),
            "expires_at": token.expires_at.isoformat(),
            "permissions": dict(token.permissions),
            "issued": dict(token.issued),
        }
    ).encode()


def _deserialize(scope: Scope, written: bytes) -> Token | None:
    """Parse what `_serialize` wrote; return None if it was written for another scope."""
    read = json.loads(written)
    if read["scope"] != [scope.installation_id, scope.repository_id, scope.purpose]:
        return None
    return Token(
        SecretStr(read["value"]),
        expires_at=datetime.fromisoformat(read["expires_at"]).astimezone(UTC),
        issued_at=datetime.fromisoformat(read["issued_at"]).astimezone(UTC),
        permissions=read["permissions"],
        issued=read.get("issued", {}),
    )
