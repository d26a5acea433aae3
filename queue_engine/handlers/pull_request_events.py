"""Handle events of pull requests: labels, pushes, titles.

They cost requests only if they may concern a queued pull request. IMQ decides by a read made after the webhook, never
by the payload alone.

Labels count if a person with the right to queue set them. For a person without the right, IMQ asks GitHub only a few
times an hour (P7).
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import timedelta

import structlog

from queue_engine.admission.admit import handle_enqueue_request
from queue_engine.admission.bound_heads import bind_known_push
from queue_engine.admission.case import Case, EnqueueRequest, load_case
from queue_engine.admission.enqueue import enqueue
from queue_engine.admission.head_consent import is_commands
from queue_engine.admission.rejection import RejectionError, refuse
from queue_engine.admission.request_order import RequestOrder
from queue_engine.admission.revalidate import left_to_pass, revalidate
from queue_engine.admission.throttle import LabelThrottle, count_without_right, is_throttled, labeling
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.tasks import OrderWait
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.errors import RequestOrderError
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryOrder, EntryStatus, Repository
from queue_engine.domain.policy import GithubMergePolicy, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import HeadChange, LabelChange, LabelRequest, PullRequestChange, StateChange
from queue_engine.effects import record
from queue_engine.effects.context import Engine, EngineHandler
from queue_engine.effects.labels import queued_by
from queue_engine.effects.record import disable_later, read_again
from queue_engine.executor.cleanup import follow_landed
from queue_engine.executor.landing import settle_pending_merge
from queue_engine.executor.run_request import judge_again
from queue_engine.handlers.label_updates import LabelUpdates
from queue_engine.handlers.shadow_mode import ShadowHandler
from queue_engine.rules.consent import NewHead
from queue_engine.rules.eligibility import Reject, may_queue
from queue_engine.rules.priority import precedence_of, trusted_of
from queue_engine.rules.stacks import pull_request_in

_log = structlog.get_logger("imq.labels")


class LabelChanges(EngineHandler):
    """Follows changes of labels on pull requests that are queued."""

    async def changed(self, case: Case, webhook: LabelRequest | LabelChange) -> bool:
        """Handle a label that may dequeue, rank or consent; whether it is one of those."""
        repository = case.repository
        if case.entry is None:
            return False
        case = await case.with_policy(self._engine, case.entry.base_branch)
        ranks = _ranks(case.policy, webhook)
        if not has_label([webhook.label or ""], case.policy.blocking.labels | case.policy.require.labels) and not (
            ranks and not await is_throttled(self._engine, repository, labeling(webhook.sender or ""))
        ):
            return ranks
        if case.pull is None:
            case = await revalidate(self._engine, case)
        if ranks and case.entry is not None and case.pull is not None:
            await self._rank(case, case.entry, case.pull, webhook)
        return True

    async def removed(self, case: Case, webhook: LabelRequest | LabelChange) -> None:
        """Remove the trust in a removed trigger label: if another person sets it again, it is no consent."""
        known = case.entry
        if known is None or not has_label(known.trusted_labels, [webhook.label or ""]):
            return
        policy = (await case.with_policy(self._engine, known.base_branch)).policy
        async with self._engine.change() as change:
            entry = await change.tx.entries.get(known.id)
            if entry is not None and policy.has_trigger_label(
                trusted := _trusted_labels(entry.trusted_labels, webhook)
            ):
                await change.tx.entries.save(replace(entry, trusted_labels=trusted))

    async def _rank(self, case: Case, known: Entry, pull: PullRequest, webhook: LabelRequest | LabelChange) -> None:
        """Rank the entry by its labels, if the sender of the change may queue; other senders change no order."""
        repository, policy = case.repository, case.policy
        if _order_after(known, pull, policy, webhook) == _order_of(known):
            return
        if not await self._may_rank(repository, policy, webhook):
            return
        async with self._engine.change() as change:
            entry = await change.tx.entries.find(repository.id, pull.number)
            if entry is None:
                return
            trusted, order = given = _order_after(entry, pull, policy, webhook)
            if given == _order_of(entry):
                return
            placed = await change.tx.entries.reprioritise(
                replace(entry, trusted_labels=trusted), order, policy.priority.ageing
            )
            if order == _order_of(entry)[1]:
                return
            await change.tx.queues.wake(entry.queue_id, change.now)
            await change.record(
                "priority",
                entry,
                delivery=webhook.delivery,
                data={"by": webhook.sender, "priority": placed.priority, "position": placed.position}
                | await record.delays_caused(change, placed),
            )

    async def _may_rank(self, repository: Repository, policy: Policy, webhook: LabelRequest | LabelChange) -> bool:
        """Whether who changed the label may queue now; a throttled person may not. Raises GitHubError."""
        sender = webhook.sender or ""
        if not sender or await is_throttled(self._engine, repository, labeling(sender)):
            return False
        if may_queue(policy, sender, await self._engine.github.permission(repository, sender)) is None:
            return True
        await self._engine.write(lambda change: count_without_right(change, repository, labeling(sender)))
        _log.info(
            "label_without_right",
            repository=repository.full_name,
            number=webhook.number,
            label=webhook.label,
            by=sender,
        )
        return False


def _trusted_labels(before: Iterable[str], webhook: LabelRequest | LabelChange) -> tuple[str, ...]:
    """Return the trusted labels after a person with the right to queue has set or removed one."""
    label = webhook.label or ""
    others = {each for each in before if not has_label([each], [label])}
    return tuple(sorted(others | {label} if isinstance(webhook, LabelRequest) else others))


def _order_after(
    entry: Entry, pull: PullRequest, policy: Policy, webhook: LabelRequest | LabelChange
) -> tuple[tuple[str, ...], EntryOrder]:
    """Return the trusted labels after this change, and the order that those on the pull request give."""
    trusted = _trusted_labels(entry.trusted_labels, webhook)
    order = precedence_of(trusted_of(pull.labels, trusted), policy)
    ranked = has_label([webhook.label or ""], _priorities(policy))
    # A priority from a command holds until a priority label changes.
    return trusted, order if ranked else replace(order, priority=entry.priority)


def _order_of(entry: Entry) -> tuple[tuple[str, ...], EntryOrder]:
    return entry.trusted_labels, EntryOrder(**{each.name: getattr(entry, each.name) for each in fields(EntryOrder)})


def _priorities(policy: Policy) -> list[str]:
    return [each.label for each in policy.priority.labels]


def _ranks(policy: Policy, webhook: LabelRequest | LabelChange) -> bool:
    """Whether a label gives a priority, an exemption or a merge method, or is a trigger label."""
    ranking = (*_priorities(policy), *policy.freeze.exempt_labels, *policy.merge.method_labels, *policy.trigger_labels)
    return has_label([webhook.label or ""], ranking)


_AUTO_MERGE = frozenset({"auto_merge_enabled", "auto_merge_disabled"})
_REVIEWERS = frozenset({"review_requested", "review_request_removed"})
_FREES_OTHERS = frozenset({"closed", "unlabeled"})
"""Actions after which pull requests that waited for this one may join their queues."""


_ENDS_TESTS = frozenset({"closed", "synchronize", "edited"})
"""Actions that may end a test that somebody asked for by `/try`."""

_LANDING = timedelta(seconds=2)
"""How long the last step of a landing takes, about."""


class PullRequestChanges:
    """Follows webhooks about pull requests."""

    def __init__(self, engine: Engine, shadow: ShadowHandler, order: RequestOrder) -> None:
        """`shadow` follows the labels of repositories in shadow mode."""
        self._engine = engine
        self._shadow, self._updates = shadow, LabelUpdates(engine)
        self._order = order
        self._throttled = LabelThrottle(engine)
        self._labels = LabelChanges(engine)

    async def labeled(self, webhook: LabelRequest) -> bool:
        """Handle a label that was set; whether, as a trigger label, it asked for anything."""
        repository = webhook.repository
        # The request takes its place in the order before any read, so that requests are answered in order (P3).
        with (
            self._order.enter(repository, webhook.attempt) as in_order,
            self._throttled.enter(webhook) as person_order,
        ):
            if await self._shadow.is_shadow(repository, webhook):
                await self._shadow.follow(webhook)
                return False
            case = await load_case(self._engine, repository, webhook.number, delivery=webhook.delivery)
            case, queues = await self._triggers(replace(case, attempt=webhook.attempt, in_order=in_order), webhook)
            handled, case = await self._request_enqueue(case, webhook, person_order, queues=queues)
            if case.policy.update_label is not None and has_label([webhook.label], [case.policy.update_label]):
                await self._updates.labeled(case.repository, webhook.branch)
        case = replace(case, in_order=self._order.of(repository, webhook.attempt))
        return queues if handled else await self._labels.changed(case, webhook) or queues

    async def _request_enqueue(
        self, case: Case, webhook: LabelRequest, person_order: OrderWait, *, queues: bool
    ) -> tuple[bool, Case]:
        """Handle a trigger label, if it is one; whether this completes the webhook, and the case as it is then."""
        engine = self._engine
        ignored = queues and (
            webhook.sender == await engine.github.own_login() or await self._throttled.put_off(webhook, person_order)
        )
        if queues and not ignored and case.entry is not None:
            # The label that queued the entry may be gone: then the entry is dequeued, and this label is judged.
            case = await revalidate(engine, case)
        if queues and not ignored and case.entry is not None and _is_newer(case.entry, webhook):
            # What becomes of the label depends on whether the entry lands: then it is consent to the newer head.
            raise RequestOrderError("the head below it lands now", retry_after=_LANDING)
        if queues and not ignored and case.entry is None:
            await self._judge(case, webhook)
        return ignored or (queues and case.entry is None), case

    async def _judge(self, case: Case, webhook: LabelRequest) -> None:
        """Handle the enqueue request of a trigger label, after the requests before it."""
        engine = self._engine
        if webhook.attempt.arrived_at is not None and case.in_order is not None:
            # An earlier request has to be answered before any read.
            await case.in_order(webhook.branch, case.policy, EntryOrder())
        await engine.write(lambda change: change.tx.repositories.refresh(case.repository))
        await handle_enqueue_request(engine, _request_of(case, webhook))
        await self._throttled.judged(webhook)

    async def changed(self, webhook: PullRequestChange) -> None:
        """Handle a change of a pull request: if it is queued, revalidate its entry."""
        engine, repository, number = self._engine, webhook.repository, webhook.number
        if webhook.action in _FREES_OTHERS:
            await self._free(repository, number)
        case = await load_case(engine, repository, number, delivery=webhook.delivery)
        if case.entry is None or not case.entry.is_ready:
            # It may join its queue now.
            attempt = webhook.attempt
            case = replace(case, attempt=attempt, in_order=self._order.of(repository, attempt))
        if case.entry is not None:
            await self._revalidate(case, case.entry, webhook)
        elif isinstance(webhook, HeadChange) or webhook.action == "edited":
            await follow_landed(engine, repository, number)
        elif isinstance(webhook, StateChange) and webhook.action == "auto_merge_enabled":
            await self._queue_auto_merge(case, webhook)
        if webhook.action == "closed":
            await settle_pending_merge(engine, repository, number)
        if webhook.action in _ENDS_TESTS:
            # An update of IMQ's own is bound by now.
            await engine.write(lambda change: judge_again(change, repository, number))

    async def _queue_auto_merge(self, case: Case, webhook: StateChange) -> None:
        """Queue a pull request whose auto-merge somebody enabled, where the configuration says so: only the head that
        GitHub's button showed (P4). A refusal is announced as that of a label. Raises GitHubError.

        GitHub lets people with write permission enable auto-merge (docs, "Automatically merging a pull request"). The
        webhook has the head of that instant, as all of a pull request (Octokit's description of the event). It may come
        hours later: auto-merge that is off by then was withdrawn, by a person, or by GitHub after a change. Enabling it
        again renews the request.
        """
        engine, by = self._engine, webhook.sender
        case = await case.with_policy(engine, webhook.branch)
        policy = case.policy
        if policy.auto_merge is not GithubMergePolicy.QUEUE or not policy.enabled or by is None:
            return
        taken = await engine.github.snapshot(case.repository, case.number, login=by)
        pull, head = taken.pull, webhook.head_sha
        if not (pull.open and pull.auto_merge and pull.base_branch == webhook.branch):
            return
        source = ConsentKind.AUTO_MERGE
        try:
            await enqueue(engine, case, by=by, head_sha=head, taken=taken, may_wait=True, source=source)
        except RejectionError as refused:
            if refused.reason is Reason.SHADOW_MODE:
                return
            async with engine.change() as change:
                queue = await change.tx.queues.find_or_create(case.repository, webhook.branch, change.now)
                why = Reject(refused.reason, refused.detail)
                await refuse(change, queue, pull, why, policy, by=by, delivery=case.delivery)

    async def _revalidate(self, case: Case, entry: Entry, webhook: PullRequestChange) -> None:
        engine, removed = self._engine, None
        if isinstance(webhook, LabelChange) and webhook.label is not None:
            case, queues = await self._queued_by(case, entry, webhook.label)
            if not queues:
                await self._labels.changed(case, webhook)
                return
            removed = webhook if webhook.sender != await engine.github.own_login() else None
        elif isinstance(webhook, StateChange) and webhook.title is not None:
            case, matters = await self._retitled(case, entry, webhook.title)
            if not matters:
                return
        elif isinstance(webhook, StateChange) and webhook.action in _REVIEWERS:
            case = await case.with_policy(engine, entry.base_branch)
            if entry.is_ready or not case.policy.require.reviews_done:
                return
        elif isinstance(webhook, StateChange) and webhook.action in _AUTO_MERGE:
            if not await self._withdraws(case, entry, webhook):
                return
        elif isinstance(webhook, HeadChange) and await self._own_update(webhook):
            return
        if not await left_to_pass(engine, case.repository, case.number):
            case, head = await case.with_policy(engine, entry.base_branch), None
            if isinstance(webhook, HeadChange):
                own = webhook.sender == await engine.github.own_login()
                head = NewHead(webhook.head_sha, webhook.sender, webhook.before, by_imq=own)
                if await bind_known_push(engine, case, head):
                    return
            case = await revalidate(engine, case, push=None if head is None or head.by is None else head)
        if removed is not None:
            await self._labels.removed(case, removed)

    async def _free(self, repository: Repository, number: int) -> None:
        """Have the pull requests read again that wait for this one, which may have landed or left its queue."""
        async with self._engine.change() as change:
            waiting = await change.tx.entries.waiting_outside(repository.id)
            for entry in waiting:
                if any(pull_request_in(each.detail) == number for each in entry.unmet):
                    await read_again(change, repository, entry.number)
            for other, waiting_number in await change.tx.entries.awaiting(f"{repository.full_name.lower()}#{number}"):
                await read_again(change, other, waiting_number)

    async def _triggers(self, case: Case, webhook: LabelRequest) -> tuple[Case, bool]:
        """Whether this is a trigger label of the pull request's base branch."""
        case = await case.with_policy(self._engine, webhook.branch)
        return case, case.policy.has_trigger_label([webhook.label])

    async def _queued_by(self, case: Case, entry: Entry, label: str) -> tuple[Case, bool]:
        """Whether this label is a trigger label now, or was one when it queued this pull request."""
        case = await case.with_policy(self._engine, entry.base_branch)
        async with self._engine.store.reading() as tx:
            queuing = await queued_by(tx, case.repository.id, entry.number, entry.trusted_labels, case.policy)
        return case, case.policy.has_trigger_label([label]) or has_label([label], queuing)

    async def _retitled(self, case: Case, entry: Entry, title: str) -> tuple[Case, bool]:
        """Store the new title; whether the configuration blocks any titles."""
        if entry.title != title:
            async with self._engine.change() as change:
                present = await change.tx.entries.get(entry.id)
                saved = None if present is None else await change.tx.entries.save(replace(present, title=title))
            case = replace(case, entry=saved)
        case = await case.with_policy(self._engine, entry.base_branch)
        return case, bool(case.policy.blocking.titles)

    async def _withdraws(self, case: Case, entry: Entry, webhook: StateChange) -> bool:
        """Whether a changed auto-merge may take the entry out; otherwise IMQ disables it without a read, or ignores it.

        A read may be older than this webhook.
        """
        policy = (await case.with_policy(self._engine, entry.base_branch)).policy
        enabled = webhook.action == "auto_merge_enabled"
        if enabled and policy.auto_merge.disables:
            await self._engine.write(lambda change: disable_later(change, case.repository, case.number))
        return enabled and policy.auto_merge is GithubMergePolicy.REFUSE

    async def _own_update(self, webhook: HeadChange) -> bool:
        """Whether a push is known already, or is the requested update, which the next pass binds."""
        repository = webhook.repository
        own = webhook.sender == await self._engine.github.own_login()
        async with self._engine.change() as change:
            entry = await change.tx.entries.find(repository.id, webhook.number)
            if entry is None:
                return True
            if webhook.head_sha == entry.head_sha:
                return not await is_commands(change.tx, repository, entry.number, entry.head_sha, change.now)
            if not (own and entry.status is EntryStatus.UPDATING and webhook.before == entry.head_sha):
                return False
            await change.tx.entries.save(
                replace(entry, run=replace(entry.run, new_head=webhook.head_sha, new_head_is_ours=True))
            )
            await change.tx.queues.wake(entry.queue_id, change.now)
        return True


def _is_newer(entry: Entry, webhook: LabelRequest) -> bool:
    """Whether the label was set on another head than the one that lands now."""
    return entry.run.merge_requested_at is not None and webhook.head_sha not in {entry.head_sha, entry.queued_head}


def _request_of(case: Case, webhook: LabelRequest) -> EnqueueRequest:
    """Create the enqueue request of the person who set the label."""
    return EnqueueRequest(
        case,
        by=webhook.sender,
        label=webhook.label,
        head_sha=webhook.head_sha,
        base_branch=webhook.branch,
        labeled_at=webhook.updated_at,
        by_machine=webhook.sender_is_bot,
    )
