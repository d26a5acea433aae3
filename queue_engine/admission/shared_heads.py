"""Follow IMQ's own update of a head branch that several queued pull requests share."""

from dataclasses import replace
from typing import TypeVar

import structlog

from queue_engine.admission.case import Case
from queue_engine.config.model import Policy
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import Admit, NotReady, Reject
from queue_engine.rules.shared_heads import (
    behind_others,
    head_branch_of,
    merged_tip,
    most_active,
    named,
    updated_for,
    with_shared_update,
)
from queue_engine.store import Transaction

A = TypeVar("A")

_log = structlog.get_logger("imq.shared_heads")


async def behind_shared_head(
    tx: Transaction, repository: Repository, pull: PullRequest, policy: Policy, answer: A
) -> A | NotReady | Reject:
    """Let a pull request wait while another one of the same branch is queued: IMQ may update the branch for that one.

    Any other answer than that it may join, or wait, remains.
    """
    branch = head_branch_of(pull)
    if branch is None or not isinstance(answer, Admit | NotReady):
        return answer
    others = await tx.entries.sharing(repository.id, pull.number, branch)
    return behind_others(others, pull, policy, answer)


async def is_alone(engine: Engine, entry: Entry) -> bool:
    """Return whether an entry waits for others of its branch, although none of them is queued any more."""
    if entry.head_branch is None or all(each.reason is not Reason.HEAD_SHARED for each in entry.unmet):
        return False
    async with engine.store.reading() as tx:
        others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
    return not any(other.is_ready for other in others)


async def follow_shared_update(engine: Engine, case: Case, head: str, *, pushed_by_imq: bool) -> Case | None:
    """Bind a new head that IMQ made for another pull request, or dequeue the entry; returns the case as it is then.

    None if IMQ did not make it, as far as webhook (`pushed_by_imq`) and stored entries show. `case` has its policy.
    Raises GitHubError, and StaleRecord if the entry changed meanwhile.
    """
    entry = case.entry
    if entry is None or entry.head_branch is None or entry.run.merge_requested_at is not None:
        return None
    async with engine.store.reading() as tx:
        others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
    other = updated_for(entry, head, others) or (most_active(others) if pushed_by_imq else None)
    if other is None and not pushed_by_imq:
        return None
    is_proved = await _brings_nothing_new(engine, entry, head, case.policy)
    async with engine.change() as change:
        if is_proved:
            saved = await change.tx.entries.save(with_shared_update(entry, head, change.now))
            data = {"head": head, "before": entry.head, "for": None if other is None else other.number}
            await change.record("shared_update", saved, delivery=case.delivery, data=data)
            await change.tx.queues.wake(entry.queue_id, change.now)
        else:
            why = DequeueReason(Reason.UPDATED_FOR_ANOTHER, named(other), delivery=case.delivery)
            await record.dequeue(change, entry, why, case.policy)
            saved = None
    event = "dequeued" if saved is None else "shared_update"
    _log.info(event, repository=case.repository.full_name, number=case.number, head=head)
    return replace(case, entry=saved)


async def _brings_nothing_new(engine: Engine, entry: Entry, head: str, policy: Policy) -> bool:
    """Whether this head is the entry's, merged with a commit that its own base branch contains."""
    compared = await engine.github.comparison(entry.repository, entry.base_branch, head)
    if (tip := merged_tip(entry, compared, policy)) is None:
        return False
    return (await engine.github.comparison(entry.repository, entry.base_branch, tip)).head_landed
