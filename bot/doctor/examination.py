"""Read the facts once, with a bounded number of requests, and judge them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from bot.api.finding import Finding, Report
from bot.doctor import base_runs
from bot.doctor.app_checks import (
    app_findings,
    clock_findings,
    host_findings,
    installation_unlisted,
    no_repositories,
    server_findings,
    server_text,
)
from bot.doctor.doctor_facts import AppFacts, HostFacts, RepositoryFacts, RepositoryReads
from bot.doctor.repository_checks import repository_findings, update_bot_findings
from bot.doctor.train_checks import described, train_findings
from bot.doctor.webhook_probe import UNTRUSTED, WebhookProbe, probed
from bot.gateway.gateway import Gateway
from bot.gateway.schemas import InstallationAnswer, WebhookAnswer
from bot.registration.manifest import read_manifest
from notifications.sinks.sink import matches
from queue_engine.config.model import Policy
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, GitHubError, NotFound, Refused, Unauthorized
from queue_engine.domain.facts import Delivery
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode

MOST_REPOSITORIES = 25
"""Repositories that one run examines: together they cost a quarter of an hour's requests at most."""


class RepositoryNotFound(LookupError):
    """The repository to examine cannot be seen. The message says why."""


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
        way = [] if app.app is None or self._probe is None else await probed(self._probe, app)
        faulty = any(each.code != UNTRUSTED for each in way)
        app = replace(app, reached=self._probe is not None and not faulty)
        findings = [
            *host_findings(host),
            *clock_findings(app),
            *server_findings(app),
            *app_findings(app, read_manifest()),
            *way,
        ]
        if app.app is None:
            return Report((*findings, *sink_findings(host, None)))
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
        reads = RepositoryReads(self._gateway, self._policy, host.landings)
        read_facts = [await reads.read(each) for each in repositories[:MOST_REPOSITORIES]]
        for facts in read_facts:
            findings += [*repository_findings(facts), *update_bot_findings(facts), *train_findings(facts)]
        return Report(
            tuple(findings),
            tuple(facts.repository.full_name for facts in read_facts),
            max(0, len(repositories) - MOST_REPOSITORIES),
            {facts.repository.full_name: facts.rulesets for facts in read_facts if facts.rulesets},
            tuple(facts.repository.full_name for facts in read_facts if facts.policy.mode is Mode.SHADOW),
            {facts.repository.full_name: described(facts) for facts in read_facts if facts.trains is not None},
            {facts.repository.full_name: text for facts in read_facts if (text := _spared(facts)) is not None},
            server_text(app.server),
        )

    async def _app(self) -> AppFacts:
        app, ahead, server = self._gateway.app, None, None
        try:
            theirs, server = await app.server()
            ahead = None if theirs is None else self._clock.now() - theirs
            found = await app.read()
        except (Unauthorized, NotFound) as error:
            return AppFacts(clock_ahead=ahead, server=server, refusal=error.message)
        except GitHubError as error:
            return AppFacts(clock_ahead=ahead, server=server, outage=error.message)
        try:
            installations = tuple(await app.installations())
            deliveries = await self._deliveries()
            return AppFacts(
                clock_ahead=ahead,
                server=server,
                app=found,
                installations=installations,
                webhook=await self._webhook(),
                public_url=self._public_url,
                relay_url=self._relay_url,
                deliveries=deliveries,
                delivered_to=await self._delivered_to(deliveries),
                budgets=await self._budgets(installations),
            )
        except GitHubError as error:
            return AppFacts(clock_ahead=ahead, server=server, outage=error.message)

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

    async def _delivered_to(self, deliveries: Sequence[Delivery]) -> str | None:
        with suppress(NotFound):
            return await self._gateway.app.delivery_address(deliveries[0].id) if deliveries else None
        return None

    async def _budgets(self, installations: Sequence[InstallationAnswer]) -> dict[str, tuple[int, int]]:
        budgets: dict[str, tuple[int, int]] = {}
        for each in installations[:MOST_REPOSITORIES]:
            # An installation that GitHub refuses is a finding of its own, and so is no answer.
            with suppress(Forbidden, NotFound, Refused):
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


def _spared(facts: RepositoryFacts) -> str | None:
    """Say what workflows test a second time, and how that is spared."""
    found = facts.tested_again
    return None if found is None else base_runs.described(facts.branch, found, facts.policy.merge.tested_refs)


_PAGE = "docs/notifications.md"


def sink_findings(host: HostFacts, repositories: Collection[str] | None) -> Iterator[Finding]:
    """Yield the faults of sinks; `repositories` are those that the App sees, None if that is unknown."""
    for sink in host.sinks:
        if sink.name in host.sinks_gone:
            yield _finding(
                "sink_gone",
                f"The receiver of the sink {sink.name} is gone: it refused a message for good.",
                "IMQ sends it nothing more until a restart; its messages are dead letters.",
                "Set its new address in IMQ_SINKS, restart IMQ, and run `imq jobs retry` for its messages.",
            )
        elif sink.name in host.sinks_failing:
            yield _finding(
                "sink_fails",
                f"The receiver of the sink {sink.name} did not accept messages: they are dead letters.",
                "People or programs miss these messages.",
                f"Run `imq sinks test {sink.name}`, correct the receiver, and run `imq jobs retry` for its messages.",
            )
        if repositories and not any(matches(sink, name) for name in repositories):
            yield _finding(
                "sink_matches_nothing",
                f"The sink {sink.name} matches no repository that the App sees.",
                "It gets no message.",
                f"Correct its repositories ({', '.join(sink.repositories)}), or remove it.",
            )


def _finding(code: str, finding: str, impact: str, remedy: str) -> Finding:
    return Finding(code, "IMQ", finding, impact, remedy, f"{_PAGE}#when-messages-do-not-arrive")
