"""The address to which GitHub sends webhooks is judged as far as IMQ can know."""

import pytest

from bot.doctor.webhook_probe import address_fault


@pytest.mark.parametrize(
    ("address", "public_url"),
    [
        ("https://imq.acme.dev/webhook", None),
        ("https://imq.acme.dev/webhook", "https://imq.acme.dev"),
        ("https://acme.dev/imq/webhook", "https://acme.dev/imq/"),
        ("http://127.0.0.1:8080/webhook", None),
        ("http://relay.internal/webhook", None),
    ],
)
def test_address_that_may_be_right_is_no_finding(address: str, public_url: str | None) -> None:
    """A proxy may add a path, and a private network needs no TLS."""
    assert address_fault(address, public_url) is None


@pytest.mark.parametrize(
    ("address", "public_url", "advice"),
    [
        ("", None, "no webhook URL"),
        ("https://imq.example.com/webhook", None, "example of app.yml"),
        ("https://imq.acme.dev/", None, "receives webhooks at /webhook"),
        ("http://imq.acme.dev/webhook", None, "make it https"),
        ("https://old.acme.dev/webhook", "https://imq.acme.dev", "https://imq.acme.dev/webhook"),
    ],
)
def test_address_that_is_wrong_comes_with_the_way_to_mend_it(address: str, public_url: str | None, advice: str) -> None:
    """The operator reads what to enter on the App's settings page."""
    assert advice in (address_fault(address, public_url) or "")


def test_address_of_a_relay_is_right_where_one_is_set() -> None:
    """Also beside a public address."""
    relay = "https://smee.io/channel"
    assert address_fault(relay, None, relay) is None
    assert address_fault(relay, "https://imq.example.com", relay) is None
    assert relay in (address_fault("https://imq.example.com/webhook", "https://imq.example.com", relay) or "")
