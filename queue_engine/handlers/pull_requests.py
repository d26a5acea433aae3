"""Handle events of pull requests: labels, pushes, titles.

They cost requests only where something queued may change. Nothing in a hint changes anything by itself that a fresh
read would not (webhooks are hints, GitHub is the truth).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from queue_engine.admission.admit import handle_enqueue_request
from queue_engine.admission.command_consent import overtaken
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.held import HeldPullRequests
from queue_engine.admission.label_order import await_earlier, postpone
from queue_engine.admission.label_throttle import LabelThrottle
from queue_engine.admission.revalidate import Push, left_to_pass, revalidate
from queue_engine.core.concurrency.key_order import KeyOrder, OrderWait
from queue_engine.domain.errors import LabelOrderError, ReadLagError, StaleRead, StaleRecord
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.policy import has_label
from queue_engine.domain.webhook_event import WebhookEvent
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import queued_by
from queue_engine.handlers.labels import LabelChanges


class PullRequestChanges:
    """Follows hints about pull requests."""

    def __init__(self, engine: Engine, waiting: HeldPullRequests) -> None:
        self._engine = engine
        self._enqueue_order = KeyOrder()
        self._throttled = LabelThrottle(engine)
        self._waiting = waiting
        self._labels = LabelChanges(engine, waiting)

    async def labelled(self, repository: Repository, hint: WebhookEvent) -> None:
        """Handle a label that was set: a trigger label requests to enqueue the pull request."""
        if hint.label is None or hint.number is None:
            return
        # The request takes its place in the order before anything is read: requests are answered in order (P3).
        with (
            self._enqueue_order.enter(repository.id) as turn,
            self._throttled.stand(repository, hint) as turn_of_person,
        ):
            try:
                if await self._queues_now(repository, hint, turn, turn_of_person):
                    return
            except (StaleRead, ReadLagError, LabelOrderError) as why:
                await postpone(self._engine, repository, hint, why)
                raise
        await self._labels.changed(repository, hint)

    async def _queues_now(
        self, repository: Repository, hint: WebhookEvent, turn: OrderWait, turn_of_person: OrderWait
    ) -> bool:
        """Check the eligibility for a trigger label, after earlier labels; False for any other label."""
        label, number = hint.label or "", hint.number or 0

        async def in_order() -> None:
            await turn()
            await await_earlier(self._engine, repository, hint)

        if not await self._queues(repository, hint, label):
            return False
        if hint.sender == await self._engine.github.own_login():
            return True
        if await self._throttled.put_off(repository, hint, turn_of_person):
            return True
        if await self._entry(repository, hint) is not None:
            # The label that queued it may have been taken off before: then it leaves, and this one is judged.
            await revalidate(self._engine, repository, number, delivery=hint.delivery)
            if await self._entry(repository, hint) is not None:
                return False
        if hint.arrived_at is not None:
            # Nothing is read while an earlier label is still to be answered.
            await await_earlier(self._engine, repository, hint)
        await self._request_enqueue(repository, hint, number, in_order)
        await self._throttled.judged(repository, hint)
        return True

    async def changed(self, repository: Repository, hint: WebhookEvent) -> None:
        """Something about a pull request changed: if it is queued, find out whether it may stay."""
        if hint.number is None:
            return
        removed_by_person = False
        if hint.action == "unlabeled" and hint.label is not None:
            if not await self._queued_by(repository, hint, hint.label):
                await self._labels.changed(repository, hint)
                return
            removed_by_person = hint.sender != await self._engine.github.own_login()
        elif hint.title is not None and not await self._title_matters(repository, hint):
            return
        async with self._engine.store.reading() as tx:
            queued = await tx.entries.stands(repository.id, hint.number)
            waits = not queued and await tx.held.find(repository.id, hint.number) is not None
        if (
            (queued or waits)
            and hint.action in {"synchronize", "edited"}
            and await overtaken(self._engine, repository, hint)
        ):
            return
        if waits and not await self._waiting.revalidate(repository, hint.number, push=_push_of(hint)):
            raise StaleRecord(f"pull request {hint.number} waits for a place no more")
        if not queued:
            return
        if hint.action == "synchronize" and await self._own_update(repository, hint):
            return
        if not await left_to_pass(self._engine, repository, hint.number):
            await revalidate(self._engine, repository, hint.number, delivery=hint.delivery, push=_push_of(hint))
        if removed_by_person:
            await self._labels.taken_off(repository, hint)

    async def _queues(self, repository: Repository, hint: WebhookEvent, label: str) -> bool:
        """Whether this label queues: on any branch, or on the pull request's base by that branch's own rules."""
        policies = self._engine.policies
        if has_label({label}, await policies.labels(repository)):
            return True
        return bool(hint.branch) and (await policies.of(repository, hint.branch or "")).has_trigger_label({label})

    async def _queued_by(self, repository: Repository, hint: WebhookEvent, label: str) -> bool:
        """Whether this label queues, or one of this pull request did before the configuration changed."""
        if await self._queues(repository, hint, label):
            return True
        entry = await self._entry(repository, hint)
        if entry is None:
            return False
        policy = await self._engine.policies.of(repository, entry.base_branch)
        async with self._engine.store.reading() as tx:
            return has_label([label], await queued_by(tx, repository.id, entry.number, entry.trusted_labels, policy))

    async def _request_enqueue(
        self, repository: Repository, hint: WebhookEvent, number: int, turn: Callable[[], Awaitable[None]]
    ) -> None:
        async with self._engine.change() as change:
            await change.tx.queues.refresh_repository(repository)
        await handle_enqueue_request(
            self._engine,
            EnqueueRequest(
                repository,
                number,
                by=hint.sender,
                label=hint.label,
                head_sha=hint.head_sha,
                base_branch=hint.branch,
                labelled_at=hint.updated_at,
                by_machine=hint.sender_is_bot,
                arrived_at=hint.arrived_at,
                delivery=hint.delivery,
            ),
            turn=turn,
        )

    async def _title_matters(self, repository: Repository, hint: WebhookEvent) -> bool:
        """Keep the new title; whether the configuration keeps any title out."""
        entry = await self._entry(repository, hint)
        if entry is None:
            return True
        if entry.title != hint.title:
            async with self._engine.change() as change:
                standing = await change.tx.entries.get(entry.id)
                if standing is not None:
                    await change.tx.entries.save(replace(standing, title=hint.title or ""))
        return bool((await self._engine.policies.of(repository, entry.base_branch)).blocking_titles)

    async def _entry(self, repository: Repository, hint: WebhookEvent) -> Entry | None:
        async with self._engine.store.reading() as tx:
            return await tx.entries.find(repository.id, hint.number or 0)

    async def _own_update(self, repository: Repository, hint: WebhookEvent) -> bool:
        """Whether a push is known already or is the update that was asked for; the latter is bound by its pass."""
        own = hint.sender == await self._engine.github.own_login()
        async with self._engine.change() as change:
            entry = await change.tx.entries.find(repository.id, hint.number or 0)
            if entry is None or hint.head_sha == entry.head:
                return True
            if not (own and entry.status is EntryStatus.UPDATING and hint.before == entry.head):
                return False
            await change.tx.entries.save(replace(entry, candidate_head=hint.head_sha, candidate_is_ours=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
        return True


def _push_of(hint: WebhookEvent) -> Push | None:
    if hint.action != "synchronize" or hint.sender is None or hint.head_sha is None:
        return None
    return Push(hint.sender, hint.head_sha)
