"""Read the facts once, with a bounded number of requests, and judge them."""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from bot.doctor.app_checks import app_findings, installation_unlisted, no_repositories
from bot.doctor.facts import AppFacts, HeadChecks, HostFacts, RepositoryFacts
from bot.doctor.finding import Finding
from bot.doctor.host_checks import clock_findings, host_findings
from bot.doctor.repository_checks import repository_findings
from bot.doctor.sink_checks import sink_findings
from bot.doctor.update_bots import update_bot_findings
from bot.doctor.webhook_probe import WebhookProbe, probed
from bot.gateway.app_schemas import InstallationAnswer, WebhookAnswer
from bot.gateway.doctor_reads import RulesetBypass
from bot.gateway.gateway import Gateway
from bot.gateway.teams import with_teams
from bot.registration.manifest import read_manifest
from queue_engine.config.document import parse
from queue_engine.config.parse import read
from queue_engine.config.policy import policy_for
from queue_engine.config.problems import ConfigError, Problem
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound, Unauthorized
from queue_engine.domain.facts import BranchRules, Delivery
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode, Policy

T = TypeVar("T")

MOST_REPOSITORIES = 25
"""Repositories that one run examines: together they cost a quarter of an hour's requests at most."""

MOST_HEADS = 6
"""Pull requests whose checks are read, of each repository."""

