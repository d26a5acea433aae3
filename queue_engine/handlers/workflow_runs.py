"""Cancel runs of GitHub Actions on IMQ's outdated updates, which frees their runners."""

from datetime import datetime

import structlog

from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, NotFound
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.effects.stale_runs import to_cancel

_log = structlog.get_logger("imq.cancel_runs")


class WorkflowRuns:
    """Handles the jobs that `queue_engine.effects.stale_runs` enqueues."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def cancel(self, job: Job) -> None:
        """Cancel the runs on one head, unless IMQ lacks the permission. It may run twice.

        Raises RateLimitError and Unavailable.
        """
        github, head = self._engine.github, job.request["head"]
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(job.request["queue_id"])
            entries = () if queue is None else await tx.entries.of_repository(queue.repository.id)
        if queue is None or any(head in {entry.head, entry.queued_head, entry.run.new_head} for entry in entries):
            # The head was queued again: its checks count.
            return
        repository, left = queue.repository, datetime.fromisoformat(job.request["left"])
        runs = await github.workflow_runs(repository, head)
        own_login = await github.own_login()
        for run in to_cancel(runs, head, own_login, left):
            if not await self._cancel_one(repository, run, number=job.request["number"]):
                return

    async def _cancel_one(self, repository: Repository, run: int, *, number: int) -> bool:
        """Cancel one run; False if IMQ lacks the permission (`actions: write`) to cancel any."""
        try:
            await self._engine.github.cancel_run(repository, run)
        except Forbidden as refusal:
            _log.info("runs_not_cancelled", repository=repository.full_name, number=number, message=refusal.message)
            return False
        except (HeadConflict, Invalid, NotFound) as refusal:
            # 409: it ended meanwhile ("Cannot cancel a workflow run that is completed.", Homebrew/actions #70).
            _log.info("run_already_ended", repository=repository.full_name, run=run, message=refusal.message)
        else:
            _log.info("run_cancelled", repository=repository.full_name, number=number, run=run)
        return True
