"""Facts that the checks judge: plain data, read once."""

import asyncio
import re
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from bot.doctor.base_runs import PERIOD, BaseRuns
from bot.gateway.doctor_reads import PushRules
from bot.gateway.gateway import Gateway
from bot.gateway.people import with_teams
from bot.gateway.rules.branch_rules import RulesetBypass
from bot.gateway.schemas import AppAnswer, InstallationAnswer, WebhookAnswer
from bot.settings.environment import HostSettings, unknown_variables
from notifications.sinks.sender import DISABLED
from notifications.sinks.sink import SINK_JOBS, Sink
from queue_engine.config.document import ConfigError, Problem, parse
from queue_engine.config.file import policy_for
from queue_engine.config.model import Policy
from queue_engine.config.parse import read
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.domain.errors import GitHubError, Invalid, NotFound
from queue_engine.domain.facts import BranchRules, Delivery, MergeMethod
from queue_engine.domain.landing_record import LandingRecord, is_proved
from queue_engine.domain.model import Repository
from queue_engine.executor.triggers import choice_at
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.rules.checks import run_checks
from queue_engine.rules.consent import made_by
from queue_engine.store import Store
from queue_engine.workflows.event_context import CandidateContext
from queue_engine.workflows.job_checks import filtered_checks, merge_group_jobs
from queue_engine.workflows.trigger_choice import TriggerChoice
from queue_engine.workflows.workflow_file import read_workflows


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The settings, the database and its disk."""

    unknown_settings: tuple[str, ...] = ()
    database_fault: str | None = None
    """Why the database cannot be used, in a sentence."""
    migrated: bool = True
    disk_free: int | None = None
    """Bytes of SQLite's file system that are free; None for other databases."""
    missing_for_login: tuple[str, ...] = ()
    """Settings that a login at the pages needs, where the pages have an address."""
    sinks: tuple[Sink, ...] = ()
    sinks_gone: frozenset[str] = frozenset()
    """Names of sinks whose receiver is gone, as their dead letters say."""
    sinks_failing: frozenset[str] = frozenset()
    """Names of sinks with other dead letters."""
    landings: Mapping[tuple[int, str], Sequence[LandingRecord]] = field(default_factory=dict)
    """The landings of the last week, by repository and base branch."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    """The App, as GitHub has it."""

    refusal: str | None = None
    """GitHub's answer, if it does not accept the credentials."""
    outage: str | None = None
    """Why GitHub did not answer."""
    clock_ahead: timedelta | None = None
    """How far this machine's clock is ahead of GitHub's."""
    server: str | None = None
    """The version, if GitHub is Enterprise Server."""
    app: AppAnswer | None = None
    installations: tuple[InstallationAnswer, ...] = ()
    webhook: WebhookAnswer | None = None
    public_url: str | None = None
    relay_url: str | None = None
    deliveries: tuple[Delivery, ...] = ()
    """The last page of attempts, newest first."""
    delivered_to: str | None = None
    """The address of the newest one; None if GitHub does not say."""
    reached: bool = False
    """Whether a call to the webhook address reached this IMQ just now."""
    budgets: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By account, the requests left and the limit of the hour."""


@dataclass(frozen=True, slots=True)
class HeadChecks:
    """The names of all checks that reported on a head, each with the App that reported it."""

    merged: bool
    reported: frozenset[tuple[str, int | None]]


@dataclass(frozen=True, slots=True)
class TrainFacts:
    """What decides whether trains run on a base branch."""

    choice: TriggerChoice
    candidates: PushRules
    """Of the branches on which IMQ builds and publishes candidates."""
    base: PushRules
    unproved: tuple[str, ...] = ()
    """Branches with names as IMQ gives them, of which GitHub does not show that IMQ alone made them."""


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository and the rules of its default branch."""

    repository: Repository
    branch: str
    policy: Policy
    config_error: ConfigError | None = None
    misnamed: tuple[str, ...] = ()
    """Configuration files with a name under which IMQ reads none."""
    auto_merge: bool = False
    label_missing: bool = False
    """The repository has no label of the name that IMQ sets."""
    testing_label_missing: bool = False
    """The repository has queue-only checks, and no label that starts them."""
    methods: frozenset[MergeMethod] = frozenset(MergeMethod)
    rules: BranchRules | None = None
    """None where IMQ could not read them."""
    rulesets: tuple[RulesetBypass, ...] = ()
    heads: tuple[HeadChecks, ...] = ()
    """Of a few open and merged pull requests, the newest first."""
    renovate: tuple[str, Mapping[str, Any]] | None = None
    """The path and the content of Renovate's configuration."""
    dependabot: Mapping[str, Any] | None = None
    merge_group_jobs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Jobs that only GitHub's own merge queue starts, by their workflow file."""
    filtered_checks: Mapping[str, str] = field(default_factory=dict)
    """Checks that report only for pull requests that change certain files, with the workflow file of each."""
    absent_branches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By what names them, branches that the repository does not have."""
    trains: TrainFacts | None = None
    """None without trains, and where IMQ could not read what decides about them."""
    tested_again: BaseRuns | None = None
    """None where nothing landed in the last week whose very tree had been tested."""
    unread: tuple[str, ...] = ()
    """What GitHub did not show, with its answer."""


_MOST_LETTERS = 500
_MOST_LANDINGS = 5000


async def read_host(settings: HostSettings, environ: Mapping[str, str], *, now: datetime | None = None) -> HostFacts:
    """Read them without creating a database that is missing; the landings until `now`, none without it."""
    database = Database(settings.database_url.get_secret_value())
    unknown, fault, migrated, free = unknown_variables(environ), None, False, None
    gone, failing = frozenset[str](), frozenset[str]()
    landings: Mapping[tuple[int, str], Sequence[LandingRecord]] = {}
    try:
        file = Path(database.url.database or "") if database.dialect == "sqlite" else None
        if file is not None and file.absolute().parent.is_dir():
            free = (await asyncio.to_thread(shutil.disk_usage, file.absolute().parent)).free
        if file is not None and not await asyncio.to_thread(file.exists):
            fault = f"There is no database {file}; `imq run` creates it."
        else:
            migrated = await migration_state(database) is MigrationState.USABLE
        if migrated and settings.sinks:
            gone, failing = await _dead_sinks(database)
        if migrated and now is not None:
            landings = await _landings(database, now - PERIOD)
    except Exception as error:
        if (kind := fault_of(error)) is None:
            raise
        fault = kind.sentence
    finally:
        await database.close()
    # Without either, nobody wants the login, and its missing settings are no fault.
    wants_login = settings.client_secret is not None or settings.operators is not None
    missing = tuple(settings.missing_for_login()) if wants_login else ()
    return HostFacts(unknown, fault, migrated, free, missing, settings.sinks, gone, failing, landings)


async def _dead_sinks(database: Database) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of sinks with dead letters: those whose receiver is gone, and the others."""
    async with Store(database).reading() as tx:
        letters = [
            letter for kind in SINK_JOBS.values() for letter in await tx.dead_letters.list(_MOST_LETTERS, job_type=kind)
        ]
    gone = {str(each.payload.get("sink")) for each in letters if each.error_message.startswith(DISABLED)}
    return frozenset(gone), frozenset(str(each.payload.get("sink")) for each in letters) - gone


