"""The mode of each repository: read from the default branch's configuration, and stored for all processes.

A switch to shadow mode dequeues every entry at once. Labels, comments, check runs and branches of trains stay as they
are: to tidy up, IMQ would have to write after the configuration forbids it. A switch back is like a first start: the
present labels count, as far as GitHub, or the ledger of consents, proves that no push followed them. Then IMQ corrects
comments and cleans up.
"""

import structlog

from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.store.known import stale_comments

_log = structlog.get_logger("imq.shadow")


async def may_write(engine: Engine, repository: Repository) -> bool:
    """Return whether IMQ may write in this repository. Raises GitHubError if its configuration cannot be read."""
    return await mode_of(engine, repository) is not Mode.SHADOW


async def mode_of(engine: Engine, repository: Repository) -> Mode:
    """Return the stored mode of a repository, or read it if it is unknown. Raises GitHubError."""
    known = await engine.store.read(lambda tx: tx.shadow.mode(repository.id))
    return known or await refresh_mode(engine, repository)


async def refresh_mode(engine: Engine, repository: Repository) -> Mode:
    """Switch a repository to the mode read; a file that names none keeps the stored one. Raises GitHubError."""
    wanted = await engine.policies.mode(repository)
    known = await engine.store.read(lambda tx: tx.shadow.mode(repository.id))
    wanted = wanted or known or Mode.QUEUE
    if wanted is known:
        return wanted
    async with engine.change() as change:
        if await change.tx.shadow.mode(repository.id) is not wanted:
            await _switch(change, repository, known, wanted)
    return wanted


async def _switch(change: Change, repository: Repository, known: Mode | None, wanted: Mode) -> None:
    if wanted is Mode.SHADOW:
        await _dequeue_all(change, repository)
    if wanted is Mode.SHADOW or known is Mode.SHADOW:
        await change.tx.shadow.forget_writes(repository.id)
        _log.warning("repository_mode", repository=repository.full_name, mode=wanted.value)
    if known is Mode.SHADOW:
        await change.tx.shadow.interrupt(repository.id, change.now)
        await change.tx.sweeps.forget(stale_comments(repository.id))
    await change.tx.shadow.set_mode(repository, wanted)


async def _dequeue_all(change: Change, repository: Repository) -> None:
    """Dequeue all entries of a repository without any announcement. Raises StaleRecord if one has changed."""
    entries = await change.tx.entries.of_repository(repository.id)
    if not all([await change.tx.entries.lock(entry) for entry in entries]):
        raise StaleRecord("an entry changed before it was dequeued")
    for entry in entries:
        await record.dequeue(change, entry, DequeueReason(Reason.SHADOW_MODE), None)
