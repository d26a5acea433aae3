"""Handle "Re-run" on IMQ's own check: read the pull request again, and answer in the check's output.

A rerun is no consent: it queues nothing that has no label (P4). The webhook goes only to the App of the check (GitHub's
"Webhook events and payloads: check_run"; Mergify's and atlantis's handlers of `rerequested`).
"""

from dataclasses import asdict, replace

from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.webhooks import RerunRequested
from queue_engine.effects.context import Change, Engine
from queue_engine.handlers.reconciler import PULL_REQUEST_JOB
from queue_engine.store.outbox.outbox import OutboxKind

_MOST = 20
"""How many pull requests with one head are read again for one rerun."""


async def rerun_requested(engine: Engine, webhook: RerunRequested) -> None:
    """Read the pull requests of this check again, and judge them. Raises StaleRecord."""
    repository = webhook.repository
    async with engine.change() as change:
        entries = await change.tx.entries.of_repository(repository.id)
        queued = {entry.number for entry in entries if entry.head == webhook.head_sha}
        for number in sorted(queued.union(webhook.numbers))[:_MOST]:
            await _read_again(change, repository, number, webhook)


async def _read_again(change: Change, repository: Repository, number: int, webhook: RerunRequested) -> None:
    """Have one pull request read again, if IMQ has a check run on it, and record who asked for that."""
    tx, now = change.tx, change.now
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, repository.id, number)
    if shown is None:
        return
    entry = await tx.entries.find(repository.id, number)
    if entry is not None:
        checking = entry.status is EntryStatus.CHECKING
        run = replace(entry.run, polls=0, next_poll_at=now) if checking else entry.run
        await tx.entries.save(replace(entry, needs_refetch=True, run=run))
        await tx.queues.wake(entry.queue_id, now)
    queue = await tx.queues.find_or_create(repository, shown.base_branch, now)
    data = {"by": webhook.sender, "head": webhook.head_sha}
    await change.record("read_again", entry or queue, number=number, delivery=webhook.delivery, data=data)
    if not shown.merges_now:
        await tx.outbox.resend(repository.id, number, due=now, kind=OutboxKind.CHECK_RUN)
    await tx.jobs.enqueue_once(
        kind=PULL_REQUEST_JOB,
        request={"repository": asdict(repository), "number": number, "new": True},
        process_id=f"{repository.id}:{number}",
        now=now,
    )
