"""Hints about pull requests: labels, pushes, titles.

They cost requests only where something queued may change. Nothing in a hint changes anything by itself that a fresh
read would not (webhooks are hints, GitHub is the truth).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import fields, replace

import structlog

from queue_engine import journal
from queue_engine.admission import Knock, admit
from queue_engine.command_consent import overtaken
from queue_engine.core.line import Line, Turn
from queue_engine.door import may_queue
from queue_engine.engine import Engine
from queue_engine.errors import EarlierLabel, OutdatedRead, StaleVersion, TooEarly
from queue_engine.facts import PullRequest
from queue_engine.hints import Hint, HintKind
from queue_engine.label_order import await_earlier, postpone
from queue_engine.model import Entry, EntryStatus, Repository
from queue_engine.places import still_waiting
from queue_engine.policy import Policy, carries
from queue_engine.priority import Standing, of_these, standing_of
from queue_engine.review import Push, left_to_pass, review
from queue_engine.throttle import count_without_right, is_throttled, labelling
from queue_engine.throttled_labels import ThrottledLabels
from queue_engine.waiting_line import WaitingLine
from queue_engine.wish import queued_by

_log = structlog.get_logger("imq.changes")


class PullRequestChanges:
    """Follows hints about pull requests."""

    def __init__(self, engine: Engine, waiting: WaitingLine) -> None:
        self._engine = engine
        self._knocking = Line()
        self._throttled = ThrottledLabels(engine)
        self._waiting = waiting

    async def labelled(self, repository: Repository, hint: Hint) -> None:
        """A label was set: one that queues is a knock at the door."""
        if hint.label is None or hint.number is None:
            return
        # The place in the line is taken before anything is asked for: knocks are answered in their order (P3).
        with self._knocking.stand(repository.id) as turn, self._throttled.stand(repository, hint) as turn_of_person:
            try:
                if await self._queues_now(repository, hint, turn, turn_of_person):
                    return
            except (OutdatedRead, TooEarly, EarlierLabel) as why:
                await postpone(self._engine, repository, hint, why)
                raise
        await self._other_label(repository, hint)

    async def _queues_now(self, repository: Repository, hint: Hint, turn: Turn, turn_of_person: Turn) -> bool:
        """Judge a label that queues at the door, after those that came before; False for any other label."""
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
            await review(self._engine, repository, number, delivery=hint.delivery)
            if await self._entry(repository, hint) is not None:
                return False
        if hint.arrived_at is not None:
            # Nothing is read while an earlier label is still to be answered.
            await await_earlier(self._engine, repository, hint)
        await self._knock(repository, hint, number, in_order)
        await self._throttled.judged(repository, hint)
        return True

    async def changed(self, repository: Repository, hint: Hint) -> None:
        """Something about a pull request changed: if it is queued, find out whether it may stay."""
        if hint.number is None:
            return
        called_off = False
        if hint.action == "unlabeled" and hint.label is not None:
            if not await self._queued_by(repository, hint, hint.label):
                await self._other_label(repository, hint)
                return
            called_off = hint.sender != await self._engine.github.own_login()
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
        if waits and not await self._waiting.review(
            repository, hint.number, push=_push_of(hint), called_off=called_off
        ):
            raise StaleVersion(f"pull request {hint.number} waits for a place no more")
        if not queued:
            return
        if hint.action == "synchronize" and await self._own_update(repository, hint):
            return
        if not await left_to_pass(self._engine, repository, hint.number):
            push, delivery = _push_of(hint), hint.delivery
            await review(self._engine, repository, hint.number, delivery=delivery, push=push, called_off=called_off)
        if called_off:
            await self._take_back(repository, hint)

    async def _queues(self, repository: Repository, hint: Hint, label: str) -> bool:
        """Whether this label queues: on any branch, or on the pull request's base by that branch's own rules."""
        policies = self._engine.policies
        if carries({label}, await policies.labels(repository)):
            return True
        return bool(hint.branch) and (await policies.of(repository, hint.branch or "")).triggered({label})

    async def _queued_by(self, repository: Repository, hint: Hint, label: str) -> bool:
        """Whether this label queues, or one of this pull request did before the configuration changed."""
        if await self._queues(repository, hint, label):
            return True
        entry = await self._entry(repository, hint)
        if entry is None:
            return False
        policy = await self._engine.policies.of(repository, entry.base_branch)
        async with self._engine.store.reading() as tx:
            return carries([label], await queued_by(tx, repository.id, entry.number, entry.vouched, policy))

    async def _knock(
        self, repository: Repository, hint: Hint, number: int, turn: Callable[[], Awaitable[None]]
    ) -> None:
        async with self._engine.change() as change:
            await change.tx.queues.refresh_repository(repository)
        await admit(
            self._engine,
            Knock(
                repository,
                number,
                by=hint.sender,
                head_sha=hint.head_sha,
                base_branch=hint.branch,
                labelled_at=hint.updated_at,
                by_machine=hint.sender_is_bot,
                arrived_at=hint.arrived_at,
                delivery=hint.delivery,
            ),
            turn=turn,
        )

    async def _other_label(self, repository: Repository, hint: Hint) -> None:
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

    async def _take_back(self, repository: Repository, hint: Hint) -> None:
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

    async def _title_matters(self, repository: Repository, hint: Hint) -> bool:
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

    async def _entry(self, repository: Repository, hint: Hint) -> Entry | None:
        async with self._engine.store.reading() as tx:
            return await tx.entries.find(repository.id, hint.number or 0)

    async def _own_update(self, repository: Repository, hint: Hint) -> bool:
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


def _push_of(hint: Hint) -> Push | None:
    if hint.action != "synchronize" or hint.sender is None or hint.head_sha is None:
        return None
    return Push(hint.sender, hint.head_sha)
