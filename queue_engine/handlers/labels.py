"""Handle labels that give a queued pull request a priority, an exemption or a merge method, or dequeue it.

They count if a person with the right to queue set them. For a person without the right, IMQ asks GitHub only a few
times an hour (P7).
"""

from collections.abc import Iterable
from dataclasses import fields, replace

import structlog

from queue_engine.admission.case import Case
from queue_engine.admission.revalidate import revalidate
from queue_engine.admission.throttle import count_without_right, is_throttled, labeling
from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryOrder, Repository
from queue_engine.domain.policy import has_label
from queue_engine.domain.webhooks import LabelChange, LabelRequest
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import may_queue
from queue_engine.rules.priority import precedence_of, trusted_of

_log = structlog.get_logger("imq.labels")


class LabelChanges:
    """Follows changes of labels on pull requests that are queued."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def changed(self, case: Case, webhook: LabelRequest | LabelChange) -> bool:
        """Handle a changed label that may dequeue an entry, change its priority, or be consent for it.

        Returns whether it is such a label.
        """
        repository = case.repository
        if case.entry is None:
            return False
        case = await case.with_policy(self._engine, case.entry.base_branch)
        ranks = _ranks(case.policy, webhook)
        if not has_label([webhook.label or ""], case.policy.blocking.labels) and not (
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
                | await record.delays_caused(change.tx, placed, change.now),
            )

    async def _may_rank(self, repository: Repository, policy: Policy, webhook: LabelRequest | LabelChange) -> bool:
        """Whether the person who changed the label may queue, by GitHub's present answer. Raises GitHubError.

        A throttled person may not, without a request.
        """
        sender = webhook.sender or ""
        if not sender or await is_throttled(self._engine, repository, labeling(sender)):
            return False
        if may_queue(policy, sender, await self._engine.github.permission(repository, sender)) is None:
            return True
        async with self._engine.change() as change:
            await count_without_right(change, repository, labeling(sender))
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
    """Return the entry's trusted labels and its order."""
    return entry.trusted_labels, EntryOrder(**{each.name: getattr(entry, each.name) for each in fields(EntryOrder)})


def _priorities(policy: Policy) -> list[str]:
    return [each.label for each in policy.priority.labels]


def _ranks(policy: Policy, webhook: LabelRequest | LabelChange) -> bool:
    """Whether a label gives a priority, an exemption or a merge method, or is a trigger label."""
    ranking = (*_priorities(policy), *policy.freeze.exempt_labels, *policy.merge.method_labels, *policy.trigger_labels)
    return has_label([webhook.label or ""], ranking)
