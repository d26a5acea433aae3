"""Cursors of lists."""

import base64
from datetime import UTC, datetime

import pytest

from bot.api.errors import ApiError
from bot.api.payload import cursor_after, parse_cursor

AT = datetime(2026, 3, 14, 15, tzinfo=UTC)


def test_cursor_names_the_item_that_it_was_made_of() -> None:
    """The next page begins after exactly this item."""
    assert parse_cursor(cursor_after(AT, "comment-7-42")) == (AT, "comment-7-42")


@pytest.mark.parametrize(
    "text", ["", "no base64", "2026-03-14T15:00:00 naive", "9999-12-31T23:59:59-14:00 late", "x y z"]
)
def test_cursor_that_imq_did_not_make_is_no_page(text: str) -> None:
    """A made-up cursor is the caller's fault, with the way out."""
    with pytest.raises(ApiError, match="use the `next` of another page"):
        parse_cursor(base64.urlsafe_b64encode(text.encode()).decode())
    with pytest.raises(ApiError):
        parse_cursor(f"{text}é")