async def _landings(database: Database, since: datetime) -> Mapping[tuple[int, str], Sequence[LandingRecord]]:
    """Return landings from then on, by repository and base branch."""
    found = defaultdict[tuple[int, str], list[LandingRecord]](list)
    async with Store(database).reading() as tx:
        for each in await tx.landings.since(since, _MOST_LANDINGS):
            found[each.repository_id, each.base_branch].append(each)
    return found


T = TypeVar("T")

_MOST_NAMED = 10
"""Branches that rules name, of which a request each shows whether they exist."""
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
_MISNAMED = (".github/imq.yaml", ".github/.imq.yml", "imq.yml", "imq.yaml", ".imq.yml", ".imq.yaml")
"""Files that people write for IMQ, and that it does not read."""


class RepositoryReads:
    """Reads repositories. `policy` is the operator's."""

    def __init__(
        self, gateway: Gateway, policy: Policy, landings: Mapping[tuple[int, str], Sequence[LandingRecord]]
    ) -> None:
        """`landings` are those of the last week."""
        self._gateway = gateway
        self._policy = policy
        self._landings = landings

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
        tip = await read_part(f"the branch {branch}", self._tip(repository, branch), "")
        if tip is None:
            return RepositoryFacts(repository, branch, self._policy, auto_merge=settings.auto_merge)
        own, wanted = (self._policy, None, ()), (*_RENOVATE, *_DEPENDABOT, *_MISNAMED)
        policy, config_error, named = await read_part(".github/imq.yml", self._configured(repository, branch), own)
        labeled = await read_part("its labels", reads.has_label(repository, policy.trigger_label), True)
        startable = await read_part("its labels", self._starts_queue_only(repository, policy), True)
        rules = await read_part(f"the rules of {branch}", self._rules(repository, branch), None)
        rulesets = await read_part("its rulesets", reads.rulesets(repository), ())
        heads = await read_part("its checks", self._heads(repository, branch), ())
        files = await read_part("its files", reads.files(repository, branch, wanted), {})
        jobs, filtered = await read_part("its workflows", self._workflows(repository, branch, tip), ({}, {}))
        sources = {"`branches` in .github/imq.yml": named} | {
            f"The ruleset {each.name}": each.branches for each in rulesets if each.branches
        }
        absent = await read_part("its branches", self._absent(repository, sources), {})
        trains = await read_part("what decides about trains", self._trains(repository, branch, rules, policy), None)
        again = await read_part("its workflow runs", self._tested_again(repository, branch), None)
        return RepositoryFacts(
            repository,
            branch,
            policy,
            config_error=config_error,
            misnamed=tuple(path for path in _MISNAMED if path in files),
            auto_merge=settings.auto_merge,
            label_missing=not labeled,
            testing_label_missing=not startable,
            methods=settings.methods,
            rules=rules,
            rulesets=rulesets,
            heads=heads,
            renovate=next(((path, content) for path in _RENOVATE if (content := _mapping(files.get(path)))), None),
            dependabot=next((found for path in _DEPENDABOT if (found := _mapping(files.get(path)))), None),
            merge_group_jobs=jobs,
            filtered_checks=filtered,
            absent_branches=absent,
            trains=trains,
            tested_again=again,
            unread=tuple(unread),
        )

    async def _tested_again(self, repository: Repository, branch: str) -> BaseRuns | None:
        landed = self._landings.get((repository.id, branch), ())
        proved = frozenset(each.sha for each in landed if is_proved(each.record))
        if not proved:
            return None
        runs = await self._gateway.doctor.push_runs(repository, branch, min(each.at for each in landed))
        return BaseRuns(len(landed), proved, runs)

    async def _trains(
        self, repository: Repository, branch: str, rules: BranchRules | None, policy: Policy
    ) -> TrainFacts | None:
        return None if rules is None else await read_trains(self._gateway, repository, branch, rules, policy)

    async def _starts_queue_only(self, repository: Repository, policy: Policy) -> bool:
        """Whether the repository has the label that starts its queue-only checks, or has no such checks."""
        return not policy.checks.queue_only or await self._gateway.doctor.has_label(
            repository, policy.checks.testing_label
        )

    async def _configured(
        self, repository: Repository, branch: str
    ) -> tuple[Policy, ConfigError | None, Sequence[str]]:
        """Return the policy of a branch, the fault of the file, and the branches that it names without wildcards."""
        try:
            text = await self._gateway.configuration(repository, branch)
            if text is None:
                return self._policy, None, ()
            config = await asyncio.to_thread(read, text, self._policy)
            file = f".github/imq.yml of {branch}"
            policy = policy_for(config, self._policy, branch)
            found = await with_teams(policy, repository, self._gateway.teams.team, file=file)
            named = [each for rule in config.branches or () for each in rule.match if not set("*?[\\") & set(each)]
            return found, None, named
        except Invalid as error:
            return self._policy, ConfigError([Problem(1, "", error.message)]), ()
        except ConfigError as error:
            return self._policy, error, ()

    async def _absent(self, repository: Repository, named: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """Return the branches that do not exist, of the first ten that anything names."""
        asked = list(dict.fromkeys(each for branches in named.values() for each in branches))[:_MOST_NAMED]
        absent = {each for each in asked if await self._gateway.branch_tip(repository, each) is None}
        found = {source: [each for each in branches if each in absent] for source, branches in named.items()}
        return {source: branches for source, branches in found.items() if branches}

    async def _tip(self, repository: Repository, branch: str) -> str | None:
        """Return the tip of a branch; None if the repository has no commit yet."""
        tip = await self._gateway.branch_tip(repository, branch)
        return None if tip is None else tip.sha

    async def _workflows(
        self, repository: Repository, branch: str, tip: str
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, str]]:
        """Return the jobs that only GitHub's own queue starts, and the checks that changed files decide about."""
        texts = await self._gateway.workflow_files(repository, tip) if tip else {}
        candidate = CandidateContext(repository.full_name, branch, f"imq/{branch}/0", default_branch=branch)
        decisive = any("paths" in text for text in texts.values())
        named = {path: text for path, text in texts.items() if decisive or "merge_group" in text}
        files = await asyncio.to_thread(read_workflows, named)
        return merge_group_jobs(files, candidate), filtered_checks(files, candidate) if decisive else {}

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
    """Read with seven requests, and one for each branch of a train; None without trains."""
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
