"""Read the networks of reverse proxies whose `X-Forwarded-For` is believed. Pure."""

import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PRIVATE = (*_LOOPBACK, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10")
_FLY = "fly"
_WORDS = {"none": (), "loopback": _LOOPBACK, "private": _PRIVATE, _FLY: _PRIVATE}
"""Words for networks. Private ones are those of RFC 1918, 6598 and 4193, and of one link; Fly's proxy has such ones."""

DEFAULT = "loopback"
"""A proxy on the same machine, where IMQ listens unless a platform or `IMQ_BIND` says otherwise."""


def trusted_proxies(value: str) -> tuple[Network, ...]:
    """Return the networks that words, addresses or networks name. Raises ValueError."""
    found: list[Network] = []
    for name in _names(value):
        try:
            found += [ipaddress.ip_network(each) for each in _WORDS.get(name.casefold(), (name,))]
        except ValueError:
            raise ValueError(
                "must be addresses or networks such as 10.0.0.0/8, separated by commas, or one of the words "
                f"{', '.join(_WORDS)}"
            ) from None
    if not _names(value):
        raise ValueError(f"names no proxy: give networks, or one of the words {', '.join(_WORDS)}")
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("trusts every address, so that each client could choose its own: name the proxy's network")
    return tuple(found)


def client_header(value: str) -> str:
    """Return the header in which these proxies name their client: Fly's proxy has one of its own."""
    return "Fly-Client-IP" if _FLY in map(str.casefold, _names(value)) else "X-Forwarded-For"


def _names(value: str) -> list[str]:
    return value.replace(",", " ").split()