RENOVATE = tuple(
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
DEPENDABOT = (".github/dependabot.yml", ".github/dependabot.yaml")


class RepositoryNotFound(LookupError):
    """The repository to examine cannot be seen. The message says why."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, and the repositories that were examined."""

    findings: tuple[Finding, ...]
    repositories: tuple[str, ...] = ()
    left_out: int = 0
    """Repositories beyond the limit."""
    rulesets: Mapping[str, Sequence[RulesetBypass]] = field(default_factory=dict)
    """By repository, the rulesets that IMQ sees, with how it may bypass each."""
    shadow: tuple[str, ...] = ()
    """Repositories in shadow mode."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "findings": [each.as_json() for each in self.findings],
            "repositories": list(self.repositories),
            "left_out": self.left_out,
            "rulesets": {name: [asdict(each) for each in rulesets] for name, rulesets in self.rulesets.items()},
            "shadow": list(self.shadow),
        }

    def as_text(self) -> str:
        """Return the report as text."""
        lines = [each.as_text() for each in self.findings]
        for name, rulesets in self.rulesets.items():
            listed = ", ".join(f"{each.name} (bypass: {each.bypass or 'unknown'})" for each in rulesets)
            lines.append(f"{name}: rulesets: {listed}")
        lines += [f"{name}: in shadow mode: IMQ writes nothing there" for name in self.shadow]
        count = len(self.findings)
        examined = f"Repositories examined: {len(self.repositories)}."
        if self.left_out:
            examined += f" Left out: {self.left_out}; name one with --repository."
        verdict = "No findings." if not count else f"Findings: {count}."
        return "\n\n".join([*lines, f"{verdict} {examined}"])


class Doctor:
    """Examines an installation of IMQ. `policy` is the operator's."""

    def __init__(
        self,
        gateway: Gateway,
        clock: Clock,
        policy: Policy,
        *,
        public_url: str | None,
        relay_url: str | None = None,
        probe: WebhookProbe | None = None,
    ) -> None:
        """`probe` calls the webhook address; without it only GitHub's view is examined."""
        self._probe = probe
        self._gateway = gateway
        self._clock = clock
        self._policy = policy
        self._public_url = public_url
        self._relay_url = relay_url

    async def examine(self, host: HostFacts, only: str | None = None) -> Report:
        """Examine all, or of the repositories only one. Raises RepositoryNotFound."""
        app = await self._app()
        findings = [*host_findings(host), *clock_findings(app), *app_findings(app, read_manifest())]
        if app.app is None:
            return Report((*findings, *sink_findings(host, None)))
        if self._probe is not None:
            findings += await probed(self._probe, app)
        repositories, unread = await self._repositories(app.installations)
        findings += [*unread, *sink_findings(host, [] if unread else [each.full_name for each in repositories])]
        if not (repositories or unread) and (active := [each for each in app.installations if not each.suspended_at]):
            findings.append(no_repositories(active))
        if only is not None:
            repositories = [each for each in repositories if each.full_name.casefold() == only.casefold()]
            if not repositories:
                raise RepositoryNotFound(
                    f"The App does not see {only}. Check its name, and whether the App is installed on it."
                )
        read_facts = [await self._repository(each) for each in repositories[:MOST_REPOSITORIES]]
        for facts in read_facts:
            findings += [*repository_findings(facts), *update_bot_findings(facts)]
        return Report(
            tuple(findings),
            tuple(facts.repository.full_name for facts in read_facts),
            max(0, len(repositories) - MOST_REPOSITORIES),
            {facts.repository.full_name: facts.rulesets for facts in read_facts if facts.rulesets},
            tuple(facts.repository.full_name for facts in read_facts if facts.policy.mode is Mode.SHADOW),
        )

    async def _app(self) -> AppFacts:
        app, ahead = self._gateway.app, None
        try:
            ahead = await self._clock_ahead()
            found = await app.read()
        except (Unauthorized, NotFound) as error:
            return AppFacts(clock_ahead=ahead, refusal=error.message)
        except GitHubError as error:
            return AppFacts(clock_ahead=ahead, outage=error.message)
        try:
            installations = tuple(await app.installations())
            deliveries = await self._deliveries()
            return AppFacts(
                clock_ahead=ahead,
                app=found,
                installations=installations,
                webhook=await self._webhook(),
                public_url=self._public_url,
                relay_url=self._relay_url,
                deliveries=deliveries,
                budgets=await self._budgets(installations),
            )
        except GitHubError as error:
            return AppFacts(clock_ahead=ahead, outage=error.message)

    async def _webhook(self) -> WebhookAnswer:
        """Read the webhook's settings; an App without a webhook has none, and GitHub answers 404."""
        try:
            return await self._gateway.app.webhook()
        except NotFound:
            return WebhookAnswer()

    async def _deliveries(self) -> tuple[Delivery, ...]:
        try:
            return (await self._gateway.deliveries(None))[0]
        except NotFound:
            return ()

    async def _clock_ahead(self) -> timedelta | None:
        theirs = await self._gateway.app.server_time()
        return None if theirs is None else self._clock.now() - theirs

    async def _budgets(self, installations: Sequence[InstallationAnswer]) -> dict[str, tuple[int, int]]:
        budgets: dict[str, tuple[int, int]] = {}
        for each in installations[:MOST_REPOSITORIES]:
            # An installation that GitHub refuses is a finding of its own, and so is no answer.
            with suppress(Forbidden, NotFound):
                if each.suspended_at is None:
                    budgets[each.owner] = await self._gateway.app.budget(each.id)
        return budgets

    async def _repositories(
        self, installations: Sequence[InstallationAnswer]
    ) -> tuple[list[Repository], list[Finding]]:
        """List all repositories; an installation that cannot be read is a finding."""
        found: list[Repository] = []
        findings: list[Finding] = []
        for each in installations:
            if each.suspended_at is not None:
                continue
            try:
                found += await self._gateway.repositories(each.id)
            except GitHubError as error:
                findings.append(installation_unlisted(each.owner, error))
        return found, findings

    async def _repository(self, repository: Repository) -> RepositoryFacts:
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
        policy, config_error = self._policy, None
        try:
            policy, config_error = await self._configured(repository, branch)
        except GitHubError as error:
            unread.append(f".github/imq.yml: {error.message}")
        labeled = await read_part("its labels", reads.has_label(repository, policy.trigger_label), True)
        startable = await read_part("its labels", self._starts_queue_only(repository, policy), True)
        rules = await read_part(f"the rules of {branch}", self._rules(repository, branch), None)
        rulesets = await read_part("its rulesets", reads.rulesets(repository), ())
        heads = await read_part("its checks", self._heads(repository, branch), ())
        files = await read_part("its files", reads.files(repository, branch, (*RENOVATE, *DEPENDABOT)), {})
        renovate = next(((path, content) for path in RENOVATE if (content := _mapping(files.get(path)))), None)
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
            renovate=renovate,
            dependabot=next((found for path in DEPENDABOT if (found := _mapping(files.get(path)))), None),
            unread=tuple(unread),
        )

    async def _starts_queue_only(self, repository: Repository, policy: Policy) -> bool:
        """Whether the repository has the label that starts its queue-only checks, or has no such checks."""
        return not policy.queue_only_checks or await self._gateway.doctor.has_label(repository, policy.testing_label)

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
        for sha, merged in await self._gateway.doctor.recent_heads(repository, branch, MOST_HEADS):
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
