"""Store the jobs that disable GitHub's auto-merge of queued pull requests."""

from dataclasses import asdict

from queue_engine.domain.model import Repository
from queue_engine.effects.context import Change

AUTO_MERGE_JOB = "disable_auto_merge"
"""Kind of the job that disables the auto-merge of one pull request."""


async def disable_later(change: Change, repository: Repository, number: int) -> None:
    """Enqueue the job that disables the auto-merge of this pull request."""
    await change.tx.jobs.enqueue_once(
        kind=AUTO_MERGE_JOB,
        request={"repository": asdict(repository), "number": number},
        process_id=f"{AUTO_MERGE_JOB}:{repository.id}:{number}",
        now=change.now,
    )
