"""Tables for the operation of IMQ: tokens, processes, pace, throttles, known facts, sweeps."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    String,
    Table,
    Text,
    text,
)

from queue_engine.core.database.database import Counter, DatabaseInstant, metadata
from queue_engine.core.database.instants import InstantKind, instant

throttles = Table(
    "throttles",
    metadata,
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("login", String(255), primary_key=True),
    Column("times", Integer, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""People who asked for something without permission, by folded login: how often in a row, and when last."""


pace_reservations = Table(
    "pace_reservations",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("installation_id", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("amount", Integer, nullable=False),
    Column("owner", String(255), nullable=False),
    Index("ix_pace_reservations_installation_id_at", "installation_id", "at"),
)


pace_pauses = Table(
    "pace_pauses",
    metadata,
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("until", DatabaseInstant, nullable=False, info=instant(InstantKind.WAIT)),
)


sweeps = Table(
    "sweeps",
    metadata,
    Column("part", String(64), primary_key=True),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""The instant up to which each part of the reconciler has found everything."""


api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("login", String(255)),
    Column("person_id", BigInteger),
    Column("operator", Boolean, nullable=False),
    Column("access", String(16), nullable=False, server_default=text("'maintain'")),
    Column("installation_id", BigInteger),
    Column("repositories", JSON(none_as_null=True)),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("last_used_at", DatabaseInstant, info=instant(InstantKind.PAST)),
    Column("expires_at", DatabaseInstant),
)
"""Tokens of the API: person, scope, most permission and expiry; see `queue_engine.store.tokens.TokenPolicy`."""


installation_tokens = Table(
    "installation_tokens",
    metadata,
    Column("installation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("repository_id", BigInteger, primary_key=True, autoincrement=False),
    Column("purpose", String(16), primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""GitHub's newest token for each scope, encrypted by the gateway; repository 0 stands for all of an installation's."""


configuration_files = Table(
    "configuration_files",
    metadata,
    Column("file", String(400), primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("text", Text),
    Column("unreadable", Text),
    Column("reviewed", Boolean, nullable=False),
    Column("at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""Configuration files as some process read them last, under that generation of their repository's settings."""


known_facts = Table(
    "known_facts",
    metadata,
    Column("id", Counter, primary_key=True, autoincrement=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("subject", String(300), nullable=False),
    Column("statement", JSON, nullable=False),
    Column("at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Index(None, "repository_id", "subject", "id"),
)
"""Recent facts from webhooks and answers to writes, with which reads are compared."""


processes = Table(
    "processes",
    metadata,
    Column("owner", String(255), primary_key=True),
    Column("seen_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("status", JSON, nullable=False),
    Column("metrics", Text, nullable=False),
)
"""The last report of each running process, so that any process can answer for all."""


sessions = Table(
    "sessions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("secret_hash", String(64), nullable=False, unique=True),
    Column("former_hash", String(64), index=True),
    Column("former_until", DatabaseInstant, info=instant(InstantKind.WAIT)),
    Column("person_id", BigInteger, nullable=False, index=True),
    Column("login", String(255), nullable=False),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("used_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("renewed_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
)
"""People who are logged in at the pages; see `queue_engine.store.sessions.Session`."""


login_owners = Table(
    "login_owners",
    metadata,
    Column("login", String(255), primary_key=True),
    Column("person_id", BigInteger, nullable=False),
)
"""Who was first to log in with a login that IMQ_OPERATORS names: the login may belong to another account later."""


app_registration = Table(
    "app_registration",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("nonce", String(64), nullable=False),
    Column("state", String(64)),
    Column("sealed", Text),
)
"""The registration of the GitHub App, in one row: what its code is made of, the digest of the state that GitHub sends
back, and the encrypted credentials."""
