"""Tokens of the API. Only their hashes are stored, which grant nothing.

A secret has a prefix that secret scanners know, 256 random bits, and a checksum. Its form is that of GitHub's own
tokens (github.blog, "Behind GitHub's new authentication token formats"): Base62, and a CRC32 in the last six
characters, by which a scanner recognizes a token.
"""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Row, bindparam, delete, or_, select, update

from queue_engine.core.database.database import TableStore, Upsert, record_in, values_of
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.store.tables import api_tokens

PREFIX = "imq_"
"""The beginning of every token."""

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM = 43
"""62 ** 43 is more than 2 ** 256."""
_CHECKSUM = 6

_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECKSUM}}})")


def new_secret() -> str:
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


_NOTED = timedelta(minutes=1)
"""The precision of a token's last use: IMQ need not write at each call."""

_LOGIN = "login:"
"""How the names of tokens begin that a login made; no operator can choose such a name."""

_SERVICE = re.compile(r"(.+)\[token\]")
"""No login of GitHub has brackets but those of Apps, which end in `[bot]`."""


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """The permissions of a token, and its person; `access` limits any token."""

    login: str | None = None
    """The last known login of the GitHub user with whose permissions the token acts."""
    person_id: int | None = None
    """GitHub's id of that user, which outlives logins; None until IMQ has read it."""
    operator: bool = False
    """Whether the token may read everything, and control IMQ itself."""
    access: Permission = Permission.MAINTAIN
    """`read` for calls that change nothing, `write` to queue as well, `maintain` also to control queues."""
    installation_id: int | None = None
    repositories: tuple[int, ...] | None = None
    """Ids of the only repositories that the token reaches; None if it is not limited to some."""
    expires_at: datetime | None = None

    @property
    def scoped(self) -> bool:
        """Whether the token is limited to an installation or to repositories."""
        return self.installation_id is not None or self.repositories is not None

    @property
    def service(self) -> bool:
        """Whether the token belongs to a service, and to no person."""
        return self.scoped and self.login is None

    def described(self) -> dict[str, Any]:
        """Return the grant as data of an action."""
        return {
            "person": self.login,
            "person_id": self.person_id,
            "operator": self.operator,
            "access": self.access.value,
            "installation_id": self.installation_id,
            "repositories": _listed(self.repositories),
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }

    def covers(self, repository: Repository) -> bool:
        """Return whether the repository is in the scope. A token without a scope covers all."""
        in_installation = self.installation_id in {None, repository.installation_id}
        return in_installation and (self.repositories is None or repository.id in self.repositories)

    def expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the API, as its calls are authorized."""

    id: str
    name: str
    grant: TokenPolicy
    created_at: datetime
    last_used_at: datetime | None

    @property
    def login(self) -> str | None:
        """The name under which the token acts: a person's login, or a service's name in a form that no login has."""
        return service_login(self.name) if self.grant.service else self.grant.login

    @property
    def of_login(self) -> bool:
        """Whether a person made the token by logging in."""
        return self.name.startswith(_LOGIN)

    def noted(self, now: datetime) -> bool:
        """Return whether the stored last use is precise enough."""
        return self.last_used_at is not None and now - _NOTED < self.last_used_at <= now


def name_of_login(login: str, suffix: str) -> str:
    """Return the name of a token that a login makes."""
    return f"{_LOGIN}{login}:{suffix}"


def service_login(name: str) -> str:
    """Format the name under which the token of a service acts."""
    return f"{name}[token]"


def service_name(login: str) -> str | None:
    """Read the name of a service from such a login; None for a login of GitHub."""
    found = _SERVICE.fullmatch(login)
    return None if found is None else found[1]


_ALL = select(api_tokens).order_by(api_tokens.c.name)
_FIND = _ALL.where(api_tokens.c.token_hash == bindparam("its_hash"))
_NAMED = _ALL.where(api_tokens.c.name == bindparam("its_name"))
_BY_ID = _ALL.where(api_tokens.c.id == bindparam("its_id"))
_REVOKE = delete(api_tokens).where(api_tokens.c.name == bindparam("its_name"))
_OF_LOGIN = api_tokens.c.name.startswith(_LOGIN, autoescape=True)
_LOGINS = _ALL.where(_OF_LOGIN, api_tokens.c.person_id == bindparam("its_person"))
_REVOKE_EXPIRED_LOGINS = delete(api_tokens).where(_OF_LOGIN, api_tokens.c.expires_at <= bindparam("now"))
_CREATE = Upsert(
    api_tokens, lambda insert: insert.on_conflict_do_nothing(index_elements=["name"]).returning(api_tokens.c.id)
)
_BIND = update(api_tokens).where(api_tokens.c.id == bindparam("its_id"))
_used = api_tokens.c.last_used_at
_NOTE_USE = update(api_tokens).where(
    api_tokens.c.id == bindparam("its_id"),
    or_(_used.is_(None), _used <= bindparam("long_ago"), _used > bindparam("now")),
)


class Tokens(TableStore):
    async def create(self, name: str, grant: TokenPolicy, *, now: datetime) -> str | None:
        """Create a token and return its secret, which is never stored. None if the name is in use."""
        secret = new_secret()
        token = {
            **values_of(grant),
            "id": uuid4().hex,
            "name": name,
            "token_hash": hashed(secret),
            "access": grant.access.value,
            "repositories": _listed(grant.repositories),
            "created_at": now,
        }
        created = await self._connection.execute(_CREATE.on(self._connection), token)
        return None if created.scalar_one_or_none() is None else secret

    async def all(self) -> tuple[Token, ...]:
        """Return every token, by name, including expired ones."""
        return tuple(map(_token, await self._connection.execute(_ALL)))

    async def revoke(self, name: str) -> bool:
        """Delete a token: its next call is refused. False if there is none of this name."""
        return (await self._connection.execute(_REVOKE, {"its_name": name})).rowcount == 1

    async def of_logins(self, person_id: int) -> tuple[Token, ...]:
        """Return the tokens that a person made by logging in."""
        return tuple(map(_token, await self._connection.execute(_LOGINS, {"its_person": person_id})))

    async def revoke_expired_logins(self, now: datetime) -> None:
        """Delete the tokens of logins that have expired."""
        await self._connection.execute(_REVOKE_EXPIRED_LOGINS, {"now": now})

    async def find(self, secret: str, now: datetime) -> Token | None:
        """Return the valid token with this secret, by its hash: the duration reveals nothing. None if there is none."""
        if not well_formed(secret):
            return None
        return await self._one(_FIND, now, its_hash=hashed(secret))

    async def named(self, name: str, now: datetime) -> Token | None:
        """Return the token of this name; None if it was revoked, or has expired."""
        return await self._one(_NAMED, now, its_name=name)

    async def by_id(self, token_id: str, now: datetime) -> Token | None:
        """Return the token with this id; None if it was revoked, or has expired."""
        return await self._one(_BY_ID, now, its_id=token_id)

    async def bind(self, token: Token, *, login: str, person_id: int) -> None:
        await self._connection.execute(_BIND, {"its_id": token.id, "login": login, "person_id": person_id})

    async def note_use(self, token: Token, now: datetime) -> None:
        noted = {"its_id": token.id, "last_used_at": now, "now": now, "long_ago": now - _NOTED}
        await self._connection.execute(_NOTE_USE, noted)

    async def _one(self, statement: Any, now: datetime, **values: object) -> Token | None:
        row = (await self._connection.execute(statement, values)).one_or_none()
        token = None if row is None else _token(row)
        return None if token is None or token.grant.expired(now) else token


def _listed(repositories: Sequence[int] | None) -> list[int] | None:
    return None if repositories is None else sorted(repositories)


def _token(row: Row[Any]) -> Token:
    repositories = None if row.repositories is None else tuple(row.repositories)
    grant = record_in(TokenPolicy, row, access=Permission(row.access), repositories=repositories)
    return record_in(Token, row, grant=grant)


def hashed(secret: str) -> str:
    """Hash a secret. A fast digest suffices: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()
