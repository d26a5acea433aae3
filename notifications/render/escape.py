"""Escape foreign text in GitHub's Markdown: names, GitHub's own messages, addresses, logins.

One mechanism carries it: everything that IMQ did not write itself stands in a code span, where GitHub renders no
markup and no HTML, notifies nobody and links no issue. (Only in a repository's own texts, where nobody knows what
stands around it, it is written in entities.) Links are built from addresses that were taken apart and
re-encoded; mentions only from logins that GitHub could have given out.
"""

import re
from urllib.parse import quote, unquote, urlsplit

NAME_LIMIT = 120
MESSAGE_LIMIT = 600
URL_LIMIT = 1_000

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?")
_REFERENCE_PATH = re.compile(r"/+[^/]+/+[^/]+/+(?:issues|pulls?|discussions)/+[0-9]+", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LOOKED_FOR = re.compile(r"(?<=[@#])|(?<=\bGH-)|(?<=\bwww)(?=\.)|(?<=:)(?=/)", re.IGNORECASE)
_URL_SAFE = "/:?#=&%+,~@"


def one_line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, without control, bidirectional and invisible characters."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def code(text: str, limit: int = NAME_LIMIT) -> str:
    """`text` as a code span that nothing inside it can leave.

    The fence is longer than any run of backticks inside (CommonMark 6.1). The opening of an HTML comment is broken
    up, because IMQ finds its own comment by looking for a hidden marker in the raw text.
    """
    line = one_line(text, limit).replace("<!--", "<! --") or "?"
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def inert(text: str, limit: int = NAME_LIMIT) -> str:
    """`text` so that it means itself wherever in Markdown it stands, even in a link or in a code span.

    Every character that could be markup is an entity: CommonMark (2.5) never takes one for markup. What GitHub looks
    for in the text afterwards (mentions, references, addresses) is parted by an invisible space.
    """
    line = one_line(text, limit) or "?"
    parted = _LOOKED_FOR.sub("\u200b", line)
    return _PUNCTUATION.sub(lambda found: f"&#{ord(found[0])};", parted)


def link(name: str, url: str | None) -> str:
    """`name` in a code span, linked to `url` where that is an address we are willing to show."""
    target = _safe_url(url)
    return f"[{code(name)}]({target})" if target else code(name)


def mention(login: str) -> str | None:
    """`@login`, or None when `login` cannot be a person's.

    Teams (`org/team`) do not match; nor do Apps (`name[bot]`), some of which take a mention for a command.
    """
    return f"@{login}" if _LOGIN.fullmatch(login) else None


def _safe_url(url: str | None) -> str | None:
    """`url` re-encoded for a Markdown link, or None: not http(s), hidden credentials, too long, or a reference.

    GitHub writes "mentioned this" on the other side of a link to an issue or a pull request, so those stay names.
    """
    if url is None or len(url) > URL_LIMIT or " " in url or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        return None
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", parts.netloc) or _REFERENCE_PATH.match(unquote(parts.path)):
        return None
    return quote(url, safe=_URL_SAFE)
