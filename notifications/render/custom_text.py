"""Render a repository's own text instead of IMQ's headline. Pure.

The text is Markdown by the maintainers, with emphasis, lists and links. The renderer breaks up HTML (such as IMQ's
hidden marker), code fences, mentions and references to other issues. Values that it fills in are escaped.
"""

import re

from notifications.render.escape import inert
from queue_engine.config.merge_commit import filled

LIMIT = 1_000

_FENCE = re.compile(r"`{3,}|~{3,}")
_APART = re.compile(r"(?<=[<@])|(?<=#)(?=[\d{])|(?<=\bGH-)(?=[\d{])", re.IGNORECASE)
_INVISIBLE = "\u200b"


def custom_text(template: str, *, base: str, label: str, position: int | None = None) -> str:
    """Fill in base branch, trigger label and position, which counts from one.

    Without a position, as after an outcome, there is a dash.
    """
    lines = [
        _APART.sub(_INVISIBLE, _FENCE.sub("", "".join(c if c.isprintable() else " " for c in line))).rstrip()
        for line in template[:LIMIT].splitlines()
    ]
    values = {
        "base": inert(base),
        "label": inert(label),
        "position": "-" if position is None else str(position),
    }
    return filled("\n".join(lines).strip("\n"), values)
