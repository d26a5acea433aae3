"""Signed values."""

from datetime import UTC, datetime, timedelta

from bot.web.login.session_cookies import Signer

OLD, NEW = b"o" * 32, b"n" * 32
NOW = datetime(2026, 11, 23, tzinfo=UTC)


def test_value_is_bound_to_its_name_and_to_a_key() -> None:
    """It serves under no other name, and with no other key."""
    signer = Signer([NEW])
    value = signer.sign("session", "secret ü")
    assert signer.verify("session", value) == "secret ü"
    assert signer.verify("login", value) is None
    assert Signer([OLD]).verify("session", value) is None


def test_former_key_still_verifies() -> None:
    """The new one signs."""
    value = Signer([OLD]).sign("session", "x")
    both = Signer([NEW, OLD])
    assert both.verify("session", value) == "x"
    assert Signer([NEW]).verify("session", both.sign("session", "x")) == "x"


def test_altered_value_is_refused() -> None:
    """Each changed character, a cut value, padding, and text that is no base64."""
    signer = Signer([NEW])
    value = signer.sign("session", "x")
    other = {each: "A" if each != "A" else "B" for each in value}
    altered = [f"{value[:place]}{other[value[place]]}{value[place + 1 :]}" for place in range(len(value))]
    for each in (*altered, value[:-1], f"{value}==", f"{value}A", "", "é", "a b"):
        assert signer.verify("session", each) is None


def test_content_ends_with_its_life() -> None:
    """JSON content comes back until then."""
    signer = Signer([NEW])
    value = signer.sign_content("message", ["a", 1], NOW, timedelta(minutes=5))
    assert signer.verify_content("message", value, NOW) == ["a", 1]
    assert signer.verify_content("message", value, NOW + timedelta(minutes=5)) is None
    assert signer.verify_content("other", value, NOW) is None
    assert signer.derive("csrf", "a") != signer.derive("csrf", "b")
