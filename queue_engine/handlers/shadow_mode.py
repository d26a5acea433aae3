"""Route the work of repositories in shadow mode to `queue_engine.shadow`, before anything for a queue sees it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

import structlog

from queue_engine.admission.case import load_case
from queue_engine.admission.enqueue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.head_consent import last_departure
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.commands import CommandName, CommandRequest, read
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.jobs.job import Job
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.known_facts import Consent, PullRequestState, of_pull
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.port import GitHubPorts
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import (
    CommandEvent,
    CommentCommand,
    HeadChange,
    LabelChange,
    LabelRequest,
    PullRequestChange,
    RepositoryWebhook,
    StateChange,
)
from queue_engine.effects.context import Engine
from queue_engine.effects.record import withdraw
from queue_engine.rules.departure_facts import withdrawn_by
from queue_engine.shadow.decide import ReadOnly, judge_later
from queue_engine.shadow.mode import mode_of, refresh_mode
from queue_engine.shadow.pull_requests import ShadowPulls

_log = structlog.get_logger("imq.shadow")


class ShadowHandler:
    """Routes webhooks, jobs and sweeps of repositories in shadow mode."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        github = ReadOnly(cast(GitHubPorts, engine.github))  # type: ignore[abstract]
        self._pulls = ShadowPulls(replace(engine, github=github))
        self._modes = MicroBatch(self._stored_modes)

    async def drain(self) -> None:
        """Wait for lookups under way."""
        await self._modes.drain()

    async def is_shadow(self, repository: Repository, webhook: RepositoryWebhook | None = None) -> bool:
        """Return whether a repository is in shadow mode, read if unknown and the webhook may queue."""
        known = await self._modes(repository.id)
        if known is None and (webhook is None or isinstance(webhook, LabelRequest | CommentCommand)):
            known = await mode_of(self._engine, repository)
        return known is Mode.SHADOW

    async def follow(self, webhook: RepositoryWebhook) -> None:
        """Follow a webhook of a repository in shadow mode. Raises GitHubError."""
        if isinstance(webhook, CommandEvent):
            await self._withdraw(webhook)
        elif isinstance(webhook, LabelChange | StateChange | HeadChange):
            await self._record_withdrawal(webhook)
        await self._pulls.follow(webhook)

    async def _withdraw(self, webhook: CommandEvent) -> None:
        """Store that a person withdrew by `/unqueue` what shadow mode had dequeued: no label counts after that (P4)."""
        engine, repository, number, by = self._engine, webhook.repository, webhook.number, webhook.sender
        requests = [found for found in map(read, webhook.commands) if isinstance(found, CommandRequest)]
        if CommandName.UNQUEUE not in {each.command.name for each in requests}:
            return
        with suppress(NotQueued, RejectionError):
            case = await load_case(engine, repository, number, delivery=webhook.delivery)
            permitted = await authorize_dequeue(engine, case, by=by)
            if permitted.left is not None:
                await engine.write(lambda change: dequeue_by_user(change, permitted))

    async def _record_withdrawal(self, webhook: PullRequestChange) -> None:
        """Store that somebody ended the consent to what shadow mode had dequeued, by a change of the pull request."""
        engine, repository, number = self._engine, webhook.repository, webhook.number
        async with engine.store.reading() as tx:
            left = last_departure(await tx.timeline.of_pull_request(repository.id, number))
            facts = await tx.known.lately(repository.id, of_pull(number), engine.clock.now())
        if left is None or left.reason is not Reason.SHADOW_MODE:
            return
        policy, own = await engine.policies.of(repository, left.base_branch), await engine.github.own_login()
        joined = max((place for place, one in enumerate(facts) if isinstance(one.statement, Consent)), default=-1)
        for state in [one.statement for one in facts[joined + 1 :]]:
            if not isinstance(state, PullRequestState) or state.by == own:
                continue
            if (reason := withdrawn_by(state, left.base_branch, policy)) is not None:
                why = DequeueReason(reason, delivery=webhook.delivery, by=state.by, by_bot=state.by_bot)
                async with engine.change() as change:
                    await withdraw(change, repository, left, why, policy)
                return

    async def configuration_pushed(self, repository: Repository) -> bool:
        """Read the mode after a push to the configuration; return whether it switched."""
        known = await self._modes(repository.id)
        return await refresh_mode(self._engine, repository) is not known

    async def sweep(self, repository: Repository, labeled: set[int]) -> bool:
        """Read the mode; in shadow mode enqueue a job for each pull request to judge. Return whether it is shadowed."""
        if await refresh_mode(self._engine, repository) is not Mode.SHADOW:
            return False
        due = await self._pulls.find_due(repository, labeled)
        _log.info("shadow_mode", repository=repository.full_name, to_judge=len(due))
        async with self._engine.change() as change:
            await change.tx.repositories.refresh(repository)
            for number in due:
                await judge_later(change, repository, number)
        return True

    async def judge(self, job: Job) -> None:
        """Judge a pull request again, unless its repository has left shadow mode."""
        repository = Repository(**job.request["repository"])
        if await self.is_shadow(repository):
            await self._pulls.judge(repository, job.request["number"])

    async def _stored_modes(self, repository_ids: Sequence[int]) -> list[Mode | None]:
        """Return the stored mode of each repository; webhooks that arrive together share this read."""
        modes = await self._engine.store.read(lambda tx: tx.shadow.modes(set(repository_ids)))
        return [modes.get(each) for each in repository_ids]
