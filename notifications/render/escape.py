"""Escape foreign text in GitHub's Markdown, and format instants, durations, numbers and commits. Pure.

All foreign text is in a code span, where GitHub renders no markup and no HTML, notifies no one and links no issue.
(In a repository's own texts, whose surroundings are unknown, it is written in entities.) Links are built from URLs that
were parsed and re-encoded; mentions only from valid logins.
"""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote, urlsplit

from queue_engine.rules.check_progress import safe_link

NAME_LIMIT = 120
MESSAGE_LIMIT = 600

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?")
_REFERENCE_PATH = re.compile(r"/+[^/]+/+[^/]+/+(?:issues|pulls?|discussions)/+[0-9]+", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_AUTOLINKED = re.compile(r"(?<=[@#])|(?<=\bGH-)|(?<=\bwww)(?=\.)|(?<=:)(?=/)", re.IGNORECASE)
_URL_SAFE = "/:?#=&%+,~@"


def one_line(text: str, limit: int) -> str:
    """Shorten `text` to one line of at most `limit` characters, without control and invisible characters."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def code(text: str, limit: int = NAME_LIMIT) -> str:
    """Return `text` as a code span that nothing inside it can close.

    The fence is longer than any run of backticks inside (CommonMark 6.1). The opening of an HTML comment is broken
    up, because IMQ finds its own comment by a hidden marker in the raw text.
    """
    line = one_line(text, limit).replace("<!--", "<! --") or "?"
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def inert(text: str) -> str:
    """Escape `text` for any place in Markdown, even in a link or in a code span.

    Every character that could be markup is an entity: CommonMark (2.5) never takes one for markup. Mentions,
    references and URLs, which GitHub links in the rendered text, are broken up by an invisible space.
    """
    line = one_line(text, NAME_LIMIT) or "?"
    parted = _AUTOLINKED.sub("\u200b", line)
    return _PUNCTUATION.sub(lambda found: f"&#{ord(found[0])};", parted)


def link(name: str, url: str | None) -> str:
    """Return `name` in a code span, linked to `url` if that is safe."""
    target = _safe_url(url)
    return f"[{code(name)}]({target})" if target else code(name)


GHOST = "ghost"
"""The login in place of a deleted account (docs, "Deleting your personal account"; zulip/zulip #39469)."""


def mention(login: str) -> str | None:
    """Return `@login`, or None when `login` cannot be a person's.

    Teams (`org/team`) do not match; nor do Apps (`name[bot]`), some of which take a mention for a command. No one
    reads what mentions a deleted account.
    """
    return f"@{login}" if _LOGIN.fullmatch(login) and login != GHOST else None


def _safe_url(url: str | None) -> str | None:
    """Re-encode `url` for a Markdown link; None if unsafe, too long, or a reference, which GitHub would announce."""
    if (url := safe_link(url)) is None:
        return None
    parts = urlsplit(url)
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", parts.netloc) or _REFERENCE_PATH.match(unquote(parts.path)):
        return None
    return quote(url, safe=_URL_SAFE)


_SHA = re.compile(r"[0-9a-f]{40}")
_NAMES_SHOWN = 5


def commit(sha: str) -> str:
    """Format a commit: its full SHA, which GitHub shortens and links, or a code span if it is invalid."""
    return sha if _SHA.fullmatch(sha) else code(sha, 12)


def duration(length: timedelta) -> str:
    """Format a duration in its two largest units; seconds only below a minute."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    units = [(days, "d"), (hours, "h"), (minutes, "min")]
    while not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count)


def instant(at: datetime) -> str:
    """Format an instant to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def clock(at: datetime, read: datetime) -> str:
    """Format an instant for a text of the instant `read`: the time alone on the same day."""
    same_day = at.astimezone(UTC).date() == read.astimezone(UTC).date()
    return f"{at.astimezone(UTC):%H:%M} UTC" if same_day else instant(at)


def pull_request(number: int) -> str:
    """Format a pull request's number in a code span: a bare one would be a mention on its page."""
    return code(f"#{number}")


def pull_requests(numbers: Iterable[int]) -> str:
    """Format several numbers."""
    return ", ".join(map(pull_request, numbers))


def names(found: Collection[str]) -> str:
    """Format the first few names, and how many more there are."""
    shown = ", ".join(code(name) for name in list(found)[:_NAMES_SHOWN])
    more = len(found) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
