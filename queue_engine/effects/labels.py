"""The labels that queued a pull request, and whether it still has them.

Labels steer only as far as somebody who may queue vouches for them. One that is missing because IMQ's own removal, of
an earlier stay, arrived after the pull request had been queued again is restored: that is no command of anybody's.

`trusted_labels` keeps the labels by which a pull request was queued. Other trigger labels do not hold it in the
queue, and a new configuration does not remove it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import Policy, has_label
from queue_engine.domain.port import GitHub
from queue_engine.store import Store, Transaction

_log = structlog.get_logger("imq.labels")

_UNDER_WAY = timedelta(minutes=2)
"""How long before a pull request is queued its label may be gone, unseen by the requester: an outbox item's lease."""


async def queued_by(
    tx: Transaction, repository_id: int, number: int, trusted: Iterable[str], policy: Policy
) -> frozenset[str]:
    """Those of the labels vouched for by which it was queued: that queue, or did before the configuration changed."""
    trusted = tuple(trusted)
    known = frozenset(label for label in trusted if policy.has_trigger_label([label]))
    if known or not trusted:
        return known
    told = await tx.timeline.queued_by(repository_id, number)
    return frozenset(label for label in trusted if has_label([label], told))


def queued_since(entry: Entry) -> datetime | None:
    """Since when a label that IMQ took off is one taken off by mistake; None while its merge is under way.

    A dequeue request during the merge has IMQ remove the label first, so that a merge that fails is not tried again.
    """
    return None if entry.merge_requested_at is not None else entry.enqueued_at


async def with_effective_labels(
    github: GitHub,
    store: Store,
    repository: Repository,
    pull: PullRequest,
    trusted: Iterable[str],
    policy: Policy,
    *,
    since: datetime | None,
) -> PullRequest:
    """The pull request, just read, with the labels that count: of those that queue, or name a method, no other than
    were vouched for. Raises GitHubError.

    Nothing is vouched for where that is not known, of one that was queued by an older IMQ: all its labels count then.
    `since` is when it was queued; None if somebody may have called it off, so that no label is set again.
    """
    trusted = tuple(trusted)
    if not trusted or not pull.open:
        return pull
    async with store.reading() as tx:
        queuing = await queued_by(tx, repository.id, pull.number, trusted, policy)
    if since is not None and queuing and not has_label(pull.labels, queuing):
        pull = await _set_again(github, repository, pull, queuing, since - _UNDER_WAY)
    return _counted(pull, trusted, queuing, policy)


def _counted(pull: PullRequest, trusted: Iterable[str], queuing: Iterable[str], policy: Policy) -> PullRequest:
    trusted = tuple(trusted)
    guarded = (*policy.trigger_labels, *policy.method_labels)
    labels = {label for label in pull.labels if not has_label([label], guarded) or has_label([label], trusted)}
    if has_label(pull.labels, queuing):
        # By whatever name the label goes in the configuration now.
        labels.add(policy.trigger_label)
    return replace(pull, labels=frozenset(labels))


async def _set_again(
    github: GitHub, repository: Repository, pull: PullRequest, queuing: Iterable[str], since: datetime
) -> PullRequest:
    """Set the label again that went last, if it was IMQ that took it off since then."""
    number = pull.number
    gone = {label: await github.last_unlabelling(repository, number, label) for label in sorted(queuing)}
    removals = [(removal.at, label, removal.by) for label, removal in gone.items() if removal is not None]
    if not removals:
        return pull
    at, label, by = max(removals, key=lambda each: each[0])
    if at < since or by != await github.own_login():
        return pull
    await github.add_label(repository, number, label)
    _log.info("label_set_again", repository=repository.full_name, number=number, label=label)
    return replace(pull, labels=pull.labels | {label})
