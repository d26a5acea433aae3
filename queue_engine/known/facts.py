"""Read known facts from the store, and add to them."""

from collections.abc import Collection, Mapping

from queue_engine.core.timing.clock import Clock
from queue_engine.domain.known_facts import KEPT, NAMED, Fact, Known, Statement
from queue_engine.known.branches import current_tip, exists, pushes
from queue_engine.store import Store


class KnownFacts:
    """The facts of the last quarter of an hour; each call is a transaction of its own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def about(self, repository_id: int, subjects: Collection[str]) -> dict[str, list[Known]]:
        """Load the known facts of each of these subjects, in the order in which IMQ received them."""
        async with self._store.reading() as tx:
            return await tx.known.about(repository_id, subjects, since=self._clock.now() - KEPT)

    async def tip(self, repository_id: int, subject: str) -> str | None:
        """Return the known tip of a branch, if there is one."""
        known = (await self.about(repository_id, {subject})).get(subject, ())
        return current_tip(pushes(known, self._clock.now()))

    async def names_new(self, repository_id: int, subjects: Collection[str]) -> bool:
        """Return whether GitHub named one of these so recently that a replica may not show it yet."""
        now = self._clock.now()
        known = await self.about(repository_id, subjects)
        for those in known.values():
            lately = [one for one in those if now - one.at < NAMED]
            pushed = pushes(lately, now)
            if len(lately) > len(pushed) or exists(pushed):
                return True
        return False

    async def record(self, repository_id: int, statements: Mapping[str, Statement]) -> None:
        """Store GitHub's answers to a write, by subject."""
        facts = [Fact(subject=subject, statement=each) for subject, each in statements.items()]
        async with self._store.transaction() as tx:
            await tx.known.record(repository_id, facts, self._clock.now())
