"""Decide whether a ruleset keeps people from pushing to a branch. Pure functions.

Patterns of branches are those of Ruby's `File.fnmatch` with `FNM_PATHNAME` (docs: "Creating rulesets for a
repository"): `*` matches no slash, and only `**/` at the start of a part matches several parts of a name
(apache/texera #7123, NixOS/org #146). For other patterns, and where GitHub shows no conditions or rules, the answer is
None.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from bot.gateway.http.client import parse_answer, parse_list
from bot.gateway.rules import bypasses
from bot.gateway.rules.schemas import RuleAnswer, RulesetAnswer, RulesetScopeAnswer
from queue_engine.domain.errors import Unavailable

_HEADS = "refs/heads/"
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_SET = r"\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9._])+\]"
_UNDECIDED = re.compile(r"[\[\]{}\\]|[^/]\*\*|\*\*[^/]")
"""Other sets, escapes, alternatives, and `**` within a part."""
_PART = re.compile(rf"{_SET}|(?:\*\*/)+|\*+|\?|.", re.DOTALL)
_MAX_PATTERN = 300


def keeps_people_out(ruleset: RulesetAnswer, branch: str, default_branch: str) -> bool | None:
    """Whether this ruleset keeps people from pushing to the branch; None if only GitHub can tell."""
    try:
        rules = parse_list(RuleAnswer, ruleset.rules)
        conditions = parse_answer(RulesetScopeAnswer, ruleset.conditions).ref_name
    except Unavailable:
        return None
    if not bypasses.restricts_pushes(rules):
        return False
    return _covers(conditions.include, conditions.exclude, branch, default_branch)


def _covers(include: Collection[str], exclude: Collection[str], branch: str, default_branch: str) -> bool | None:
    included = {_matches(pattern, branch, default_branch) for pattern in include} or {None}
    excluded = {_matches(pattern, branch, default_branch) for pattern in exclude}
    if True in excluded or included == {False}:
        return False
    return True if True in included and None not in excluded else None


def _matches(pattern: str, branch: str, default_branch: str) -> bool | None:
    if pattern == "~ALL":
        return True
    if pattern == "~DEFAULT_BRANCH":
        return branch == default_branch if default_branch else None
    if not pattern.startswith(_HEADS) or len(pattern) > _MAX_PATTERN:
        return None
    names = pattern.removeprefix(_HEADS)
    if not branch.startswith(_SPECIAL.split(names, maxsplit=1)[0]):
        return False
    if _UNDECIDED.search(re.sub(_SET, "x", names)):
        return None
    try:
        return _compiled(names).fullmatch(branch) is not None
    except ValueError:
        return None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> Any:
    """Compile a pattern. Raises ValueError."""
    # Imported when used: few rulesets need it, and RE2 takes 2 MB.
    import re2

    try:
        return re2.compile("(?s)" + _PART.sub(_translated, pattern))
    except re2.error as error:
        raise ValueError(pattern) from error


def _translated(found: re.Match[str]) -> str:
    part = found[0]
    if len(part) > 1 and part.startswith("["):
        return part
    if part.startswith("*"):
        return "(?:[^/]+/)*" if part.endswith("/") else "[^/]*"
    return "[^/]" if part == "?" else re.escape(part)
