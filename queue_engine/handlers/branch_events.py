"""Handle events of branches: pushes, changed rules, changed configuration."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.domain.known_facts import SETTLED, SHARED_RULES, Push, of_branch
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.run import RunState
from queue_engine.domain.webhooks import BranchPush, RuleChange
from queue_engine.effects.context import Change, Engine, EngineHandler
from queue_engine.effects.record import read_again
from queue_engine.store.action_records import ActionKind

_OF_CANDIDATES = ("imq/", "imq-build/")
"""The beginnings of the names of IMQ's own branches; the record of a run says which one is."""


class Branches(EngineHandler):
    """Follows webhooks about branches."""

    async def moved(self, webhook: BranchPush) -> None:
        """Handle a push to a branch: entries that were compared with its old tip count as behind."""
        repository = webhook.repository
        queue = await self._engine.store.read(lambda tx: tx.queues.find(repository.id, webhook.branch))
        if self._configures(webhook, served=queue is not None):
            await self.configuration_changed(repository)
            await self._note_configuration(webhook, served=queue is not None)
        if queue is None and webhook.branch.startswith(_OF_CANDIDATES):
            await self._candidate_moved(webhook)
        if queue is None or webhook.head_sha is None:
            return
        async with self._engine.change() as change:
            queue = await change.tx.queues.get(queue.id)
            assert queue is not None
            entries = await change.tx.entries.of_queue(queue.id)
            for entry in entries:
                if (
                    webhook.head_sha in {entry.run.base_tip, entry.newer_tip}
                    or entry.run.merge_requested_at is not None
                ):
                    continue
                await change.tx.entries.save(replace(entry, newer_tip=webhook.head_sha))
            if entries or (queue.red is not None and queue.red.untested):
                await change.tx.red_bases.moved(queue, webhook.head_sha, change.now)
            elif queue.red is not None and queue.red.tip != webhook.head_sha:
                # No entry waits for the red base: the next front finds out whether this tip passes.
                await change.tx.red_bases.note(queue.id, None)
            await change.tx.queues.wake(queue.id, change.now)
        await record_push(self._engine, queue, webhook)

    async def _candidate_moved(self, webhook: BranchPush) -> None:
        """Have a run cancelled to whose branch somebody else pushed: CI may have tested what IMQ did not build."""
        if webhook.head_sha is None or webhook.sender == await self._engine.github.own_login():
            return
        async with self._engine.change() as change:
            for run in await change.tx.runs.of_repository(webhook.repository_id):
                moved = webhook.branch in {run.branch, run.build_branch} and webhook.head_sha != run.candidate
                if moved and run.state is not RunState.ENDED and run.queue_id is not None:
                    await change.tx.runs.save(replace(run, new_head=webhook.head_sha, next_poll_at=change.now))
                    await change.tx.queues.wake(run.queue_id, change.now)

    def _configures(self, webhook: BranchPush, *, served: bool) -> bool:
        """Whether a push may have changed a configuration that IMQ uses.

        A push that creates or rewrites a branch does not list all files. Such a push counts only on the default branch,
        and on branches with a queue or cached files. Otherwise each topic branch would cost requests.
        """
        return webhook.config_named or (webhook.config and self._matters(webhook, served=served))

    def _matters(self, webhook: BranchPush, *, served: bool) -> bool:
        remembered = self._engine.policies.remembers(webhook.repository_id, webhook.branch)
        return served or webhook.default_branch or remembered

    async def _note_configuration(self, webhook: BranchPush, *, served: bool) -> None:
        """Record once who changed the configuration of a branch, or may have, by a push that lists not all."""
        if not self._matters(webhook, served=served) or (webhook.all_named and not webhook.config_named):
            return
        async with self._engine.change() as change:
            if not await change.tx.keys.record(_OF_CONFIGURATION, [(webhook.delivery, webhook.kind)], change.now):
                return
            await change.tx.actions.add(
                ActionKind.CONFIGURATION_CHANGED,
                webhook.branch,
                by=webhook.sender,
                via="github",
                at=change.now,
                repository=webhook.repository,
                base_branch=webhook.branch,
                data={"before": webhook.before, "sha": webhook.head_sha, "certain": webhook.config_named},
            )

    async def configuration_changed(self, repository: Repository) -> None:
        """Drop the cached configuration of the repository; for the shared repository, that of all its owner's."""
        async with self._engine.store.reading() as tx:
            queues = await tx.queues.of_repository(repository.id)
            if repository.name.casefold() == SHARED_RULES:
                owner = repository.owner.casefold()
                queues = tuple(each for each in await tx.queues.all() if each.repository.owner.casefold() == owner)
        self._engine.policies.forget(repository.id)
        await self._refresh([repository], queues)

    async def rules_changed(self, webhook: RuleChange) -> None:
        """Drop the cached rules of the repository, or of all repositories of the installation if it names none."""
        repository = webhook.repository
        async with self._engine.store.reading() as tx:
            if repository is not None:
                queues = await tx.queues.of_repository(repository.id)
            else:
                found = await tx.queues.all()
                queues = tuple(each for each in found if each.repository.installation_id == webhook.installation_id)
        concerned = {each.repository.id: each.repository for each in queues}
        if repository is not None:
            concerned[repository.id] = repository
        for repository_id in concerned:
            self._engine.github.forget_rules(repository_id)
        # Reads of rules may lag, and nothing in them shows that.
        await self._refresh(concerned.values(), queues, after=SETTLED)

    async def _refresh(
        self, repositories: Iterable[Repository], queues: Iterable[Queue], *, after: timedelta = timedelta(0)
    ) -> None:
        """Invalidate all caches of these repositories, wake their queues, and read again those that are not ready."""
        async with self._engine.change() as change:
            for repository in repositories:
                await change.tx.repositories.refresh(repository)
                await change.tx.repositories.renew_settings(repository.id)
            for queue in queues:
                await change.tx.queues.wake(queue.id, change.now)
                if queue.stall is not None and queue.stall.never:
                    await change.tx.stalls.poll_soon(queue.id, change.now + after)
                for entry in await change.tx.entries.not_ready(queue.id):
                    # It may be ready by the new rules.
                    await read_again(change, queue.repository, entry.number, after=after)


