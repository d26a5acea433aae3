"""CODEOWNERS: who must agree to which files.

Source: GitHub's page on code owners. The last matching line counts; a line without owners frees its files. An
owner is `@login` of a person, or `@organisation/team`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where GitHub looks, in this order; the first file found counts alone."""


@dataclass(frozen=True, slots=True)
class PathOwners:
    """One line: which paths, and the logins of who owns them."""

    paths: re.Pattern[str]
    owners: tuple[str, ...]


def read(text: str) -> list[PathOwners]:
    """The lines of a CODEOWNERS file that say something."""
    lines = []
    for raw in text.splitlines():
        pattern, *owners = raw.partition("#")[0].split() or [""]
        if pattern:
            lines.append(PathOwners(_paths(pattern), tuple(owner.removeprefix("@") for owner in owners)))
    return lines


def owners_of(lines: Iterable[PathOwners], path: str) -> tuple[str, ...]:
    """Return the owners of a file; none when no line matches."""
    owners: tuple[str, ...] = ()
    for line in lines:
        if line.paths.fullmatch(path):
            owners = line.owners
    return owners


def _paths(pattern: str) -> re.Pattern[str]:
    """A gitignore-like pattern: `*.js`, `/docs/`, `apps/`, `src/**/x.py`. A directory means all below it."""
    anchored = "/" in pattern.rstrip("/")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.lstrip("/").rstrip("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(words.get(part, re.escape(part)) for part in parts)
    # `docs/*` owns the files of that directory and none below; every other pattern owns what is below it too.
    below = "" if pattern.endswith("/*") else "/.*" if pattern.endswith("/") else "(?:/.*)?"
    return re.compile(f"{'' if anchored else '(?:.*/)?'}{body}{below}")
