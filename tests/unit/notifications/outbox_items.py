"""Outbox items as the engine wants them, for tests of the dispatcher, and their dead letters."""

from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.domain.notice import Notice
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.unit.notifications.notices import NOW, REPOSITORY


async def want(store: Store, kind: OutboxKind, wanted: Notice, number: int = 42) -> None:
    """Want a notice shown, as the engine does."""
    async with store.transaction() as tx:
        numbered = wanted.model_copy(update={"number": number})
        await tx.outbox.want(kind, REPOSITORY, number, due=NOW, notice=numbered)


async def want_label_off(store: Store, number: int = 42) -> None:
    """Have the trigger label taken off."""
    async with store.transaction() as tx:
        await tx.outbox.want_label(REPOSITORY, number, "merge-queue", on=False, due=NOW)


async def dead(store: Store) -> tuple[DeadLetter, ...]:
    """The dead letters, the latest first."""
    async with store.reading() as tx:
        return await tx.dead_letters.list(100)
