"""Delete the branch of a landed pull request, where a repository wants that."""

from datetime import datetime, timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.jobs.job_store import Job
from queue_engine.core.jobs.outcomes import Hold
from queue_engine.domain.errors import Forbidden, Invalid, NotFound
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, Queue
from queue_engine.effects.base_branches import is_landed_on
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.cleanup")

BRANCH_JOB = "delete_branch"
"""Kind of the job that deletes the branch of a pull request that landed."""

_POLLS, _POLL_AFTER = 5, timedelta(seconds=10)
"""GitHub may show a merged pull request as open for a moment: how often IMQ polls it, and how far apart."""


async def schedule_branch_deletion(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> None:
    """Enqueue the job that deletes the branch of a landed entry, if the repository's configuration asks for that."""
    if policy.merge.delete_branch:
        await tx.jobs.enqueue(
            kind=BRANCH_JOB,
            request={"queue_id": entry.queue_id, "number": entry.number, "head": entry.head},
            process_id=f"{BRANCH_JOB}:{entry.repository.id}:{entry.number}",
            now=now,
        )


class Cleanup:
    """Deletes branches of landed pull requests, unless something else uses them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def delete_branch(self, job: Job) -> Hold | None:
        """Delete the branch of a landed pull request. It may run twice; GitHub's refusal does not fail the job.

        Raises RateLimitError and Unavailable.
        """
        github, number, head = self._engine.github, job.request["number"], job.request["head"]
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(job.request["queue_id"])
        assert queue is not None
        repository = queue.repository
        try:
            pull = await github.pull_request(repository, number)
            if not pull.merged and job.claims < _POLLS:
                return Hold(_POLL_AFTER)
            kept = await self._why_kept(queue, pull, head)
            if kept is None:
                await github.delete_branch(repository, pull.head_branch)
        except (Forbidden, Invalid, NotFound) as refusal:
            kept = refusal.message
        event = "branch_deleted" if kept is None else "branch_kept"
        _log.info(event, repository=repository.full_name, number=number, why=kept)
        return None

    async def _why_kept(self, queue: Queue, pull: PullRequest, head: str) -> str | None:
        """Return why this branch is kept, None if it may be deleted. Each request is sent only if it can matter."""
        repository, branch = queue.repository, pull.head_branch
        if not pull.merged:
            return "it has not landed"
        if pull.head_repository != repository.full_name:
            return "it is a fork's"
        if branch == pull.base_branch or await is_landed_on(self._engine, repository, branch, pull.default_branch):
            return "others are merged into it"
        tip = await self._engine.github.branch_tip(repository, branch)
        if tip is None:
            return "it is gone"
        if tip.protected:
            return "it is protected"
        if tip.sha != head:
            return "it has newer commits"
        if await self._engine.github.is_in_use(repository, branch):
            return "another open pull request needs it"
        return None
