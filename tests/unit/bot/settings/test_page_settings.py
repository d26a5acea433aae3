"""Settings of the pages."""

import pytest

from bot.settings.environment import SettingsProblem, load_host_settings


def test_operators_are_ids_or_logins() -> None:
    """A login made of digits is no id of another account, and case does not count."""
    settings = load_host_settings({"IMQ_OPERATORS": "583231, Mona  hubot"})
    assert settings.is_operator(583231, "anyone")
    assert settings.is_operator(1, "mona")
    assert settings.is_operator(1, "HUBOT")
    assert not settings.is_operator(1, "583231")
    assert not settings.is_operator(1, "mon")
    assert not load_host_settings({}).is_operator(1, "mona")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("IMQ_OPERATORS", "mona;drop", "separated by commas"),
        ("IMQ_OPERATORS", ",,", "names nobody"),
        ("IMQ_TRUSTED_PROXIES", ",,", "names no proxy"),
        ("IMQ_TRIGGER_LABEL", " \t", "is blank"),
        ("IMQ_TRIGGER_LABEL", "a\nb", "more than one line"),
        ("IMQ_GITHUB_CLIENT_ID", "Iv 1", "no client id"),
        ("IMQ_FORMER_SECRET_KEY", "abc", "too short"),
        ("IMQ_PUBLIC_PAGES", "perhaps", "give 1 or 0"),
    ],
)
def test_unusable_value_is_named_with_its_remedy(name: str, value: str, word: str) -> None:
    """The message does not repeat it."""
    with pytest.raises(SettingsProblem, match=word) as refused:
        load_host_settings({name: value})
    assert name in str(refused.value)
    assert value not in str(refused.value)


def test_missing_settings_of_the_login_are_listed() -> None:
    """In the order in which an operator sets them."""
    assert load_host_settings({}).missing_for_login() == [
        "IMQ_PUBLIC_URL",
        "IMQ_SECRET_KEY",
        "IMQ_GITHUB_CLIENT_SECRET",
    ]
