"""Whom and what a ruleset or a protection is about: patterns of branch names, and bypass lists.

Patterns are those of Ruby's `File.fnmatch` with `FNM_PATHNAME` (docs: "Creating rulesets for a repository"): `*` does
not match a slash, so all branches below a folder are `folder/**/*`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

from github_emulator.state import Actor, Repository, Ruleset

_PARTS = re.compile(r"\*\*/|\*|\?|\[!?[^\]]+\]|.", re.DOTALL)
_MEANS = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}


def applies(repository: Repository, ruleset: Ruleset, branch: str) -> bool:
    """Whether an active ruleset holds for this branch of this repository."""
    return (
        ruleset.enforcement == "active"
        and concerns(repository, ruleset)
        and any(_covers(repository, branch, pattern) for pattern in ruleset.branches)
        and not any(_covers(repository, branch, pattern) for pattern in ruleset.excluded)
    )


def matches(branch: str, pattern: str) -> bool:
    """Whether a branch's name matches a pattern."""
    return _compiled(pattern.removeprefix("refs/heads/")).fullmatch(branch) is not None


def bypass_mode(ruleset: Ruleset, actor: Actor) -> str | None:
    """How somebody may bypass a ruleset: always, pull_request or exempt; None for whom it binds."""
    names = [actor.user.login] + ([actor.app.slug] if actor.app is not None else [])
    return next((ruleset.bypass[name] for name in names if name in ruleset.bypass), None)


def is_named(actor: Actor, names: Sequence[str]) -> bool:
    """Whether a list of logins and app slugs names this actor."""
    return actor.user.login in names or (actor.app is not None and actor.app.slug in names)


def concerns(repository: Repository, ruleset: Ruleset) -> bool:
    """Whether a ruleset is this repository's own, or its organisation's and meant for it."""
    if ruleset.organisation is None:
        return True
    named = any(fnmatchcase(repository.name, pattern) for pattern in ruleset.repositories)
    return ruleset.organisation is repository.owner and named


def _covers(repository: Repository, branch: str, pattern: str) -> bool:
    if pattern == "~ALL":
        return True
    if pattern == "~DEFAULT_BRANCH":
        return branch == repository.default_branch
    return matches(branch, pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_part(part) for part in _PARTS.findall(pattern)))


def _part(part: str) -> str:
    if len(part) > 1 and part.startswith("["):
        return part.replace("[!", "[^", 1)
    return _MEANS.get(part, re.escape(part))
