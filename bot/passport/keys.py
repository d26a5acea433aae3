"""The keys that sign passports: drawn once, stored encrypted, replaced on demand, and public for good.

And the passports of stored landings, as IMQ serves them.

The database has one key that signs. Its private part is encrypted with a key that follows from IMQ_SECRET_KEY, or from
the App's private key where that is not set. A process that cannot decrypt it draws another one: a landing is never held
up by its passport. Former keys keep their public part, with which what they signed stays verifiable.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import SecretStr

from bot.passport.statement import PAYLOAD_TYPE, Record, checks_of, envelopes, payload, statements
from bot.settings.private_key import derive_key, derive_secret
from queue_engine.domain.landing_record import LandingKey, LandingRecord
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction
from queue_engine.store.action_records import ActionKind, Via

if TYPE_CHECKING:
    # The library takes a megabyte, which a process pays with its first landing.
    from securesystemslib.signer import CryptoSigner

_PURPOSE = "imq passport key"
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError)
"""How a record whose row was changed fails to be read."""


class PassportKeys:
    """The keys of one installation of IMQ, as its database has them."""

    def __init__(self, private_key: SecretStr, *secret_keys: SecretStr | None) -> None:
        """`secret_keys` are IMQ_SECRET_KEY and the former one, as far as they are set; the first one encrypts."""
        derived = [_of_secret(each) for each in secret_keys if each is not None]
        derived.append(Fernet(derive_key(private_key.get_secret_value(), _PURPOSE.encode())))
        self._cipher = MultiFernet(derived)
        self._known: tuple[str, CryptoSigner] | None = None

    async def sign(
        self, tx: Transaction, record: Record, now: datetime, is_read: bool = True
    ) -> tuple[str, tuple[str, ...]]:
        """Sign the statements about a landing; returns the key's id and a signature for each, base64.

        Without `is_read` by the key that this process used last, if there is one: another process may have rotated it.
        """
        key_id, signer = self._known if self._known is not None and not is_read else await self._signer(tx, now)
        return key_id, tuple(_signature(signer, payload(each)) for each in statements(record))

    async def ensure(self, tx: Transaction, now: datetime) -> None:
        """Draw a key, unless one is there that this process can use."""
        await self._signer(tx, now)

    async def rotate(self, tx: Transaction, now: datetime, *, by: str | None) -> str:
        """Draw another key, by order of this account. The former one stops signing, and its private part is deleted.

        Returns the new id.
        """
        key_id, _ = await self._draw(tx, now, by=by, via="command_line")
        return key_id

    async def _signer(self, tx: Transaction, now: datetime) -> tuple[str, "CryptoSigner"]:
        current = await tx.landing_keys.current()
        if current is None or current.sealed is None:
            return await self._draw(tx, now)
        if self._known is None or self._known[0] != current.id:
            try:
                read = load_pem_private_key(self._cipher.decrypt(current.sealed), password=None)
            except InvalidToken:
                return await self._draw(tx, now)
            from securesystemslib.signer import CryptoSigner

            self._known = current.id, CryptoSigner(read)
        return self._known

    async def _draw(
        self, tx: Transaction, now: datetime, *, by: str | None = None, via: Via = "imq"
    ) -> tuple[str, "CryptoSigner"]:
        from securesystemslib.signer import CryptoSigner

        signer = CryptoSigner.generate_ed25519()
        key_id = str(signer.public_key.keyid)
        sealed = self._cipher.encrypt(signer.private_bytes).decode()
        await tx.landing_keys.add(LandingKey(key_id, signer.public_key.keyval["public"], sealed, now, None))
        await tx.actions.add(ActionKind.SIGNING_KEY_CREATED, key_id, by=by, via=via, at=now)
        self._known = key_id, signer
        return key_id, signer


KEYS_PATH = "/.well-known/imq-keys.json"
"""Where everyone finds the public keys, without a token."""


class PublishedKeys:
    def __init__(self, engine: Engine, own: PassportKeys) -> None:
        self._engine, self._own = engine, own

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer 200 with every key, those that sign no more too; before the first landing it draws the first one."""
        keys = await self._engine.store.read(lambda tx: tx.landing_keys.all())
        if not keys:
            async with self._engine.change() as change:
                await self._own.ensure(change.tx, change.now)
                keys = await change.tx.landing_keys.all()
        return web.json_response({"keys": public_keys(keys)}, headers={"Cache-Control": "public, max-age=300"})


def passport_of(found: LandingRecord) -> list[dict[str, Any]]:
    """Return the passport of a stored landing; empty if it is not signed, or its row is damaged."""
    if found.key_id is None:
        return []
    try:
        return envelopes(found.record, found.key_id, found.signatures)
    except _DAMAGED:
        return []


def checks_in(found: LandingRecord) -> list[dict[str, Any]]:
    """Return the checks of a stored landing one by one; empty if its row is damaged."""
    try:
        return list(checks_of(found.record))
    except _DAMAGED:
        return []


def line_of(found: LandingRecord) -> dict[str, Any]:
    """Return a stored landing as a line of `imq landings export`: where it belongs, and its passport."""
    return {
        "commit": found.sha,
        "tree": found.tree,
        "repository_id": found.repository_id,
        "base_branch": found.base_branch,
        "number": found.number,
        "result": found.result.value,
        "envelopes": passport_of(found),
    }


def public_keys(keys: Sequence[LandingKey]) -> Mapping[str, Any]:
    """Return the keys as `/.well-known/imq-keys.json` has them, by their ids."""
    return {
        each.id: {
            "keytype": "ed25519",
            "scheme": "ed25519",
            "keyval": {"public": each.public},
            "since": each.since.isoformat(),
            "until": None if each.until is None else each.until.isoformat(),
        }
        for each in keys
    }


def _of_secret(secret_key: SecretStr) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(derive_secret(secret_key.get_secret_value(), _PURPOSE)))


def _signature(signer: "CryptoSigner", content: bytes) -> str:
    # The library's envelope signs its own encoding of type and content, the PAE of DSSE.
    from securesystemslib.dsse import Envelope

    signed = Envelope(content, PAYLOAD_TYPE, {}).sign(signer)
    return base64.b64encode(bytes.fromhex(signed.signature)).decode()