_SCOPE, _OF_CONFIGURATION = "base_push", "configuration_push"
"""Of the keys that remember which pushes were recorded: a webhook's job may run again."""

_log = structlog.get_logger("imq.branches")


async def record_push(engine: Engine, queue: Queue, webhook: BranchPush) -> None:
    """Record a push to the base branch of this queue, unless IMQ made it. Raises GitHubError.

    The webhook of the push names the account that caused it (docs, "Webhook events and payloads: push"; the integration
    for Slack shows this account, too, integrations/slack #1181), and IMQ sends no request for it. For some merges
    GitHub leaves the sender out (libraries.io #3089). Then the commit decides: IMQ stores the commits that its merges
    landed as.

    A repository in shadow mode is left out: there people merge everything.
    """
    if webhook.head_sha is None or webhook.sender == await engine.github.own_login():
        return
    async with engine.change() as change:
        if await change.tx.shadow.mode(queue.repository.id) is Mode.SHADOW:
            return
        if webhook.sender is None and await _is_own_landing(change, queue, webhook.head_sha):
            return
        if not await change.tx.keys.record(_SCOPE, [(webhook.delivery, webhook.kind)], change.now):
            return
        data = {"by": webhook.sender, "before": webhook.before, "sha": webhook.head_sha}
        await change.record("landed_outside", queue, delivery=webhook.delivery, data=data)
    _log.info("landed_outside", repository=queue.repository.full_name, base_branch=queue.base_branch)


async def _is_own_landing(change: Change, queue: Queue, head_sha: str) -> bool:
    """Return whether IMQ's merge made the pushed commit.

    A push that arrives during a merge of IMQ counts as that merge, whose answer is not stored yet.
    """
    if any(entry.run.merge_requested_at is not None for entry in await change.tx.entries.of_queue(queue.id)):
        return True
    known = await change.tx.known.lately(queue.repository.id, of_branch(queue.base_branch), change.now)
    stated = [each.statement for each in known]
    return any(isinstance(each, Push) and each.at is None and each.after == head_sha for each in stated)
