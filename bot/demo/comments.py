"""Read IMQ's comment back as a person does: what happened, and why."""

import re
from collections.abc import Mapping

from notifications import texts
from notifications.render.comment import MARKER, content
from notifications.render.escape import code
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason

_LEFT = frozenset({NoticeKind.FAILED, NoticeKind.CANCELLED, NoticeKind.REFUSED})
FINAL = _LEFT | {NoticeKind.LANDED}
"""After these nothing more happens to a pull request until somebody acts."""

_OPENINGS: Mapping[str, NoticeKind] = {text.headline.partition("{")[0]: kind for kind, text in texts.KINDS.items()}
_EMPHASIS = re.compile(r"\*\*|`+")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def kind(body: str) -> NoticeKind | None:
    """What the comment says of the pull request; None if it is none of IMQ's."""
    if not body.startswith(MARKER):
        return None
    headline = content(body).strip().removeprefix("**")
    return next((found for opening, found in _OPENINGS.items() if headline.startswith(opening)), None)


def reason(body: str, base: str, label: str) -> Reason | None:
    """The reason that the comment gives; None if it gives none."""
    filled = {found: text.sentence.format(base=code(base), label=code(label)) for found, text in texts.REASONS.items()}
    return next((found for found, sentence in filled.items() if sentence in body), None)


def why(body: str) -> str:
    """The explanation in one plain line: the sentence after the headline, and the checks that it names."""
    told, _, _ = content(body).partition("<details>")
    paragraphs = [part.strip() for part in told.strip().split("\n\n")]
    sentence = paragraphs[1] if len(paragraphs) > 1 else ""
    checks = [line.removeprefix("- ") for part in paragraphs for line in part.splitlines() if line.startswith("- ")]
    named = [_LINK.sub(r"\1", check).partition(" at ")[0] for check in checks]
    return _EMPHASIS.sub("", f"{sentence} ({'; '.join(named)})" if named else sentence)
