"""The address of a client behind reverse proxies."""

from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict
from structlog.testing import capture_logs

from bot.http.client_address import ClientAddresses, UntrustedProxy
from bot.settings.environment import SettingsProblem, client_header, load_host_settings, trusted_proxies


class _Transport:
    def __init__(self, peer: str) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, 50000) if name == "peername" else default


def share(peer: str, *forwarded: str, trusted: str = "loopback") -> str | None:
    """The share of a client of this peer, which sends these headers."""
    headers = CIMultiDict[str]([("X-Forwarded-For", each) for each in forwarded])
    request = make_mocked_request("GET", "/", headers=headers, transport=_Transport(peer))
    return ClientAddresses(trusted_proxies(trusted)).share(request)


def test_client_cannot_choose_its_address() -> None:
    """Only what a trusted proxy appended counts; an IPv6 client cannot leave its network of 64 bits."""
    for peer, forwarded, trusted, expected in [
        ("203.0.113.9", [], "loopback", "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "loopback", "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "private", "203.0.113.9"),
        ("10.0.0.5", ["198.51.100.1"], "loopback", "10.0.0.5"),
        ("127.0.0.1", ["198.51.100.1"], "none", "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.1, 203.0.113.9"], "loopback", "203.0.113.9"),
        ("10.0.0.5", ["198.51.100.1, 203.0.113.9, 10.0.0.4"], "private", "203.0.113.9"),
        ("10.0.0.5", ["198.51.100.1, 203.0.113.9, 192.0.2.7"], "private,192.0.2.0/24", "203.0.113.9"),
        ("::1", ["198.51.100.1"], "loopback", "198.51.100.1"),
        ("::ffff:127.0.0.1", ["::ffff:198.51.100.1"], "loopback", "198.51.100.1"),
        ("127.0.0.1", ["198.51.100.1:4711"], "loopback", "198.51.100.1"),
        ("127.0.0.1", ["[2001:db8:1:2:3::4]:4711"], "loopback", "2001:db8:1:2::/64"),
    ]:
        assert share(peer, *forwarded, trusted=trusted) == expected, (peer, forwarded, trusted, expected)


@pytest.mark.parametrize("forwarded", [[], [""], ["unknown"], ["198.51.100.1", "198.51.100.2"], ["127.0.0.1"]])
def test_proxy_that_names_no_client_has_no_share(forwarded: list[str]) -> None:
    """Many people have its address. Two headers count as none: one of them is the client's own."""
    assert share("127.0.0.1", *forwarded) is None


def from_fly(**headers: str) -> str | None:
    """The share of a client behind Fly's proxy."""
    request = make_mocked_request("GET", "/", headers=headers, transport=_Transport("172.16.3.4"))
    return ClientAddresses(trusted_proxies("fly"), client_header("fly")).share(request)


def test_client_behind_flys_proxy_is_the_one_that_the_proxy_names() -> None:
    """Fly's proxy appends the app's own address to `X-Forwarded-For`, so that its right end is the same for all."""
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9, 2001:db8::1"}
    assert from_fly(**forwarded, **{"Fly-Client-IP": "203.0.113.9"}) == "203.0.113.9"
    assert from_fly(**forwarded) is None
    assert client_header("private") == "X-Forwarded-For"


def test_proxy_that_is_not_trusted_is_named_once_with_its_remedy() -> None:
    """P5: behind it one stranger uses up the limits of all; a request without the header shows no proxy."""
    noticed = UntrustedProxy(ClientAddresses(trusted_proxies("loopback")))
    with capture_logs() as lines:
        for peer, headers in [
            ("10.0.0.5", {}),
            ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}),
        ]:
            noticed.notice(make_mocked_request("POST", "/webhook", headers=headers, transport=_Transport(peer)))
            assert noticed.advice is None
        for peer in ("10.0.0.5", "10.0.0.6"):
            headers = {"X-Forwarded-For": "203.0.113.9"}
            noticed.notice(make_mocked_request("POST", "/webhook", headers=headers, transport=_Transport(peer)))
    assert [(line["event"], line["address"]) for line in lines] == [("proxy_untrusted", "10.0.0.5")]
    assert noticed.advice is not None
    assert "IMQ_TRUSTED_PROXIES" in noticed.advice


@pytest.mark.parametrize(
    ("trusted", "headers", "proxy"),
    [
        ("private", {"X-Forwarded-For": "203.0.113.9, 172.70.247.28, 10.19.6.53"}, "172.70.247.28"),
        ("private,172.64.0.0/13", {"X-Forwarded-For": "203.0.113.9, 172.70.247.28, 10.19.6.53"}, None),
        ("private", {"X-Forwarded-For": "203.0.113.9"}, None),
        ("private", {"X-Forwarded-For": "203.0.113.9, unknown"}, None),
        ("private", {}, None),
        ("render", {"X-Forwarded-For": "203.0.113.9, 172.70.247.28", "CF-Connecting-IP": "203.0.113.9"}, None),
    ],
)
def test_proxy_before_a_trusted_one_is_noticed_too(trusted: str, headers: dict[str, str], proxy: str | None) -> None:
    """P5: Cloudflare before Render's router: all clients would share the limits of its few addresses."""
    request = make_mocked_request("POST", "/webhook", headers=headers, transport=_Transport("10.0.0.5"))
    addresses = ClientAddresses(trusted_proxies(trusted), client_header(trusted))
    assert addresses.untrusted_proxy(request) == proxy


def test_client_behind_renders_router_is_the_one_that_cloudflare_names() -> None:
    """The router's `X-Forwarded-For` ends with an address of Cloudflare's, which many clients share."""
    headers = {"X-Forwarded-For": "203.0.113.9, 172.70.247.28", "CF-Connecting-IP": "203.0.113.9"}
    request = make_mocked_request("GET", "/", headers=headers, transport=_Transport("10.0.0.5"))
    assert ClientAddresses(trusted_proxies("render"), client_header("render")).share(request) == "203.0.113.9"


@pytest.mark.parametrize("value", ["proxy.example.com", "10.0.0.0/40", "0.0.0.0/0", "::/0", "10.0.0.5/8"])
def test_unusable_network_is_refused(value: str) -> None:
    """Every address is no network of proxies."""
    with pytest.raises(SettingsProblem, match="IMQ_TRUSTED_PROXIES"):
        load_host_settings({"IMQ_TRUSTED_PROXIES": value})


def test_word_and_networks_are_read_together() -> None:
    """In any case, with commas or spaces."""
    settings = load_host_settings({"IMQ_TRUSTED_PROXIES": "Loopback, 192.0.2.1 2001:db8::/32"})
    assert [str(each) for each in settings.trusted_proxies] == [
        "127.0.0.0/8",
        "::1/128",
        "192.0.2.1/32",
        "2001:db8::/32",
    ]
