"""The form of tokens: what scanners look for, and what is refused without a look at the database."""

import re
import string

import pytest

from queue_engine.store.tokens import new_secret, well_formed

FORM = re.compile(r"imq_[0-9A-Za-z]{49}")
"""As docs/operating.md gives it to people who scan for secrets."""


def test_secret_has_the_form_that_scanners_know() -> None:
    """Base62, so that a double click takes the whole; never the same twice."""
    made = {new_secret() for _ in range(200)}
    assert len(made) == 200
    assert all(FORM.fullmatch(each) and well_formed(each) for each in made)
    assert {letter for each in made for letter in each[4:47]} == set(string.ascii_letters + string.digits)


def test_checksum_of_a_secret_is_that_of_its_random_part() -> None:
    """CRC32 in Base62, with zeros in front, as GitHub's tokens have it: scanners can compute it."""
    assert well_formed("imq_" + "0" * 43 + "2CZclj")
    assert not well_formed("imq_" + "0" * 43 + "2CZcla")


@pytest.mark.parametrize("place", [4, 20, 46, 47, 52])
def test_secret_with_one_other_character_is_none(place: int) -> None:
    """A typing error, or a guess."""
    secret = new_secret()
    other = "a" if secret[place] != "a" else "b"
    assert not well_formed(secret[:place] + other + secret[place + 1 :])


@pytest.mark.parametrize(
    "text", ["", "imq_", "ghp_" + "x" * 43, "imq_" + "x" * 42, "imq_" + "x" * 44, "imq_" + "é" * 43]
)
def test_text_of_another_form_is_no_secret(text: str) -> None:
    """Whatever strangers send."""
    assert not well_formed(text)
    assert not well_formed(new_secret() + "\n")
