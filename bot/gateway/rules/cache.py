"""Cache the requirements of protection and rulesets for two hours.

Each process reads them itself, in two requests for each branch and one for each ruleset with requirements. After any
process received a change, every process reads them again (`Queue.generation`), before the next action.

Patterns of branches are those of Ruby's `File.fnmatch` with `FNM_PATHNAME` (docs: "Creating rulesets for a
repository"): `*` matches no slash, and only `**/` at the start of a part matches several parts of a name
(apache/texera #7123, NixOS/org #146). For other patterns, and where GitHub shows no conditions or rules, the answer is
None.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from cachetools import TTLCache
from pydantic import BaseModel

from bot.gateway.http.client import parse_answer, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.rules.branch_rules import branch_rules, matters, restricts_pushes
from bot.gateway.rules.rule_schemas import (
    BranchAnswer,
    ListedRulesetAnswer,
    ProtectionAnswer,
    RuleAnswer,
    RulesetAnswer,
    RulesetScopeAnswer,
)
from queue_engine.domain.errors import Forbidden, NotFound, Unavailable
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import Repository

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
    if not restricts_pushes(rules):
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


M = TypeVar("M", bound=BaseModel)

_CACHED_FOR = timedelta(hours=2)
"""The bound on the effect of a lost webhook."""
_ONE_ADMISSION = timedelta(minutes=1)
"""An admission reads the rulesets for the head branch and for the base branch."""
_KEPT = timedelta(seconds=5)
"""How long rules are kept of which a read may lag."""
_MAX_BRANCHES = 10_000
_NOT_BYPASSABLE = (None, "never")
"""GitHub's values for a ruleset that IMQ is not known to bypass."""
_PUSHES_PAST = frozenset({"always", "exempt"})
_PLAN_GATE = "upgrade to github"


