"""Disable GitHub's auto-merge of queued pull requests: GitHub would merge them past the queue."""

import structlog

from queue_engine.admission.case import Case, load_case
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import GithubMergePolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.auto_merge")


class GithubMerges:
    """Handles the jobs that `queue_engine.effects.github_merges` enqueues."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def disable(self, job: Job) -> None:
        """Disable the auto-merge of one pull request, if it is queued. The job may run twice.

        If GitHub does not let IMQ do that, the entry leaves. Raises GitHubError, and StaleRecord.
        """
        repository, number = Repository(**job.request["repository"]), job.request["number"]
        case = await load_case(self._engine, repository, number)
        if (entry := case.entry) is None:
            return
        case = await case.with_policy(self._engine, entry.base_branch)
        if case.policy.auto_merge is not GithubMergePolicy.DISABLE:
            return
        pull = await self._engine.github.pull_request(repository, number)
        try:
            disabled = await self._engine.github.disable_auto_merge(repository, pull.node_id)
        except Forbidden as refusal:
            await self._dequeue(case, entry, refusal.message)
            return
        if disabled:
            async with self._engine.change() as change:
                await change.record("auto_merge_disabled", entry, data={"head": entry.head})
                await change.tx.outbox.resend(repository.id, number, due=change.now)
            _log.info("auto_merge_disabled", repository=repository.full_name, number=number)

    async def _dequeue(self, case: Case, entry: Entry, message: str) -> None:
        why = DequeueReason(Reason.AUTO_MERGE_ENABLED, message, people=(entry.author,))
        async with self._engine.change() as change:
            await record.dequeue(change, entry, why, case.policy)
