"""Messages for incoming webhooks of Slack: Block Kit, and a text for notifications.

Texts of others are in code spans, in which Slack reads no markup. `&`, `<` and `>` are entities everywhere. So no title
mentions a person or a channel, or hides a link (docs.slack.dev, "Formatting message text", and slack-blocks on
docs.rs). Slack documents no escape for a backtick: another character replaces it.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from notifications.render.escape import one_line
from notifications.sinks.message_text import Site, headline, link, next_step, queue_link, sentence
from notifications.sinks.sink import Message
from queue_engine.domain.facts import FailingCheck
from queue_engine.rules.check_progress import safe_link

_TITLE = 200
_NAME = 100
_DETAIL = 500
_MOST_TEXT = 2900
"""Characters of a section; Slack takes 3000."""
_MOST_CHECKS = 10
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_NO_BACKTICK = str.maketrans({"`": "\u02cb"})
_SEPARATORS = "/:?#=&%+,~@"


def slack_payload(message: Message, site: Site) -> bytes:
    """Return the body that Slack gets."""
    lines = list(_fitting(_lines(message, site)))
    blocks: list[dict[str, Any]] = [_section("\n".join(lines))]
    if links := list(_links(message, site)):
        blocks.append({"type": "context", "elements": [_markdown(" · ".join(links))]})
    content = {"text": _fallback(message), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def escaped(text: str) -> str:
    """Escape IMQ's own text, whose code spans and line breaks stay."""
    return text.translate(_ENTITIES)


def code(text: str, limit: int = _NAME) -> str:
    """Return text of others as a code span that nothing inside it can close."""
    line = one_line(text.translate(_NO_BACKTICK), limit) or "?"
    return f"`{line.translate(_ENTITIES)}`"


def _fallback(message: Message) -> str:
    """Return the text for notifications and screen readers."""
    where = f"{message.repository or ''}{'' if message.number is None else f'#{message.number}'}"
    return ": ".join(filter(None, (escaped(where), headline(message, _base(message)))))


def _lines(message: Message, site: Site) -> Iterator[str]:
    base = _base(message)
    yield headline(message, base)
    if message.number is not None:
        title = f" {code(message.title, _TITLE)}" if message.title else ""
        by = f" by {code(message.author)}" if message.author else ""
        yield f"{_anchor(f'#{message.number}', link(message, site))}{title}{by}"
    if happened := sentence(message, base):
        yield happened + (f" By {code(message.by)}." if message.by else "")
    if message.detail:
        yield code(message.detail, _DETAIL)
    yield from map(_failing, message.failing[:_MOST_CHECKS])
    if (step := next_step(message, base)) is not None:
        yield f"_Next, for the {message.whose_move}:_ {step}"


def _fitting(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines that fit in one section; a line is never cut, as that might leave half an entity."""
    room = _MOST_TEXT
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def _failing(check: FailingCheck) -> str:
    jobs = "".join(f", {code(job)}" for job in check.jobs[:_MOST_CHECKS])
    logs = _anchor("logs", check.url)
    return f"• {code(check.check)}{jobs}{f' ({logs})' if logs != 'logs' else ''}"


def _links(message: Message, site: Site) -> Iterator[str]:
    if message.repository is not None:
        yield _anchor(escaped(message.repository), link(message, site))
    if (queue := queue_link(message, site)) is not None:
        yield _anchor("Queue", queue)


def _anchor(name: str, url: str | None) -> str:
    """Return a link, or the name alone if the address is not one of a web page."""
    if (url := safe_link(url)) is None:
        return name
    return f"<{quote(url, safe=_SEPARATORS).translate(_ENTITIES)}|{name}>"


def _base(message: Message) -> str:
    return code(message.base_branch) if message.base_branch else "the base branch"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _markdown(text)}


def _markdown(text: str) -> dict[str, Any]:
    """Return a text object; `verbatim` keeps Slack from linking addresses and channels that a text names."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}
