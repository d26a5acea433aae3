"""Makes the table of how many landings GitHub's limits allow, from IMQ's own figures of limits and of requests."""

from pathlib import Path

from bot.gateway.http.pacing import DOCUMENTED, MARGIN

_PAGE = Path(__file__).with_suffix(".md")
_COLUMN = "behind"
"""The column of the page's table of requests: a pull request that IMQ updates before it lands."""

_CONTENT = ("/comments`", "/merge`")
"""The endings of the requests that create content."""

_READ, _WRITE = 1, 5
_HOURLY_REQUESTS = 5_000
"""The least that GitHub grants an installation."""


def landings() -> str:
    """Return the table: for each limit, what IMQ uses of it, what one landing takes, and how many fit into an hour."""
    costs = _requests()
    rest = {name: count for name, count in costs.items() if "/graphql" not in name}
    content = sum(
        count for name, count in rest.items() if name.startswith(("`POST", "`PUT")) and name.endswith(_CONTENT)
    )
    points = sum(count * (_READ if name.startswith("`GET") else _WRITE) for name, count in rest.items())
    limits = (
        ("creations of content an hour", DOCUMENTED.content_per_hour, MARGIN, content, 1),
        ("creations of content a minute", DOCUMENTED.content_per_minute, MARGIN, content, 60),
        ("requests an hour", _HOURLY_REQUESTS, 1.0, sum(rest.values()), 1),
        ("points of REST a minute", DOCUMENTED.points_per_minute, MARGIN, points, 60),
        ("points of GraphQL a minute", DOCUMENTED.graphql_points_per_minute, MARGIN, costs["`POST /graphql`"], 60),
    )
    rows = [
        "| limit of an installation | GitHub's figure | IMQ uses | one landing takes | landings an hour |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, figure, share, cost, times in limits:
        used = int(figure * share)
        rows.append(f"| {name} | {figure:,} | {used:,} | {cost} | {used * times // cost:,} |")
    return "\n".join(rows) + "\n"


def _requests() -> dict[str, int]:
    """Return the requests of one landing, as the page lists them; a test measures them."""
    text = _PAGE.read_text(encoding="utf-8")
    lines = text[text.index("| request | ") :].split("\n\n")[0].splitlines()
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: int(row[header.index(_COLUMN)]) for row in rows}
