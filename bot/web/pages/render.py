"""Render pages: every value is escaped, and a name that a template does not know is an error.

The library is imported at the first page, so that a process without readers does not load it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web

from bot import __version__
from bot.passport.keys import checks_in
from bot.web.addresses import landings_url, login_url, pull_url, queue_url, repository_url, shadow_url
from bot.web.pages.static_files import static_url
from notifications.render.escape import duration as duration_text
from notifications.render.escape import instant
from queue_engine.core.timing.backoff import MONITOR

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

FOLDER = Path(__file__).parents[1] / "templates"

_HIDDEN = {
    number: f"\\u{number:04x}"
    for number in (
        *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
        *(0x00AD, 0x200B, *range(0x2060, 0x2065), 0xFEFF),
    )
}
"""Characters that change the direction of the text after them, with which a title could rearrange what IMQ says beside
it; and characters of no width, with which two names look alike. Persian, and joined emoji, need others of these.
"""
_DAYS_NAMED = 6
"""From so many days on, an instant has its date and not its day of the week."""


PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers against other sites. What a page shows is for one person, at one moment: no cache and no history keeps it."""


def page(template: str, *, status: int = 200, **context: Any) -> web.Response:
    """Return a page with its headers."""
    text = render(template, **context)
    return web.Response(text=text, content_type="text/html", charset="utf-8", status=status, headers=PAGE_HEADERS)


def render(template: str, **context: Any) -> str:
    """Return a page. Raises an error of the library for a name that is missing in `context`."""
    return environment().get_template(template).render(context)


_RESULTS = {
    "equal": ("the tested tree", "good"),
    "exempt": ("differs only in files that need no test", "good"),
    "mismatch": ("not the tested tree", "bad"),
    "unproved": ("not proved", "warn"),
}
"""The words and the tone for how a landed tree compares."""


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    found.filters |= {
        "ago": pass_context(_ago),
        "instant": instant,
        "capitalized": lambda words: words[:1].upper() + words[1:],
        "clock": pass_context(_clock),
        "coded": _coded,
        "duration": duration,
        "url": _quoted,
        "json": json.dumps,
    }
    found.globals |= {
        "version": __version__,
        "static": static_url,
        "monitor": monitor_numbers(),
        "login_url": login_url,
        "repository_url": repository_url,
        "queue_url": queue_url,
        "pull_url": pull_url,
        "shadow_url": shadow_url,
        "landings_url": landings_url,
        "results": _RESULTS,
        "checks_in": checks_in,
    }
    return found


def _finalized(value: object) -> object:
    # Macros return `Markup`, whose parts came here already.
    return visible(value) if type(value) is str else value


def visible(text: str) -> str:
    """Show each hidden character, and each that changes the direction of text, by its number, as code editors do."""
    return text if text.isascii() else text.translate(_HIDDEN)


def as_sentence(words: str) -> str:
    """Return an error's words, which begin in lower case, as a sentence of a page."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def monitor_numbers() -> dict[str, float | None]:
    """Return the numbers by which scripts poll, as `monitor.js` names them."""
    return {
        "intervalMs": MONITOR.base.total_seconds() * 1000,
        "multiplier": MONITOR.factor,
        "minMs": MONITOR.minimum.total_seconds() * 1000,
        "maxMs": MONITOR.maximum.total_seconds() * 1000,
        "jitter": MONITOR.jitter,
        "maxErrors": MONITOR.tries,
    }


def duration(value: timedelta | float) -> str:
    """Format a duration by its two largest units: 45 s, 12 min, 2 h 5 min, 3 d 1 h."""
    exactly = value.total_seconds() if isinstance(value, timedelta) else value
    seconds = round(exactly)
    if exactly > 0 and not seconds:
        return "under 1 s"
    return ("-" if seconds < 0 else "") + duration_text(timedelta(seconds=abs(seconds)))


def _ago(context: Context, value: datetime) -> str:
    """Format an instant by its distance from the page's `now`: 5 min ago, in 2 h, now."""
    seconds = (context["now"] - value).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def _clock(context: Context, value: datetime) -> str:
    """Format an instant as people read a clock: 15:42 today, Mon 08:00 within a week, else 4 Dec 08:00."""
    days = abs((value.date() - context["now"].date()).days)
    if days == 0:
        return f"{value:%H:%M}"
    return f"{value:%a %H:%M}" if days < _DAYS_NAMED else f"{value.day} {value:%b %H:%M}"


def _coded(text: str) -> object:
    """Show what stands between two backticks as code; a single one is text."""
    from markupsafe import Markup, escape

    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return text
    shown = (escape(visible(piece)) for piece in pieces)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(shown)
    )


def _quoted(value: object) -> str:
    """Quote one segment of a path, or one value of a query."""
    return quote(str(value), safe="")
