"""Cursors of lists: opaque texts that name the last item of a page."""

import base64
from datetime import UTC, datetime

from bot.api.errors import ApiError


def cursor_after(at: datetime, item_id: str) -> str:
    """Return the cursor of the page after this item."""
    return base64.urlsafe_b64encode(f"{at.isoformat()} {item_id}".encode()).decode()


def parse_cursor(cursor: str) -> tuple[datetime, str]:
    """Return the instant and the id of the item before a page. Raises ApiError 404 for a made-up cursor."""
    try:
        text, item_id = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        at = datetime.fromisoformat(text)
        if at.tzinfo is None or not item_id.isprintable():
            raise ValueError(cursor)
        return at.astimezone(UTC), item_id
    except (ValueError, OverflowError):
        raise ApiError(404, "no such page: use the `next` of another page as cursor") from None
