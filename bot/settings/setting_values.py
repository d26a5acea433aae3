"""Validate the webhook secret, URLs, the address to listen on, and ages; find GitHub's website. Pure."""

import ipaddress
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

MIN_SECRET = 20
"""Characters of a secret: with hexadecimal ones, 80 bits."""
_MIN_DISTINCT = 6
_REPLACEMENT_ADVICE = (
    "draw a new one, with `openssl rand -hex 32` or `python3 -c 'import secrets; print(secrets.token_hex(32))'`, and "
)

_OWN_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".test")
"""Suffixes of private names (RFC 6761, 6762 and 8375; ICANN reserved `.internal` in 2024)."""

_MIN_DAYS, _MAX_DAYS = 30, 36500

EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"  # noqa: S104 - an address to compare with and to choose


def strong_secret(value: str, advice: str) -> str:
    """Return the secret if it is strong. Raises ValueError, whose message ends in `advice` and never repeats it.

    An attacker can try guesses offline with any delivery, cookie or copy of the database.
    """
    if len(value) < MIN_SECRET:
        raise ValueError(
            f"is too short: it has {len(value)} characters, and {MIN_SECRET} are the least; "
            f"{_REPLACEMENT_ADVICE}{advice}"
        )
    if len(set(value)) < _MIN_DISTINCT:
        raise ValueError(
            f"is too simple: it repeats fewer than {_MIN_DISTINCT} characters; {_REPLACEMENT_ADVICE}{advice}"
        )
    return value


def _parts(value: str, example: str) -> SplitResult:
    """Split a URL. Raises ValueError with the example."""
    try:
        parts = urlsplit(value.strip())
        _ = parts.port, parts.hostname
    except ValueError:
        raise ValueError(f"is no URL; give one such as {example}") from None
    return parts


def safe_api_url(value: str) -> str:
    """Return the URL without a trailing slash, if tokens may be sent there. Raises ValueError.

    Everyone who reads the connection gets the tokens, so plain http is only for hosts that are not on the internet.
    """
    parts = _parts(value, "https://github.example.com/api/v3")
    host = parts.hostname or ""
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


def public_url(value: str) -> str:
    """Return the URL without a trailing slash, if people and GitHub may use it. Raises ValueError.

    Cookies and the code of a registration pass this way, so plain http is only for hosts that are not on the internet.
    """
    parts = _parts(value, "https://imq.example.com")
    host = parts.hostname or ""
    plain = bool(parts.query or parts.fragment or parts.path.strip("/") or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not host or plain:
        raise ValueError("must be a URL such as https://imq.example.com, without a path")
    if parts.scheme == "http" and not is_private(host):
        raise ValueError("is plain http, over which others read the set-up: write https://")
    return value.strip().rstrip("/")


def relay_url(value: str) -> str:
    """Return the URL of a relay's channel, if webhooks may pass there. Raises ValueError."""
    parts = _parts(value, "https://smee.io/CHANNEL")
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or not parts.path.strip("/"):
        raise ValueError("must be the URL of a channel such as https://smee.io/CHANNEL")
    if parts.scheme == "http" and not is_private(host):
        raise ValueError("is plain http, over which others read the webhooks: write https://")
    return value.strip()


def is_private(host: str) -> bool:
    """Whether a host is on a private network, by its address or its name."""
    name = host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        # A number can be an address: 134744072 is 8.8.8.8.
        alone = "." not in name and ":" not in name and not name[:1].isdigit()
        return bool(name) and (alone or name.endswith(_OWN_SUFFIXES))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return not address.is_global and not address.is_multicast


def bind_address(value: str) -> str:
    """Return the address to listen on. Raises ValueError for a name, whose address may change."""
    try:
        return str(ipaddress.ip_address(value.strip().strip("[]")))
    except ValueError:
        raise ValueError(
            f"must be an IP address of this machine: {HERE} for this machine alone, {EVERYWHERE} (or ::) for everybody "
            "who reaches it"
        ) from None


def enough_days(value: int) -> int:
    """Return for how many days rows are kept; 0 is for good. Raises ValueError for less than a month.

    Expected times, statistics and histories are made of the timeline, and proofs of the records of landings.
    """
    if not (value == 0 or _MIN_DAYS <= value <= _MAX_DAYS):
        raise ValueError(f"is out of range: give {_MIN_DAYS} to {_MAX_DAYS} days, 0 to keep all for good")
    return value


def seconds(value: object) -> object:
    """Read a duration: environment variables hold seconds as decimal numbers. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return timedelta(seconds=float(value))
    except (ValueError, OverflowError):
        raise ValueError("is not a number of seconds; give one such as 30") from None


def website(api_url: str) -> str:
    """Return the origin of the website of this API: github.com, ghe.com (`api.`), or Enterprise Server (`/api/v3`)."""
    parts = urlsplit(api_url)
    host = parts.netloc
    if parts.path.rstrip("/") in ("", "/") and host.startswith("api."):
        host = host.removeprefix("api.")
    return f"{parts.scheme}://{host}"
