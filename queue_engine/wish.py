"""The wish to land: by which labels a pull request was queued, and whether they are still there.

Labels steer only as far as somebody who may queue vouches for them. One that is missing because IMQ's own removal, of
an earlier stay, arrived after the pull request had been queued anew is set again: that is no command of anybody's.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from queue_engine.facts import PullRequest
from queue_engine.model import Entry, Repository
from queue_engine.policy import Policy, carries
from queue_engine.port import GitHub
from queue_engine.store import Store, Transaction

_log = structlog.get_logger("imq.wish")

_UNDER_WAY = timedelta(minutes=2)
"""How long before a pull request is queued its label may have gone, unseen by whoever queued it: a letter's lease."""


async def queued_by(
    tx: Transaction, repository_id: int, number: int, vouched: Iterable[str], policy: Policy
) -> frozenset[str]:
    """Those of the labels vouched for by which it was queued: that queue, or did before the configuration changed."""
    vouched = tuple(vouched)
    known = frozenset(label for label in vouched if policy.triggered([label]))
    if known or not vouched:
        return known
    told = await tx.timeline.queued_by(repository_id, number)
    return frozenset(label for label in vouched if carries([label], told))


def queued_since(entry: Entry) -> datetime | None:
    """Since when a label that IMQ took off is one taken off by mistake; None while its merge is under way.

    Whoever calls it off then has IMQ take the label off first, so that a merge that fails is not tried again.
    """
    return None if entry.merge_requested_at is not None else entry.enqueued_at


async def as_wished(
    github: GitHub,
    store: Store,
    repository: Repository,
    pull: PullRequest,
    vouched: Iterable[str],
    policy: Policy,
    *,
    since: datetime | None,
) -> PullRequest:
    """The pull request, just read, with the labels that count: of those that queue, or name a method, no other than
    were vouched for. Raises GitHubError.

    Nothing is vouched for where that is not known, of one that was queued by an older IMQ: all its labels count then.
    `since` is when it was queued; None if somebody may have called it off, so that no label is set again.
    """
    vouched = tuple(vouched)
    if not vouched or not pull.open:
        return pull
    async with store.reading() as tx:
        wished = await queued_by(tx, repository.id, pull.number, vouched, policy)
    if since is not None and wished and not carries(pull.labels, wished):
        pull = await _set_again(github, repository, pull, wished, since - _UNDER_WAY)
    return _counted(pull, vouched, wished, policy)


def _counted(pull: PullRequest, vouched: Iterable[str], wished: Iterable[str], policy: Policy) -> PullRequest:
    vouched = tuple(vouched)
    guarded = (*policy.trigger_labels, *policy.method_labels)
    labels = {label for label in pull.labels if not carries([label], guarded) or carries([label], vouched)}
    if carries(pull.labels, wished):
        # By whatever name the label goes in the configuration now.
        labels.add(policy.trigger_label)
    return replace(pull, labels=frozenset(labels))


async def _set_again(
    github: GitHub, repository: Repository, pull: PullRequest, wished: Iterable[str], since: datetime
) -> PullRequest:
    """Set the label again that went last, if it was IMQ that took it off since then."""
    number = pull.number
    gone = {label: await github.last_unlabelling(repository, number, label) for label in sorted(wished)}
    removals = [(removal.at, label, removal.by) for label, removal in gone.items() if removal is not None]
    if not removals:
        return pull
    at, label, by = max(removals, key=lambda each: each[0])
    if at < since or by != await github.own_login():
        return pull
    await github.add_label(repository, number, label)
    _log.info("label_set_again", repository=repository.full_name, number=number, label=label)
    return replace(pull, labels=pull.labels | {label})
