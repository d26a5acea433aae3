"""Match base branches by GitHub's wildcards and titles by RE2, in linear time for any input.

Wildcards, as in GitHub's branch filters: `*` matches any characters but a slash, `**` any at all, `?` one that is no
slash, `[a-z]` one of these, and any other character itself. RE2 matches in a time proportional to the text, and refuses
expressions that would need backtracking (lookaround, back references).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from queue_engine.config.document import quoted

LONGEST = 300
"""Characters of one pattern."""

_ANY_PATHS = ("a", "b.c", "d/e", "f/g/h.i")
"""Paths that have nothing in common: only wildcards for all files match each."""

_ANY = frozenset({"**/", "**", "*", "?", "/"})
"""Parts of a pattern that name nothing."""

_PART = re.compile(r"\*\*/?|\*|\?|\[(?P<not>[!^]?)(?P<set>[^\]/]+)\]|.", re.DOTALL)


def branch_matches(pattern: str, branch: str) -> bool:
    """Return whether the wildcards match the whole name of a branch, or the whole path of a file."""
    return _compiled(_wildcards(pattern)).fullmatch(branch) is not None


def is_specific(pattern: str) -> bool:
    """Return whether the pattern has a part that is no wildcard: `release/*`, but not `**` or `*/*`."""
    return any(found[0] not in _ANY and found["set"] is None for found in _PART.finditer(pattern))


def blocked_title(patterns: Iterable[str], title: str) -> str | None:
    """Find the first of these patterns that matches this title."""
    return next((pattern for pattern in patterns if _compiled(pattern).search(title)), None)


def title_pattern(pattern: str) -> str:
    """Check a pattern of RE2. Raises ValueError with RE2's message."""
    try:
        _compiled(pattern)
    except re2.error as error:
        words = error.args[0] if error.args else ""
        text = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
        raise ValueError(f"is not an RE2 expression: {quoted(text)}") from None
    return pattern


def branch_pattern(pattern: str) -> str:
    """Check a pattern of wildcards. Raises ValueError."""
    if pattern.startswith("!"):
        raise ValueError("cannot begin with !: add an earlier rule for the excluded branches")
    try:
        _compiled(_wildcards(pattern))
    except re2.error:
        raise ValueError(f"is not a pattern: {quoted(pattern)}") from None
    return pattern


def path_pattern(pattern: str) -> str:
    """Check wildcards for the paths of files. Raises ValueError if they match every path."""
    if pattern.startswith("!"):
        raise ValueError("cannot begin with !: name only the files that need no test")
    if pattern.startswith("/"):
        raise ValueError("cannot begin with /: paths begin at the top of the repository")
    if all(branch_matches(branch_pattern(pattern), path) for path in _ANY_PATHS):
        raise ValueError("matches every file, so that nothing would be tested on the newest base")
    return pattern


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options=options)


def _wildcards(pattern: str) -> str:
    return "(?s)" + _PART.sub(_translated, pattern)


def _translated(found: re.Match[str]) -> str:
    part = found[0]
    if found["set"]:
        inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", found["set"])
        return f"[{'^/' if found['not'] else ''}{inside}]"
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return fixed.get(part) or re2.escape(part)
