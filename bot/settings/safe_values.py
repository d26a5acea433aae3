"""Judge settings that guard IMQ: the webhook secret, the API's URL, the address to listen on. Pure."""

import ipaddress
from urllib.parse import urlsplit

LEAST_SECRET = 20
"""Characters of a webhook secret: with hexadecimal ones, 80 bits."""
_LEAST_DIFFERENT = 6
_DRAW_ANOTHER = (
    "draw a new one, with `openssl rand -hex 32` or `python3 -c 'import secrets; print(secrets.token_hex(32))'`, and "
    "enter it here and on the App's settings page"
)

_OWN_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".test")
"""Endings of names that no public name has (RFC 6761, 6762 and 8375; ICANN reserved `.internal` in 2024)."""

EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"  # noqa: S104 - an address to compare with and to choose


def strong_secret(value: str) -> str:
    """The secret, if nobody guesses it. Raises ValueError, whose words never repeat it.

    An attacker who knows it writes webhooks, and with each delivery that anybody sees guesses can be tried offline.
    """
    if len(value) < LEAST_SECRET:
        raise ValueError(
            f"is too short: it has {len(value)} characters, and {LEAST_SECRET} are the least; {_DRAW_ANOTHER}"
        )
    if len(set(value)) < _LEAST_DIFFERENT:
        raise ValueError(f"is too simple: it repeats fewer than {_LEAST_DIFFERENT} characters; {_DRAW_ANOTHER}")
    return value


def safe_api_url(value: str) -> str:
    """The URL without a trailing slash, if tokens may be sent there. Raises ValueError.

    The App's key signs every request for a token, and a reader of the connection has that token: plain http is for
    hosts that are not on the internet.
    """
    try:
        parts = urlsplit(value.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is no URL; give one such as https://github.example.com/api/v3") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError("must be a URL such as https://github.example.com/api/v3")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password, which would stand in logs: leave it out, the App's key signs")
    if host == "github.com":
        raise ValueError("is GitHub's website; leave it out for GitHub's public API, https://api.github.com")
    if parts.scheme == "http" and not is_private(host):
        raise ValueError(
            "is plain http, over which everybody on the way reads IMQ's tokens: write https:// (http:// is for "
            f"loopback and private addresses, and for names without a dot or below {', '.join(_OWN_SUFFIXES[:-1])} "
            f"or {_OWN_SUFFIXES[-1]})"
        )
    return value.strip().rstrip("/")


def is_private(host: str) -> bool:
    """Whether a host is reached within one's own network only: by its address, or by a name that no public one has."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        # A number is an address in a form of its own: 134744072 is 8.8.8.8.
        alone = "." not in name and ":" not in name and not name[:1].isdigit()
        return bool(name) and (alone or name.endswith(_OWN_SUFFIXES))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return not address.is_global and not address.is_multicast


def bind_address(value: str) -> str:
    """The address to listen on. Raises ValueError for a name: what it leads to may change."""
    try:
        return str(ipaddress.ip_address(value.strip().strip("[]")))
    except ValueError:
        raise ValueError(
            f"must be an IP address of this machine: {HERE} for this machine alone, {EVERYWHERE} (or ::) for everybody "
            "who reaches it"
        ) from None
