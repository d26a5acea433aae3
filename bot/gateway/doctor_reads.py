"""Read what `imq doctor` checks of a repository, with a bounded number of requests."""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.gateway.conversions import methods
from bot.gateway.http.client import Call, parse_answer, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.rules.branch_rules import RulesetBypass, push_refusals
from bot.gateway.rules.rule_schemas import (
    ListedRulesetAnswer,
    ProtectionAnswer,
    RuleAnswer,
    RulesetAnswer,
    RulesetScopeAnswer,
)
from bot.gateway.schemas import ContentAnswer, FileAnswer, RepositoryAnswer
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository

_MOST_RUNS = 300

MOST_RULESETS = 10
"""Rulesets that are read; each costs a request."""


class _SettingsAnswer(RepositoryAnswer):
    allow_auto_merge: bool | None = None


class _RulesetAnswer(ListedRulesetAnswer):
    name: str = ""
    source_type: str = "Repository"


class _HeadAnswer(ReadModel):
    sha: str


class _PullAnswer(ReadModel):
    number: int
    state: str
    merged_at: str | None = None
    head: _HeadAnswer


class _RunAnswer(ReadModel):
    name: str | None = None
    path: str | None = None
    head_sha: str
    run_started_at: datetime | None = None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """Settings of a repository."""

    default_branch: str
    auto_merge: bool
    methods: frozenset[MergeMethod]


@dataclass(frozen=True, slots=True)
class WorkflowTime:
    """How long a run of a workflow took, from its start to its end."""

    name: str
    commit: str
    took: timedelta


@dataclass(frozen=True, slots=True)
class PushRules:
    """What a push to a branch has to fulfil."""

    rules: tuple[tuple[int, str], ...] = ()
    """Each rule of a ruleset: the ruleset's id, and the rule's type."""
    classic: tuple[str, ...] = ()
    """What classic protection refuses to IMQ, as far as GitHub shows it."""


