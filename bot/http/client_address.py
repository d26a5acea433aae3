"""Find the address of a client behind reverse proxies, for limits that each client has to itself.

A proxy appends the address of its own client to `X-Forwarded-For`, so only its right end can be believed, and only from
a proxy that the operator trusts (MDN, "X-Forwarded-For"). Heroku's router does so, from a private address
(fideloper/TrustedProxy #64; rohitpaulk.com, "render-rails-remote-ip"). Fly's proxy writes an address of the app itself
after that of the client (Fly's docs, "Request headers"; superfly/flyctl #121). So on Fly IMQ reads `Fly-Client-IP`,
which that proxy writes over what the client sent (the same page; arcjet/arcjet-js #5412). Before Render's router stands
Cloudflare, with public addresses that change (arcjet/arcjet-js #5411, polarsource/polar #12941). So on Render IMQ reads
`CF-Connecting-IP`, which Cloudflare writes (its docs, "HTTP request headers"; frappe/agent #560).
Of two headers with this name IMQ believes neither: Heroku's first router appended to the first one, and left the second
as the client wrote it (heroku/roadmap #238; Router 2.0 appends to the last one, rust-lang/crates.io #10249).
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import structlog
from aiohttp import web

Network = IPv4Network | IPv6Network

FORWARDED_FOR = "X-Forwarded-For"
_MOST_HOPS = 20
_SITE = 64
"""Bits of an IPv6 address that one site has in common: a client may choose the others."""

log = structlog.get_logger(__name__)


class ClientAddresses:
    """Finds who sent a request."""

    def __init__(self, trusted: Sequence[Network], header: str = FORWARDED_FOR) -> None:
        """`trusted` are the networks of reverse proxies whose `header` is believed."""
        self._trusted = tuple(trusted)
        self._header = header

    def of(self, request: web.Request) -> str:
        """Return the client's address; empty if the connection has none."""
        found = self._client(request)
        return "" if found is None else str(found)

    def share(self, request: web.Request) -> str | None:
        """Return an address, or an IPv6 network of one site; None if a trusted proxy does not say for whom it asks."""
        found = self._client(request)
        if found is None or self._trusts(found):
            return None
        return str(ip_network((found, _SITE), strict=False)) if isinstance(found, IPv6Address) else str(found)

    def untrusted_proxy(self, request: web.Request) -> str | None:
        """Return the address of a proxy that forwards this request, and that is not trusted; None if there is none.

        It is the peer, or a proxy before it that names another client. Any client may send the header to a process
        without a proxy. So this holds for requests of GitHub's alone.
        """
        found = _parsed(request.remote or "")
        peer_is_trusted = found is not None and self._trusts(found)
        given = request.headers.getall(self._header if peer_is_trusted else FORWARDED_FOR, [])
        for before in reversed(",".join(given).split(",") if given else ()):
            if found is None or not self._trusts(found):
                return None if found is None else str(found)
            found = _parsed(before)
        return None

    def _client(self, request: web.Request) -> IPv4Address | IPv6Address | None:
        found = _parsed(request.remote or "")
        given = request.headers.getall(self._header, [])
        if found is None or len(given) != 1:
            return found
        for each in reversed(given[0].split(",")[-_MOST_HOPS:]):
            if not self._trusts(found):
                return found
            before = _parsed(each)
            if before is None:
                return found
            found = before
        return found

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._trusted if network.version == address.version)


class UntrustedProxy:
    """Notices a reverse proxy that IMQ does not trust, by a delivery with GitHub's signature; logs it once."""

    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self.address: str | None = None
        """The proxy's address; None while there is none."""

    @property
    def advice(self) -> str | None:
        """What the operator has to set; None without such a proxy."""
        if self.address is None:
            return None
        return (
            f"A reverse proxy at {self.address} forwards requests, and IMQ_TRUSTED_PROXIES does not name it: all "
            "clients share the limits of one. Set IMQ_TRUSTED_PROXIES to its network."
        )

    def notice(self, request: web.Request) -> None:
        """Look at a request that GitHub has signed."""
        found = self._addresses.untrusted_proxy(request)
        if found is not None and self.address is None:
            self.address = found
            log.warning("proxy_untrusted", address=found, advice=self.advice)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, also with a port (`192.0.2.1:80`, `[2001:db8::1]:80`), as some proxies write it."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return found if mapped is None else mapped
