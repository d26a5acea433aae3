"""Keep the registration in the database, so that any process can finish it, and each finds the credentials."""

import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Protocol

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr

from bot.registration.manifest import Credentials, deserialize, serialize
from bot.settings.private_key import derive_secret
from queue_engine.store import Store
from queue_engine.store.action_records import ActionKind, Via
from queue_engine.store.github_tokens import GitHubSecret

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
    def __init__(self) -> None:
        self._code = format_code(secrets.token_bytes(_CODE_BYTES))
        self._state: str | None = None

    async def code(self) -> str:
        return self._code

    async def use_code(self, given: str) -> bool:
        if not same_code(given, self._code):
            return False
        self._code = format_code(secrets.token_bytes(_CODE_BYTES))
        return True

    async def begin(self, state: str) -> None:
        """Expect the state."""
        self._state = digest(state)

    async def finish(self, state: str) -> bool:
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


_CREDENTIALS, _CODE = "imq app credentials", "imq setup code"


class WrongSecretKey(Exception):
    """The stored credentials were encrypted with another key. The message is a sentence for the operator."""

    def __init__(self) -> None:
        super().__init__(
            "IMQ_SECRET_KEY is not the key with which the App's credentials were stored: set IMQ_FORMER_SECRET_KEY to "
            "the former key, or register another App with `imq setup --database --force`."
        )


class StoredCredentials:
    """The App's credentials, encrypted in the database by the secret key, or still by the former one."""

    def __init__(self, store: Store, secret_key: SecretStr, former_key: SecretStr | None = None) -> None:
        self._store = store
        self._current = _cipher(secret_key)
        former = () if former_key is None else (_cipher(former_key),)
        self._cipher = MultiFernet([self._current, *former])

    async def load(self) -> Credentials | None:
        """Return the credentials; None without an App. Raises WrongSecretKey."""
        found = await self._store.read(lambda tx: tx.github_secrets.find())
        if found is None or found.sealed is None:
            return None
        try:
            return deserialize(self._cipher.decrypt(found.sealed))
        except InvalidToken:
            raise WrongSecretKey from None

    async def reencrypt(self) -> bool:
        """Encrypt credentials of the former key by the secret key; whether there were any. Raises WrongSecretKey."""
        found = await self._store.read(lambda tx: tx.github_secrets.find())
        if found is None or found.sealed is None or _decrypts(self._current, found.sealed):
            return False
        try:
            sealed = self._cipher.rotate(found.sealed).decode()
        except InvalidToken:
            raise WrongSecretKey from None
        async with self._store.transaction() as tx:
            return await tx.github_secrets.replace(found.sealed, sealed)

    async def save(
        self,
        credentials: Credentials,
        now: datetime,
        *,
        by: str | None = None,
        via: Via = "page",
        replace: bool = False,
    ) -> bool:
        """Store the credentials, and who registered the App; False if there are others, without `replace`."""
        sealed = self._cipher.encrypt(serialize(credentials)).decode()
        async with self._store.transaction() as tx:
            await tx.github_secrets.create(secrets.token_hex(32))
            if saved := await tx.github_secrets.save(sealed, replace=replace):
                app, data = str(credentials.app_id), {"address": credentials.html_url}
                await tx.actions.add(ActionKind.APP_REGISTERED, app, by=by, via=via, at=now, data=data)
            return saved


def _cipher(secret_key: SecretStr) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(derive_secret(secret_key.get_secret_value(), _CREDENTIALS)))


def _decrypts(cipher: Fernet, sealed: str) -> bool:
    try:
        cipher.decrypt(sealed)
    except InvalidToken:
        return False
    return True


class StoredSecrets:
    """One-time secrets that all processes share. The code follows from a stored nonce and IMQ_SECRET_KEY."""

    def __init__(self, store: Store, secret_key: SecretStr) -> None:
        self._store = store
        self._key = derive_secret(secret_key.get_secret_value(), _CODE)

    async def code(self) -> str:
        return self._code_of(await self._registration())

    async def use_code(self, given: str) -> bool:
        found = await self._registration()
        if not same_code(given, self._code_of(found)):
            return False
        return await self._store.write(lambda tx: tx.github_secrets.renew(found.nonce, secrets.token_hex(32)))

    async def begin(self, state: str) -> None:
        await self._registration()
        await self._store.write(lambda tx: tx.github_secrets.expect(digest(state)))

    async def finish(self, state: str) -> bool:
        return await self._store.write(lambda tx: tx.github_secrets.finish(digest(state)))

    async def _registration(self) -> GitHubSecret:
        async with self._store.transaction() as tx:
            await tx.github_secrets.create(secrets.token_hex(32))
            found = await tx.github_secrets.find()
        assert found is not None, "it was created"
        return found

    def _code_of(self, found: GitHubSecret) -> str:
        return format_code(hmac.new(self._key, found.nonce.encode(), hashlib.sha256).digest())