class DoctorReads:
    """Reads a repository. Raises the errors of `queue_engine.domain.errors`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def settings(self, repository: Repository) -> RepositorySettings:
        """Read `GET /repos/{owner}/{repo}`."""
        found = await self._connection.get(repository, _SettingsAnswer, "/repos/{owner}/{repo}")
        return RepositorySettings(found.default_branch, bool(found.allow_auto_merge), frozenset(methods(found)))

    async def rulesets(self, repository: Repository) -> tuple[RulesetBypass, ...]:
        """Read the active rulesets of branches, the organisation's too: a list, and each of the first ten."""
        template = "/repos/{owner}/{repo}/rulesets?includes_parents=true&per_page=100"
        try:
            listed = await self._connection.items(repository, _RulesetAnswer, template)
        except (NotFound, Forbidden):
            # Old servers, and private repositories on GitHub's free plan, have no rulesets.
            return ()
        active = [each for each in listed if (each.target, each.enforcement) == ("branch", "active")]
        return tuple([await self._ruleset(repository, each) for each in active[:MOST_RULESETS]])

    async def _ruleset(self, repository: Repository, listed: _RulesetAnswer) -> RulesetBypass:
        template = "/repos/{owner}/{repo}/rulesets/{ruleset_id}"
        try:
            answer = await self._connection.get(repository, RulesetAnswer, template, {"ruleset_id": str(listed.id)})
        except (NotFound, Forbidden):
            answer = RulesetAnswer()
        name = listed.name or answer.name
        organisation = listed.source_type == "Organization"
        branches = () if organisation or answer.conditions is None else _named(answer.conditions)
        return RulesetBypass(name, organisation, answer.current_user_can_bypass, listed.id, branches)

    async def push_rules(self, repository: Repository, branch: str, *, classic: bool) -> PushRules:
        """Read `GET /repos/{owner}/{repo}/rules/branches/{branch}`, and with `classic` the protection if it exists."""
        template = "/repos/{owner}/{repo}/rules/branches/{branch}?per_page=100"
        where = {"branch": branch}
        try:
            rules = await self._connection.items(repository, RuleAnswer, template, where)
        except (NotFound, Forbidden):
            rules = []
        found = tuple((rule.ruleset_id or 0, rule.type) for rule in rules)
        return PushRules(found, await self._classic(repository, where) if classic else ())

    async def _classic(self, repository: Repository, where: dict[str, str]) -> tuple[str, ...]:
        template = "/repos/{owner}/{repo}/branches/{branch}/protection"
        try:
            found = await self._connection.get(repository, ProtectionAnswer, template, where)
        except (NotFound, Forbidden):
            return ()
        return push_refusals(found, self._connection.app_id)

    async def push_runs(self, repository: Repository, branch: str, since: datetime) -> tuple[WorkflowTime, ...]:
        """Read `GET /repos/{owner}/{repo}/actions/runs`: the last 300 that pushes to a branch caused, newest first."""
        template = "/repos/{owner}/{repo}/actions/runs{?branch,event,status,created,per_page}"
        query = {"branch": branch, "event": "push", "status": "completed", "created": f">={since.date().isoformat()}"}
        call = Call("GET", template, {**query, "per_page": "100"})
        found = list[_RunAnswer]()
        try:
            async for page in self._connection.pages(repository, call, "next"):
                found += parse_list(_RunAnswer, page.data, "workflow_runs")
                if len(found) >= _MOST_RUNS:
                    break
        except (Forbidden, NotFound):
            return ()
        return tuple(
            WorkflowTime(each.name or each.path or "?", each.head_sha, each.updated_at - each.run_started_at)
            for each in found
            if each.run_started_at is not None
        )

    async def has_label(self, repository: Repository, name: str) -> bool:
        """Read `GET /repos/{owner}/{repo}/labels/{name}`."""
        try:
            await self._connection.call(repository, Call("GET", "/repos/{owner}/{repo}/labels/{name}", {"name": name}))
        except NotFound:
            return False
        return True

    async def recent_heads(self, repository: Repository, branch: str, most: int) -> list[tuple[str, bool]]:
        """Read the heads of the open and merged pull requests that changed last, each with whether it is merged."""
        template = "/repos/{owner}/{repo}/pulls{?state,base,sort,direction,per_page}"
        query = {"state": "all", "base": branch, "sort": "updated", "direction": "desc", "per_page": "30"}
        found = await self._connection.listed(repository, _PullAnswer, template, query)
        pulls = [each for each in found if each.state == "open" or each.merged_at]
        return [(each.head.sha, each.merged_at is not None) for each in pulls[:most]]

    async def files(self, repository: Repository, branch: str, wanted: Collection[str]) -> dict[str, str]:
        """Read those of these files that the root directory or `.github` has: two lists, and each file."""
        root = await self._tree(repository, branch)
        found = {each.path for each in root if each.type == "blob"}
        if (inner := next((each for each in root if each.path == ".github" and each.sha), None)) is not None:
            found |= {f".github/{each.path}" for each in await self._tree(repository, str(inner.sha))}
        return {path: await self._file(repository, branch, path) for path in wanted if path in found}

    async def _tree(self, repository: Repository, name: str) -> list[FileAnswer]:
        template = "/repos/{owner}/{repo}/git/trees/{tree_sha}"
        return await self._connection.listed(repository, FileAnswer, template, {"tree_sha": name}, key="tree")

    async def _file(self, repository: Repository, branch: str, path: str) -> str:
        template = "/repos/{owner}/{repo}/contents{/path*}?ref={ref}"
        call = Call("GET", template, {"path": path.split("/"), "ref": branch})
        page: Any = (await self._connection.call(repository, call)).data
        return base64.b64decode(parse_answer(ContentAnswer, page).content).decode(errors="replace")


def _named(conditions: Any) -> tuple[str, ...]:
    """Return the branches that a ruleset includes, if it has no pattern and no word such as `~ALL`."""
    included = parse_answer(RulesetScopeAnswer, conditions).ref_name.include
    names = [each.removeprefix("refs/heads/") for each in included]
    return () if any(each.startswith("~") or set("*?[") & set(each) for each in names) else tuple(names)
