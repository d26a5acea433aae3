"""Pages of lists, and the Link header that leads from one to the next."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

Item = TypeVar("Item")
DEFAULT = 30
MOST = 100


def _whole(text: str | None, fallback: int) -> int:
    """GitHub takes nonsense and numbers below one for the default."""
    try:
        number = int(text or "")
    except ValueError:
        return fallback
    return number if number >= 1 else fallback


def page_of(query: Mapping[str, str]) -> tuple[int, int]:
    """Page number (from 1) and page size (at most 100) that the query asks for."""
    return _whole(query.get("page"), 1), min(_whole(query.get("per_page"), DEFAULT), MOST)


def paginate(items: Sequence[Item], query: Mapping[str, str], url: str) -> tuple[list[Item], dict[str, str]]:
    """The items of the asked page, and the headers that name its neighbours (none when all fit on one page)."""
    page, size = page_of(query)
    last = max(1, -(-len(items) // size))
    links: dict[str, dict[str, Any]] = {}
    if page > 1:
        links["prev"] = {"page": min(page - 1, last)}
    if page < last:
        links["next"] = {"page": page + 1}
        links["last"] = {"page": last}
    if page > 1:
        links["first"] = {"page": 1}
    start = (page - 1) * size
    return list(items[start : start + size]), link(url, query, links)


def link(url: str, query: Mapping[str, str], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The Link header for the relations in `changes`, each with the query parameters it replaces."""
    if not changes:
        return {}
    parts = [
        f'<{url}?{urlencode({**query, **changed}, quote_via=quote)}>; rel="{relation}"'
        for relation, changed in changes.items()
    ]
    return {"Link": ", ".join(parts)}
