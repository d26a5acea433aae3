"""Match the filter patterns of workflow files: branches, tags and paths.

`*` matches no slash, `**` anything; `?` and `+` repeat the character before them, `[]` is one of a set, and a backslash
escapes (docs: "Filter pattern cheat sheet"; nektos/act, workflowpattern). A later pattern overrules, `!` excludes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\+|\[[A-Za-z0-9-]+\]|\\.|.", re.DOTALL)
_SPECIAL = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
LONGEST = 250
"""Longer patterns, or ones with many repetitions, are not read: matching them could take long."""
_MOST_REPETITIONS = 8


def matches(text: str, patterns: Sequence[str]) -> bool | None:
    """Whether the patterns take this text in; None if one of them cannot be read."""
    taken = False
    for pattern in patterns:
        compiled = _compiled(pattern.removeprefix("!"))
        if compiled is None:
            return None
        if compiled.fullmatch(text):
            taken = not pattern.startswith("!")
    return taken


def ignored(text: str, patterns: Sequence[str]) -> bool | None:
    """Whether one of the patterns to ignore matches; None if one of them cannot be read, or excludes."""
    if any(pattern.startswith("!") for pattern in patterns):
        return None
    return matches(text, patterns)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    tokens = _TOKEN.findall(pattern)
    if len(pattern) > LONGEST or sum(each in {"**/", "**", "*", "?", "+"} for each in tokens) > _MOST_REPETITIONS:
        return None
    parts: list[str] = []
    for each in tokens:
        if each in {"?", "+"} and parts and parts[-1][-1:] not in {"*", "?", "+"}:
            parts.append(each)
        elif each in {"?", "+", "[", "\\"}:
            return None
        elif each.startswith("["):
            parts.append(each)
        else:
            parts.append(_SPECIAL.get(each) or re.escape(each.removeprefix("\\")))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        return None