class BranchRulesCache:
    """Reads rules and caches them until they expire or a webhook reports a change."""

    def __init__(self, connection: Connection) -> None:
        self._connection, clock = connection, connection.clock
        self._own_app_id = connection.app_id
        self._cache: TTLCache[tuple[int, str], BranchRules] = TTLCache(
            _MAX_BRANCHES, ttl=_CACHED_FOR.total_seconds(), timer=lambda: clock.now().timestamp()
        )
        self._bypassed: TTLCache[int, dict[int, RulesetAnswer]] = TTLCache(
            _MAX_BRANCHES, ttl=_CACHED_FOR.total_seconds(), timer=lambda: clock.now().timestamp()
        )
        """By repository, the rulesets past which IMQ may push, by id."""
        self._outdated: TTLCache[tuple[int, str], bool] = TTLCache(
            _MAX_BRANCHES, ttl=_CACHED_FOR.total_seconds(), timer=lambda: clock.now().timestamp()
        )
        """Whether rulesets of a branch refuse outdated heads to IMQ."""
        self._read_now: TTLCache[tuple[int, int], RulesetAnswer] = TTLCache(
            _MAX_BRANCHES, ttl=_ONE_ADMISSION.total_seconds(), timer=lambda: clock.now().timestamp()
        )
        """The rulesets that were just read, by repository and id."""
        self._oldest: dict[int, datetime] = {}
        """By repository, when the oldest of its remembered rules were read."""
        self._expires: dict[int, datetime] = {}
        """By repository, when its remembered rules are dropped, if that is soon."""
        self._invalidations: Counter[int] = Counter()
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
        """One lock per branch, so that concurrent callers share one read."""

    async def read(self, repository: Repository, branch: str) -> BranchRules:
        """Return the rules of a branch. Raises NotFound when it does not exist."""
        key = repository.id, branch
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self.cached(repository, branch)
            return known if known is not None else await self._fetch(repository, branch)

    def cached(self, repository: Repository, branch: str) -> BranchRules | None:
        """Return the cached rules of a branch; None if `read` would read them."""
        self._drop_expired(repository.id)
        known: BranchRules | None = self._cache.get((repository.id, branch))
        return known

    async def _fetch(self, repository: Repository, branch: str) -> BranchRules:
        key, begun = (repository.id, branch), self._connection.clock.now()
        forgotten = self._invalidations[repository.id]
        protection = await self._protection(repository, branch)
        rulesets = await self._rulesets(repository, branch)
        ids = {rule.ruleset_id for rule in rulesets if rule.ruleset_id is not None and matters(rule)}
        answers = {number: await self._ruleset(repository, number) for number in sorted(ids)}
        can = {number: answer.current_user_can_bypass for number, answer in answers.items()}
        bypassed = {
            number: answers[number].name or f"ruleset {number}" for number in can if can[number] not in _NOT_BYPASSABLE
        }
        undisclosed = frozenset(number for number in can if can[number] is None)
        rules = branch_rules(
            protection, rulesets, own_app_id=self._own_app_id, bypassed=bypassed, undisclosed=undisclosed
        )
        if forgotten == self._invalidations[repository.id]:
            # Otherwise the rules changed while they were read, so they are not cached.
            self._cache[key] = rules
            self._oldest.setdefault(repository.id, begun)
        return rules

    async def refuses_outdated(self, repository: Repository, branch: str) -> bool:
        """Whether rules that IMQ may not bypass refuse the merge of a head without the tip of this branch."""
        demanding = (await self.read(repository, branch)).up_to_date_by
        if not demanding or 0 in demanding:
            return bool(demanding)
        key, forgotten = (repository.id, branch), self._invalidations[repository.id]
        if key not in self._outdated:
            answers = [await self._ruleset(repository, number) for number in sorted(demanding)]
            refuses = any(answer.current_user_can_bypass in _NOT_BYPASSABLE for answer in answers)
            if forgotten != self._invalidations[repository.id]:
                return refuses
            self._outdated[key] = refuses
        return bool(self._outdated[key])

    async def is_guarded(self, repository: Repository, branch: str, default_branch: str) -> bool:
        """Whether rulesets keep others from pushing to this branch, but not IMQ.

        That costs no request, unless IMQ cannot tell whether a ruleset past which it may push applies to the branch.
        Classic protection is not looked at: who may push past it is shown to administrators only.
        """
        self._drop_expired(repository.id)
        async with self._locks.setdefault((repository.id, ""), asyncio.Lock()):
            bypassed = await self._pushes_past(repository)
        found = {number: keeps_people_out(each, branch, default_branch) for number, each in bypassed.items()}
        if True in found.values() or None not in found.values():
            return True in found.values()
        rules = await self._rulesets(repository, branch)
        return restricts_pushes(rule for rule in rules if rule.ruleset_id in found)

    async def _pushes_past(self, repository: Repository) -> dict[int, RulesetAnswer]:
        known: dict[int, RulesetAnswer] | None = self._bypassed.get(repository.id)
        if known is not None:
            return known
        forgotten, begun = self._invalidations[repository.id], self._connection.clock.now()
        bypassed = await self._read_bypassed(repository)
        if forgotten == self._invalidations[repository.id]:
            self._bypassed[repository.id] = bypassed
            self._oldest.setdefault(repository.id, begun)
        return bypassed

    async def _read_bypassed(self, repository: Repository) -> dict[int, RulesetAnswer]:
        """The active rulesets of branches past which IMQ may push: "pull_requests_only" lets it merge alone."""
        template = "/repos/{owner}/{repo}/rulesets?includes_parents=true&per_page=100"
        listed = await self._listed(repository, ListedRulesetAnswer, template, {})
        ids = [each.id for each in listed if (each.target, each.enforcement) == ("branch", "active")]
        answers = {number: await self._ruleset(repository, number) for number in ids}
        return {number: answers[number] for number in ids if answers[number].current_user_can_bypass in _PUSHES_PAST}

    def expire(self, repository_id: int) -> None:
        """Drop the cached rules of this repository some seconds after they were read; at once if that is past."""
        if (oldest := self._oldest.get(repository_id)) is not None:
            self._expires[repository_id] = oldest + _KEPT
        self._drop_expired(repository_id)

    def _drop_expired(self, repository_id: int) -> None:
        expires = self._expires.get(repository_id)
        if expires is not None and self._connection.clock.now() >= expires:
            self.forget(repository_id)

    def forget(self, repository_id: int) -> None:
        self._invalidations[repository_id] += 1
        self._oldest.pop(repository_id, None)
        self._expires.pop(repository_id, None)
        self._bypassed.pop(repository_id, None)
        for key in [key for key in (*self._cache, *self._outdated) if key[0] == repository_id]:
            self._cache.pop(key, None)
            self._outdated.pop(key, None)
        for read in [read for read in self._read_now if read[0] == repository_id]:
            self._read_now.pop(read, None)

    async def _protection(self, repository: Repository, branch: str) -> ProtectionAnswer | None:
        """Read the protection in full if there is any and the App may; else its summary in the branch.

        Only the branch itself says reliably that it is not protected: GitHub documents no answer for branches that
        are protected by a pattern, and none for plans and servers without protection.
        """
        template, where = "/repos/{owner}/{repo}/branches/{branch}", {"branch": branch}
        try:
            return await self._connection.get(repository, ProtectionAnswer, f"{template}/protection", where)
        except (NotFound, Forbidden):
            return (await self._connection.get(repository, BranchAnswer, template, where)).protection

    async def _rulesets(self, repository: Repository, branch: str) -> list[RuleAnswer]:
        template = "/repos/{owner}/{repo}/rules/branches/{branch}?per_page=100"
        return await self._listed(repository, RuleAnswer, template, {"branch": branch})

    async def _listed(
        self, repository: Repository, model: type[M], template: str, variables: dict[str, str]
    ) -> list[M]:
        try:
            return await self._connection.items(repository, model, template, variables)
        except NotFound:
            # Enterprise Server before 3.11 has no rulesets; that the branch exists was seen just before.
            return []
        except Forbidden as error:
            # Private repositories on GitHub's free plan have no rulesets, and GitHub says so with a 403.
            if _PLAN_GATE in error.message.lower():
                return []
            raise

    async def _ruleset(self, repository: Repository, ruleset: int) -> RulesetAnswer:
        """Return a ruleset that was just read, or read it; return an empty answer if IMQ may not."""
        key, forgotten = (repository.id, ruleset), self._invalidations[repository.id]
        known: RulesetAnswer | None = self._read_now.get(key)
        if known is not None:
            return known
        answer = await self._read_ruleset(repository, ruleset)
        if forgotten == self._invalidations[repository.id]:
            self._read_now[key] = answer
        return answer

    async def _read_ruleset(self, repository: Repository, ruleset: int) -> RulesetAnswer:
        template = "/repos/{owner}/{repo}/rulesets/{ruleset_id}"
        try:
            return await self._connection.get(repository, RulesetAnswer, template, {"ruleset_id": str(ruleset)})
        except (NotFound, Forbidden):
            return RulesetAnswer()
