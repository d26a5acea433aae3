"""Read IMQ's comment back as a person does: what happened, and why."""

import re
from collections.abc import Mapping

from notifications.render.comment import content
from notifications.render.escape import code
from notifications.render.failing_checks import WHERE_FAILED
from notifications.texts import headlines, reason_texts
from notifications.texts.reason_texts import NEW_COMMITS
from queue_engine.domain.notice import MARKER, NoticeKind
from queue_engine.domain.reasons import Reason

_LEFT = frozenset({NoticeKind.FAILED, NoticeKind.CANCELLED, NoticeKind.REFUSED})
FINAL = _LEFT | {NoticeKind.LANDED}
"""Kinds after which nothing happens to a pull request until a person acts."""

_OPENINGS: Mapping[str, NoticeKind] = {text.headline.partition("{")[0]: kind for kind, text in headlines.KINDS.items()}
_FILLED = (
    *reason_texts.CAUSED.items(),
    (Reason.HEAD_CHANGED, NEW_COMMITS),
    *((Reason.CHECKS_FAILED, each) for each in WHERE_FAILED),
)
"""Sentences in place of a reason's own, which name who or what caused it."""
_EMPHASIS = re.compile(r"\*\*|`+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def kind(body: str) -> NoticeKind | None:
    """Return the kind of notice in a comment; None for a comment that is not IMQ's."""
    if not body.startswith(MARKER):
        return None
    headline = content(body).strip().removeprefix("**")
    return next((found for opening, found in _OPENINGS.items() if headline.startswith(opening)), None)


def reason(body: str, base: str, label: str) -> Reason | None:
    """Return the reason that a comment gives; None without one."""
    filled = {
        found: text.sentence.format(base=code(base), label=code(label)) for found, text in reason_texts.REASONS.items()
    }
    forms = ((found, re.sub(r"\\{\w+\\}", ".*", re.escape(sentence))) for found, sentence in _FILLED)
    given = (found for found, sentence in filled.items() if sentence in body)
    return next(given, None) or next((found for found, form in forms if re.search(form, body)), None)


def why(body: str) -> str:
    """Return the explanation in one plain line: the sentence after the headline, and the named checks."""
    visible, _, _ = content(body).partition("<details>")
    paragraphs = [part.strip() for part in visible.strip().split("\n\n")]
    sentence = paragraphs[1] if len(paragraphs) > 1 else ""
    checks = [line.removeprefix("- ") for part in paragraphs for line in part.splitlines() if line.startswith("- ")]
    named = [_LINK.sub(r"\1", check).partition(" at ")[0] for check in checks]
    return _EMPHASIS.sub("", f"{sentence} ({'; '.join(named)})" if named else sentence)
