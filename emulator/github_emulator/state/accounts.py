"""Accounts, apps, and who acts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from github_emulator.core.keys import KeyPair

ROLES = ("none", "read", "triage", "write", "maintain", "admin")
"""Roles on a repository, weakest first."""


@dataclass(eq=False, slots=True)
class User:
    """An account. `kind` is GitHub's own word: User, Organization or Bot."""

    id: int
    login: str
    kind: str
    created_at: datetime
    deleted: bool = False
    """What it wrote stays; `Behaviour.deleted_accounts` says how its author is shown."""

    @property
    def email(self) -> str:
        """The private address that GitHub writes into commits."""
        return f"{self.id}+{self.login}@users.noreply.github.com"


@dataclass(eq=False, slots=True)
class Team:
    """A team of an organisation. Its members are those of its child teams, too."""

    id: int
    organisation: User
    name: str
    slug: str
    parent: "Team | None" = None
    direct_members: list[User] = field(default_factory=list)


@dataclass(eq=False, slots=True, repr=False)
class App:
    """A GitHub App. `bot` is the user `slug[bot]` under which it acts."""

    id: int
    slug: str
    client_id: str
    owner: User
    bot: User
    permissions: dict[str, str]
    events: frozenset[str]
    webhook_url: str | None
    webhook_secret: str
    key: KeyPair
    hook_id: int
    created_at: datetime
    name: str = ""
    """As people read it; empty means the slug."""
    setup_url: str | None = None
    """Where GitHub sends a person who installed it."""
    client_secret: str = ""
    callback_urls: tuple[str, ...] = ()
    """Where GitHub sends a person who authorized it."""
    public: bool = True
    """Whether people and accounts beside its owner may authorize and install it."""
    device_flow: bool = False
    """Whether its owner enabled the device flow; no manifest can."""
    hook_format: str = "json"
    """GitHub's `content_type` of the webhook: `json` or `form`."""
    hook_insecure: bool = False
    """Whether GitHub delivers to an address whose certificate it cannot verify."""

    @property
    def private_key(self) -> str:
        """The RSA key with which the app signs its tokens, as PEM."""
        return self.key.private

    @property
    def public_key(self) -> RSAPublicKey:
        """The half that GitHub keeps."""
        return self.key.public


@dataclass(eq=False, slots=True, repr=False)
class AppCode:
    """A code that gives the credentials of an app from a manifest, once and within an hour."""

    code: str
    app: App
    created_at: datetime


@dataclass(eq=False, slots=True, repr=False)
class DeviceCode:
    """The codes of one login at a device: `code` is the device's, `user_code` is for the person to type."""

    code: str
    user_code: str
    app: App
    created_at: datetime
    interval: int
    asked_at: datetime | None = None
    """When the device last asked for the token."""
    user: User | None = None
    """Who authorized the app."""
    denied: bool = False


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a person, or an app's bot with the permissions of its token."""

    user: User
    app: App | None = None
    permissions: Mapping[str, str] | None = None
    """For an app: permission -> read/write/admin, already narrowed by the token. None for a person."""

    def may(self, permission: str, level: str = "write") -> bool:
        """Whether an app's token carries the permission; a person's roles are checked elsewhere."""
        if self.permissions is None:
            return True
        order = ("none", "read", "write", "admin")
        return order.index(self.permissions.get(permission, "none")) >= order.index(level)
