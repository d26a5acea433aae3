"""Read the facts of a repository, each part by itself: GitHub may show some of them only."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from bot.doctor.facts import HeadChecks, RepositoryFacts, TrainFacts
from bot.gateway.doctor_reads import PushRules
from bot.gateway.gateway import Gateway
from bot.gateway.people import with_teams
from queue_engine.config.document import ConfigError, Problem, parse
from queue_engine.config.file import policy_for
from queue_engine.config.model import Policy
from queue_engine.config.parse import read
from queue_engine.domain.errors import GitHubError, Invalid, NotFound
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import Repository
from queue_engine.executor.triggers import choice_at
from queue_engine.rules.checks import run_checks
from queue_engine.rules.new_heads import made_by
from queue_engine.workflows.event_context import CandidateContext

T = TypeVar("T")

_MOST_HEADS = 6
"""Pull requests whose checks are read, of each repository."""

_RENOVATE = tuple(
    f"{name}{ending}"
    for name, endings in {
        "renovate": (".json", ".jsonc", ".json5"),
        ".github/renovate": (".json", ".jsonc", ".json5"),
        ".renovaterc": ("", ".json", ".jsonc", ".json5"),
    }.items()
    for ending in endings
)
"""The files of Renovate in the order in which it looks for them (its `lib/config/app-strings`)."""
_COMMENT = re.compile(r"(^|[\s,{}\[\]])(?://[^\n]*|/\*.*?\*/)", re.DOTALL)
"""A comment of JSON5, which stands neither within a word nor right after a colon, as in an address."""
_DEPENDABOT = (".github/dependabot.yml", ".github/dependabot.yaml")


class RepositoryReads:
    """Reads repositories. `policy` is the operator's."""

    def __init__(self, gateway: Gateway, policy: Policy) -> None:
        self._gateway = gateway
        self._policy = policy

    async def read(self, repository: Repository) -> RepositoryFacts:
        """Read all parts that GitHub shows; `unread` names the others."""
        reads, unread = self._gateway.doctor, list[str]()

        async def read_part(part: str, awaited: Awaitable[T], default: T) -> T:
            try:
                return await awaited
            except GitHubError as error:
                unread.append(f"{part}: {error.message}")
                return default

        try:
            settings = await reads.settings(repository)
        except GitHubError as error:
            return RepositoryFacts(repository, "", self._policy, unread=(f"its settings: {error.message}",))
        branch = settings.default_branch
        if await read_part(f"the branch {branch}", self._is_empty(repository, branch), False):
            return RepositoryFacts(repository, branch, self._policy, auto_merge=settings.auto_merge)
        own = (self._policy, None)
        policy, config_error = await read_part(".github/imq.yml", self._configured(repository, branch), own)
        labeled = await read_part("its labels", reads.has_label(repository, policy.trigger_label), True)
        startable = await read_part("its labels", self._starts_queue_only(repository, policy), True)
        rules = await read_part(f"the rules of {branch}", self._rules(repository, branch), None)
        rulesets = await read_part("its rulesets", reads.rulesets(repository), ())
        heads = await read_part("its checks", self._heads(repository, branch), ())
        files = await read_part("its files", reads.files(repository, branch, (*_RENOVATE, *_DEPENDABOT)), {})
        trains = await read_part("what decides about trains", self._trains(repository, branch, rules, policy), None)
        return RepositoryFacts(
            repository,
            branch,
            policy,
            config_error=config_error,
            auto_merge=settings.auto_merge,
            label_missing=not labeled,
            testing_label_missing=not startable,
            methods=settings.methods,
            rules=rules,
            rulesets=rulesets,
            heads=heads,
            renovate=next(((path, content) for path in _RENOVATE if (content := _mapping(files.get(path)))), None),
            dependabot=next((found for path in _DEPENDABOT if (found := _mapping(files.get(path)))), None),
            trains=trains,
            unread=tuple(unread),
        )

    async def _trains(
        self, repository: Repository, branch: str, rules: BranchRules | None, policy: Policy
    ) -> TrainFacts | None:
        return None if rules is None else await read_trains(self._gateway, repository, branch, rules, policy)

    async def _starts_queue_only(self, repository: Repository, policy: Policy) -> bool:
        """Whether the repository has the label that starts its queue-only checks, or has no such checks."""
        return not policy.checks.queue_only or await self._gateway.doctor.has_label(
            repository, policy.checks.testing_label
        )

    async def _configured(self, repository: Repository, branch: str) -> tuple[Policy, ConfigError | None]:
        try:
            text = await self._gateway.configuration(repository, branch)
            if text is None:
                return self._policy, None
            policy = policy_for(await asyncio.to_thread(read, text, self._policy), self._policy, branch)
            file = f".github/imq.yml of {branch}"
            return await with_teams(policy, repository, self._gateway.teams.team, file=file), None
        except Invalid as error:
            return self._policy, ConfigError([Problem(1, "", error.message)])
        except ConfigError as error:
            return self._policy, error

    async def _is_empty(self, repository: Repository, branch: str) -> bool:
        """Whether the repository has no commit yet."""
        return await self._gateway.branch_tip(repository, branch) is None

    async def _rules(self, repository: Repository, branch: str) -> BranchRules | None:
        return await self._gateway.branch_rules(repository, branch)

    async def _heads(self, repository: Repository, branch: str) -> tuple[HeadChecks, ...]:
        heads: list[HeadChecks] = []
        for sha, merged in await self._gateway.doctor.recent_heads(repository, branch, _MOST_HEADS):
            reports = await self._gateway.check_reports(repository, sha, ())
            heads.append(HeadChecks(merged, frozenset((each.name, each.app_id) for each in reports)))
        return tuple(heads)


def _mapping(text: str | None) -> dict[str, Any]:
    """Parse YAML, or JSON with comments, which YAML contains without them; empty if it is neither, or no mapping."""
    if text is None:
        return {}
    if text.lstrip()[:1] in ("{", "/"):
        # YAML takes no tab for indentation, and has other comments.
        text = _COMMENT.sub(r"\1", text.replace("\t", " "))
    try:
        value = parse(text).value
    except ConfigError:
        return {}
    return value if isinstance(value, dict) else {}


_MOST_BRANCHES = 20


async def read_trains(
    gateway: Gateway, repository: Repository, branch: str, rules: BranchRules, policy: Policy
) -> TrainFacts | None:
    """Read with seven requests, and one for each branch of a train; None without trains.

    `branch` is the default branch.
    """
    if not policy.trains.enabled:
        return None
    tip = await gateway.branch_tip(repository, branch)
    if tip is None:
        raise NotFound(f"no branch {branch}")
    published, built = f"imq/{branch}/0", f"imq-build/{branch}/0"
    candidate = CandidateContext(repository.full_name, branch, published, default_branch=branch)
    required = run_checks(rules, policy)
    choice = await choice_at(gateway, repository, tip.sha, required, candidate, policy.trains.candidates)
    both = [await gateway.doctor.push_rules(repository, each, classic=False) for each in (published, built)]
    return TrainFacts(
        choice=choice,
        candidates=PushRules(tuple(dict.fromkeys(rule for each in both for rule in each.rules))),
        base=await gateway.doctor.push_rules(repository, branch, classic=True),
        unproved=tuple([branch async for branch in _unproved(gateway, repository)]),
    )


async def _unproved(gateway: Gateway, repository: Repository) -> AsyncIterator[str]:
    for branch, tip in list((await gateway.candidate_branches(repository)).items())[:_MOST_BRANCHES]:
        if not made_by(await gateway.own_login(), await gateway.branch_pushes(repository, branch), tip):
            yield branch
