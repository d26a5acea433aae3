"""What guards IMQ is strong enough, or refused with the way out."""

import pytest

from bot.settings.setting_values import is_private, public_url, relay_url, safe_api_url, strong_secret


@pytest.mark.parametrize("secret", ["hunter2", "x" * 19, "x" * 64, "12341234123412341234123412341234"])
def test_secret_that_can_be_guessed_is_refused_with_the_way_out_and_not_repeated(secret: str) -> None:
    """The words go to a log, and tell how to draw another one."""
    with pytest.raises(ValueError, match="openssl rand -hex 32") as refused:
        strong_secret(secret, "set it")
    assert secret not in str(refused.value)


@pytest.mark.parametrize("secret", ["9c1f6d4be0a2473f8f5e", "correct horse battery staple"])  # pragma: allowlist secret
def test_secret_that_cannot_be_guessed_is_accepted(secret: str) -> None:
    """Drawn at random, or of many words."""
    assert strong_secret(secret, "") == secret


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "127.9.9.9", "10.0.0.7", "172.16.3.4", "192.168.1.1", "100.64.0.1", "::1", "fd00::7",
     "fe80::1%eth0", "::ffff:10.0.0.1", "::ffff:100.64.0.1", "ghe", "ghe.internal", "GHE.Local.", "sandbox.test"],
)  # fmt: skip
def test_host_of_ones_own_network_may_be_plain_http(host: str) -> None:
    """No other party is on the way to that host."""
    assert is_private(host)
    address = f"[{host}]" if ":" in host else host
    assert safe_api_url(f"http://{address}:8080/api/v3/") == f"http://{address}:8080/api/v3"


@pytest.mark.parametrize(
    "host",
    ["ghe.example.com", "8.8.8.8", "134744072", "0x08080808", "8.8.2056", "::ffff:8.8.8.8", "2001:4860:4860::8888",
     "localhost.example.com", "10.0.0.1.example.com", "127.0.0.1.nip.io", "internal.example", "local.example"],
)  # fmt: skip
def test_host_of_the_internet_has_to_be_https(host: str) -> None:
    """Also an address that is written as a number, or that only begins like a private one; all exceptions are named."""
    address = f"[{host}]" if ":" in host else host
    with pytest.raises(ValueError, match=r"plain http.*\.localhost, \.local, \.internal, \.home\.arpa or \.test\)$"):
        safe_api_url(f"http://{address}/api/v3")
    assert safe_api_url(f"https://{address}/api/v3") == f"https://{address}/api/v3"


@pytest.mark.parametrize("url", ["https://imq.example.com/", "http://10.0.0.7:8080", "http://localhost:8080"])
def test_public_url_is_an_origin(url: str) -> None:
    """The paths of IMQ are added to it."""
    assert public_url(f" {url} ") == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("imq.example.com", "must be a URL"),
        ("https://imq.example.com/webhook", "without a path"),
        ("https://ada:secret@imq.example.com", "must be a URL"),  # pragma: allowlist secret
        ("https://imq.example.com:http", "is no URL"),
        ("http://imq.example.com", "plain http"),
    ],
)
def test_public_url_that_cannot_be_used_is_refused(url: str, words: str) -> None:
    """The person reads what to write instead."""
    with pytest.raises(ValueError, match=words):
        public_url(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://smee.io", "URL of a channel"),
        ("smee.io/channel", "URL of a channel"),
        ("https://smee.io:x/channel", "is no URL"),
        ("http://smee.io/channel", "plain http"),
    ],
)
def test_relay_url_that_cannot_be_used_is_refused(url: str, words: str) -> None:
    """The channel is a part of it, and the way there is encrypted."""
    with pytest.raises(ValueError, match=words):
        relay_url(url)
    assert relay_url(" https://smee.io/channel") == "https://smee.io/channel"
