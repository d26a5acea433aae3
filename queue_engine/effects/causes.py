"""Explain a departure by GitHub's other facts: who caused it, and what GitHub itself did."""

from dataclasses import replace
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.dequeue_reason import Cause, DequeueReason
from queue_engine.domain.known_facts import KEPT, Known, of_pull
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.causes import cause_of, dismissal_of
from queue_engine.rules.eligibility import Reject

_MOST_LANDED = 5
"""How many landed pull requests are compared with one that GitHub shows as merged."""


async def explained(engine: Engine, entry: Entry, lost: Reject) -> Reject:
    """Return the reason of a departure as GitHub's other facts explain it. Raises GitHubError.

    GitHub closes the open pull requests of a base branch that is deleted (Kodiak #232 and #706), and marks one as
    merged whose commits land with another. No source says whom it names as the sender then, so IMQ names no one. IMQ
    reads more only for a pull request that was closed, or merged without IMQ's own call: the caller has found out about
    that.
    """
    if lost.reason is Reason.CLOSED and await engine.github.branch_tip(entry.repository, entry.base_branch) is None:
        return Reject(Reason.BASE_DELETED)
    if lost.reason is Reason.MERGED_ELSEWHERE and (other := await _landed_with(engine, entry)) is not None:
        return Reject(Reason.LANDED_WITH_ANOTHER, f"landed with #{other}")
    return lost


async def _landed_with(engine: Engine, entry: Entry) -> int | None:
    """Return which queued pull request landed with all commits of this entry; None if none is known.

    The heads that landed since this one was queued are compared, the newest first.
    """
    async with engine.store.reading() as tx:
        events = await tx.timeline_reads.of_branch(
            entry.repository.id, entry.base_branch, [EntryStatus.LANDED.value], limit=_MOST_LANDED
        )
    landed = [(each.number, each.data.get("head")) for each in events if each.at >= entry.enqueued_at]
    for number, head in landed:
        if number == entry.number or not isinstance(head, str):
            continue
        if head == entry.head or (await engine.github.comparison(entry.repository, head, entry.head)).head_landed:
            return number
    return None


async def load_cause(change: Change, entry: Entry, why: DequeueReason, policy: Policy | None) -> Cause | None:
    """Find who caused a departure, by the facts of webhooks."""
    if why.reason is Reason.PERMISSION_LOST:
        return Cause(entry.queued_by, entry.queued_by.endswith("[bot]"))
    known = await _known(change, entry)
    return cause_of(why, entry, known, lambda label: policy is None or policy.has_trigger_label([label]))


async def with_dismissal(change: Change, entry: Entry, lacks: UnmetRequirement) -> UnmetRequirement:
    """Return what the entry lacks, with who dismissed the approval after IMQ's update, if that is known."""
    cause = dismissal_of(entry, await _known(change, entry))
    if cause is None or cause.after_update is None:
        return lacks
    dismissed = f"dismissed by {cause.by} {cause.after_update:.0f} s after IMQ's update"
    return replace(lacks, detail="; ".join(filter(None, (lacks.detail, dismissed))))


async def _known(change: Change, entry: Entry) -> list[Known]:
    subject = of_pull(entry.number)
    return (await change.tx.known.about(entry.repository.id, [subject], since=change.now - KEPT)).get(subject, [])


def as_event_data(cause: Cause | None) -> dict[str, Any]:
    """Return the cause as data of an event."""
    if cause is None:
        return {}
    data: dict[str, Any] = {"dequeued_by": cause.by} | ({"by_bot": True} if cause.bot else {})
    return data if cause.after_update is None else data | {"after_update": cause.after_update}
