"""Render a repository's own text in place of IMQ's, confined to its own lines. Pure.

They are Markdown of its maintainers, and may be emphasised, listed and linked. What could reach beyond them or call
people is taken apart: HTML (so also a comment like IMQ's hidden marker), fences of code, mentions, references to other
issues. What is filled in is foreign, and is written so that it means nothing wherever it stands.
"""

import re

from notifications.render.escape import NAME_LIMIT, inert
from queue_engine.config.merge_commit import filled

LIMIT = 1_000

_FENCE = re.compile(r"`{3,}|~{3,}")
_APART = re.compile(r"(?<=[<@])|(?<=#)(?=[\d{])|(?<=\bGH-)(?=[\d{])", re.IGNORECASE)
_INVISIBLE = "\u200b"


def custom_text(template: str, *, base: str, label: str, position: int | None = None) -> str:
    """The paragraphs that the template makes for this base branch, trigger label, and position, counted from one.

    Without a position, as after it left its queue, a dash stands for it.
    """
    lines = [
        _APART.sub(_INVISIBLE, _FENCE.sub("", "".join(c if c.isprintable() else " " for c in line))).rstrip()
        for line in template[:LIMIT].splitlines()
    ]
    values = {
        "base": inert(base, NAME_LIMIT),
        "label": inert(label, NAME_LIMIT),
        "position": "-" if position is None else str(position),
    }
    return filled("\n".join(lines).strip("\n"), values)
