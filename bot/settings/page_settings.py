"""Settings of the pages: who may log in, and who may look."""

import ipaddress
import re

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from bot.settings.safe_values import strong_secret

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PRIVATE = (*_LOOPBACK, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10")
_FLY = "fly"
_NETWORKS = {"none": (), "loopback": _LOOPBACK, "private": _PRIVATE, _FLY: _PRIVATE}
"""Words for networks. Private ones are those of RFC 1918, 6598 and 4193, and of one link; Fly's proxy has such ones."""

_DEFAULT_PROXIES = "loopback"
"""A proxy on the same machine, where IMQ listens unless a platform or `IMQ_BIND` says otherwise."""


def trusted_proxies(value: str) -> tuple[Network, ...]:
    """Return the networks that words, addresses or networks name. Raises ValueError."""
    found: list[Network] = []
    for name in _listed(value):
        try:
            found += [ipaddress.ip_network(each) for each in _NETWORKS.get(name.casefold(), (name,))]
        except ValueError:
            raise ValueError(
                "must be addresses or networks such as 10.0.0.0/8, separated by commas, or one of the words "
                f"{', '.join(_NETWORKS)}"
            ) from None
    if not _listed(value):
        raise ValueError(f"names no proxy: give networks, or one of the words {', '.join(_NETWORKS)}")
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("trusts every address, so that each client could choose its own: name the proxy's network")
    return tuple(found)


def client_header(value: str) -> str:
    """Return the header in which these proxies name their client: Fly's proxy has one of its own."""
    return "Fly-Client-IP" if _FLY in map(str.casefold, _listed(value)) else "X-Forwarded-For"


def _listed(value: str) -> list[str]:
    return value.replace(",", " ").split()


_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OPERATOR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?")
_FOR_ROTATION = (
    "set it to the former IMQ_SECRET_KEY, until IMQ has re-encrypted the credentials and all have logged in again"
)


class PageSettings(BaseModel):
    """The settings of pages."""

    model_config = ConfigDict(frozen=True, validate_default=True, defer_build=True)

    client_id: str | None = Field(None, validation_alias="IMQ_GITHUB_CLIENT_ID")
    """The App's client id; IMQ asks GitHub for it if it is not set."""
    client_secret: SecretStr | None = Field(None, validation_alias="IMQ_GITHUB_CLIENT_SECRET")
    """A client secret of the App; people need it to log in."""
    former_secret_key: SecretStr | None = Field(None, validation_alias="IMQ_FORMER_SECRET_KEY")
    """The key before IMQ_SECRET_KEY: it still decrypts stored credentials, and cookies that it signed count."""
    public_pages: bool = Field(False, validation_alias="IMQ_PUBLIC_PAGES")
    """Whether everybody may read the pages of public repositories."""
    operators: str | None = Field(None, validation_alias="IMQ_OPERATORS")
    """GitHub ids or logins of the people who run IMQ: their pages show everything."""

    proxies: str = Field(_DEFAULT_PROXIES, validation_alias="IMQ_TRUSTED_PROXIES")
    """The reverse proxies whose `X-Forwarded-For` names the client."""

    @field_validator("client_id")
    @classmethod
    def _client_id_is_one(cls, value: str | None) -> str | None:
        if value is not None and not _CLIENT_ID.fullmatch(value.strip()):
            raise ValueError("is no client id; it stands on the App's settings page, and begins with Iv")
        return None if value is None else value.strip()

    @field_validator("former_secret_key")
    @classmethod
    def _former_key_is_strong(cls, value: SecretStr | None) -> SecretStr | None:
        return None if value is None else SecretStr(strong_secret(value.get_secret_value(), _FOR_ROTATION))

    @field_validator("operators")
    @classmethod
    def _operators_are_people(cls, value: str | None) -> str | None:
        names = _names(value)
        if value is not None and not names:
            raise ValueError("names nobody: give GitHub ids or logins, or remove it")
        if not all(_OPERATOR.fullmatch(each) for each in names):
            raise ValueError("must be GitHub ids or logins, separated by commas: an id such as 583231 is safer")
        return value

    @field_validator("proxies")
    @classmethod
    def _proxies_are_networks(cls, value: str) -> str:
        trusted_proxies(value)
        return value

    @property
    def trusted_proxies(self) -> tuple[Network, ...]:
        """Return the networks of the trusted reverse proxies."""
        return trusted_proxies(self.proxies)

    @property
    def client_header(self) -> str:
        """Return the header in which a trusted reverse proxy names its client."""
        return client_header(self.proxies)

    def is_operator(self, person_id: int, login: str) -> bool:
        """Return whether IMQ_OPERATORS names this person."""
        named = _names(self.operators)
        return str(person_id) in named or (not login.isdecimal() and login.casefold() in named)


def _names(value: str | None) -> frozenset[str]:
    """Read names that commas or spaces separate."""
    return frozenset((value or "").casefold().replace(",", " ").split())
