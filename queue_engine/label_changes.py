"""Labels that give a queued pull request a priority, a permission or a method, keep it wanted, or keep it out.

They count if a person who may queue set them. A person without the right is asked about a few times an hour (P7).
"""

from collections.abc import Iterable
from dataclasses import fields, replace

import structlog

from queue_engine import journal
from queue_engine.door import may_queue
from queue_engine.engine import Engine
from queue_engine.facts import PullRequest
from queue_engine.hints import Hint, HintKind
from queue_engine.model import Entry, Repository
from queue_engine.places import still_waiting
from queue_engine.policy import Policy, carries
from queue_engine.priority import Standing, of_these, standing_of
from queue_engine.review import review
from queue_engine.throttle import count_without_right, is_throttled, labelling
from queue_engine.waiting_line import WaitingLine

_log = structlog.get_logger("imq.changes")


class LabelChanges:
    """Follows changes of labels on pull requests that are queued, or wait for a place."""

    def __init__(self, engine: Engine, waiting: WaitingLine) -> None:
        self._engine = engine
        self._waiting = waiting

    async def changed(self, repository: Repository, hint: Hint) -> None:
        """A label that lets nobody in may keep out what waits, give it another priority, or keep it wanted."""
        if await self._waits(repository, hint):
            await self._waiting.review(repository, hint.number or 0)
            await self._vouch(repository, hint)
        entry = await self._entry(repository, hint)
        if entry is None:
            return
        policy = await self._engine.policies.of(repository, entry.base_branch)
        ranks = _ranks(policy, hint)
        if not carries([hint.label or ""], policy.blocking_labels) and not (
            ranks and not await is_throttled(self._engine, repository, labelling(hint.sender or ""))
        ):
            return
        pull = await review(self._engine, repository, entry.number, delivery=hint.delivery)
        if ranks and pull is not None:
            await self._rank(repository, pull, policy, hint)

    async def _waits(self, repository: Repository, hint: Hint) -> bool:
        async with self._engine.store.reading() as tx:
            return await tx.held.find(repository.id, hint.number or 0) is not None

    async def _vouch(self, repository: Repository, hint: Hint) -> None:
        """Keep for one that waits for a place what a label gives or takes when it joins, if who changed it may queue.

        Raises StaleVersion when it joined in this moment.
        """
        number, label = hint.number or 0, hint.label or ""
        async with self._engine.store.reading() as tx:
            waiting = await tx.held.find(repository.id, number)
            queue = None if waiting is None else await tx.queues.get(waiting.queue_id)
        if queue is None:
            return
        policy = await self._engine.policies.of(repository, queue.base_branch)
        if not _ranks(policy, hint) or not await self._may_rank(repository, policy, hint):
            return
        async with self._engine.change() as change:
            waiting = await still_waiting(change.tx, repository.id, number)
            if waiting is not None:
                vouched = _vouched(waiting.vouched, hint)
                # The last word counts, as for those who stand in the queue.
                priority = None if carries([label], _priorities(policy)) else waiting.priority
                await change.tx.held.stand_by(repository.id, number, vouched=vouched, priority=priority)

    async def taken_off(self, repository: Repository, hint: Hint) -> None:
        """Of several labels that queue one was taken off: set again by somebody else, it keeps nothing wanted."""
        standing = await self._entry(repository, hint)
        if standing is None or not carries(standing.vouched, [hint.label or ""]):
            return
        policy = await self._engine.policies.of(repository, standing.base_branch)
        async with self._engine.change() as change:
            entry = await change.tx.entries.get(standing.id)
            if entry is not None and policy.triggered(vouched := _vouched(entry.vouched, hint)):
                await change.tx.entries.save(replace(entry, vouched=vouched))

    async def _rank(self, repository: Repository, pull: PullRequest, policy: Policy, hint: Hint) -> None:
        """Give it the place that its labels say, if whoever changed one may queue: others move nobody's turn."""
        entry = await self._entry(repository, hint)
        if entry is None or _given(entry, pull, policy, hint) == _standing(entry):
            return
        if not await self._may_rank(repository, policy, hint):
            return
        async with self._engine.change() as change:
            entry = await change.tx.entries.find(repository.id, pull.number)
            if entry is None:
                return
            vouched, standing = given = _given(entry, pull, policy, hint)
            if given == _standing(entry):
                return
            placed = await change.tx.entries.reprioritise(replace(entry, vouched=vouched), standing, policy.ageing)
            if standing == _standing(entry)[1]:
                return
            await change.tx.queues.wake(entry.queue_id, change.now)
            await change.record(
                "priority",
                entry,
                delivery=hint.delivery,
                data={"by": hint.sender, "priority": placed.priority, "position": placed.position}
                | await journal.delays(change.tx, placed, change.now),
            )

    async def _may_rank(self, repository: Repository, policy: Policy, hint: Hint) -> bool:
        """Whether the person who changed the label may queue, as GitHub says now. Raises GitHubError.

        A throttled person may not: that costs no request.
        """
        sender = hint.sender or ""
        if not sender or await is_throttled(self._engine, repository, labelling(sender)):
            return False
        if may_queue(policy, sender, await self._engine.github.permission(repository, sender)) is None:
            return True
        async with self._engine.change() as change:
            await count_without_right(change, repository, labelling(sender))
        _log.info(
            "label_without_right", repository=repository.full_name, number=hint.number, label=hint.label, by=sender
        )
        return False

    async def _entry(self, repository: Repository, hint: Hint) -> Entry | None:
        async with self._engine.store.reading() as tx:
            return await tx.entries.find(repository.id, hint.number or 0)


def _vouched(before: Iterable[str], hint: Hint) -> tuple[str, ...]:
    """The labels vouched for, when somebody who may queue has set one, or taken it off."""
    label = hint.label or ""
    others = {each for each in before if not carries([each], [label])}
    return tuple(sorted(others | {label} if hint.kind is HintKind.LABELED else others))


def _given(entry: Entry, pull: PullRequest, policy: Policy, hint: Hint) -> tuple[tuple[str, ...], Standing]:
    """The labels vouched for after this change of one, and what those of them that are there give."""
    vouched = _vouched(entry.vouched, hint)
    standing = standing_of(of_these(pull.labels, vouched), policy)
    ranked = carries([hint.label or ""], _priorities(policy))
    # What was given by command lasts until a label says otherwise.
    return vouched, standing if ranked else replace(standing, priority=entry.priority)


def _standing(entry: Entry) -> tuple[tuple[str, ...], Standing]:
    """The labels vouched for, and what an entry stands by."""
    return entry.vouched, Standing(**{each.name: getattr(entry, each.name) for each in fields(Standing)})


def _priorities(policy: Policy) -> list[str]:
    return [each.label for each in policy.priorities]


def _ranks(policy: Policy, hint: Hint) -> bool:
    """Whether a label gives a pull request a place, a permission or a method, or keeps it wanted."""
    steering = (*_priorities(policy), *policy.freeze_exempt_labels, *policy.method_labels, *policy.trigger_labels)
    return carries([hint.label or ""], steering)
