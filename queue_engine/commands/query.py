"""Read commands: why a pull request waits, and its queue. They ask GitHub nothing."""

from dataclasses import asdict, astuple
from datetime import datetime
from typing import Any

from queue_engine.commands.context import CommandContext
from queue_engine.commands.parse import CommandRequest
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.notice import Reply
from queue_engine.domain.replies import ReplyKind
from queue_engine.queries.pull_request_status import PullRequestStatus, load_pull_request
from queue_engine.queries.queue_status import EntryView, load_queue
from queue_engine.store import Transaction

SHOWN = 10
"""The number of entries that a reply shows."""


async def why(tx: Transaction, context: CommandContext, request: CommandRequest, now: datetime) -> Reply:
    """Reply with the status of the pull request, why it waits, whose move it is, and the reason for the next step."""
    policies = {context.pull.base_branch: context.policy}
    found = await load_pull_request(tx, context.repository.id, context.pull.number, policies, now)
    facts = _facts(found, context.policy.trigger_label)
    if found.base_branch is not None:
        # Its entry is of the branch for which it was queued; the pull request may just have got another one.
        facts["base_branch"] = found.base_branch
    facts["whose_move"], facts["next"] = found.whose_move.value, found.reason.value
    if context.policy.not_followed:
        facts["not_followed"] = list(context.policy.not_followed)
    return context.reply(request, ReplyKind.WHY, state=found.state, **facts)


def _facts(found: PullRequestStatus, label: str) -> dict[str, Any]:
    """Return the facts of a pull request; `share` if entries that joined later are ahead for its author's share."""
    share = {} if found.fair_share is None else {"share": list(astuple(found.fair_share))}
    if found.entry is not None:
        return entry_facts(found.entry) | share
    if found.unmet:
        return {"unmet": [each.as_data() for each in found.unmet]}
    if found.held_behind is not None:
        return {"ahead": found.held_behind, "depth": found.depth} | share
    last = found.previous
    if last is None:
        return {"label": label}
    reason = None if last.reason is None else last.reason.value
    cause = {} if last.cause is None else {"cause": asdict(last.cause)}
    facts = {"label": label, "event": last.event, "reason": reason, "detail": last.detail, "at": last.at.isoformat()}
    return facts | cause


def entry_facts(view: EntryView) -> dict[str, Any]:
    """Return the facts of an entry; those that do not apply are left out.

    `position`, `depth`; `ahead`: the numbers before it, the front first, at most ten; `status_since`, `enqueued_at`,
    `queued_by`, `priority`, `hotfix`; `train`: what a train does with it; `pending_checks`: those that have not
    reported; `blocked`: the reason for which its queue continues without it; `outage`: since when GitHub's faults hold
    it up; `blockers`: its blockers, as a list of `reason`, `detail` and `until`.
    """
    entry, position = view.entry, view.position
    facts: dict[str, Any] = {
        "position": entry.position,
        "depth": position.depth,
        "status_since": entry.status_since.isoformat(),
        "enqueued_at": entry.enqueued_at.isoformat(),
        "queued_by": entry.queued_by,
        "priority": entry.priority,
        "hotfix": entry.hotfix,
        "ahead": list(position.ahead),
        "pending_checks": list(view.pending_checks),
        "blockers": [blocker_facts(blocker) for blocker in view.blockers],
    }
    if view.train is not None:
        facts["train"] = view.train.model_dump(mode="json", exclude_defaults=True)
    if view.deferral is not None:
        facts["blocked"] = view.deferral.reason.value
    if view.outage is not None:
        facts["outage"] = view.outage.since.isoformat()
    return facts


def blocker_facts(blocker: Blocker) -> dict[str, Any]:
    """`reason`, `detail`, and `until` (or null)."""
    until = None if blocker.until is None else blocker.until.isoformat()
    return {"reason": blocker.reason.value, "detail": blocker.detail, "until": until}


async def status(tx: Transaction, context: CommandContext, request: CommandRequest, now: datetime) -> Reply:
    """Reply with the queue of the base branch."""
    queue = await tx.queues.find(context.repository.id, context.pull.base_branch)
    if queue is None:
        return context.reply(request, ReplyKind.STATUS, depth=0, entries=[], held=0, not_ready=0)
    found = await load_queue(tx, queue, context.policy, now)
    entries = [view.entry for view in found.entries[:SHOWN]]
    facts: dict[str, Any] = {
        "depth": found.depth,
        "entries": [[each.number, each.status.value, each.status_since.isoformat()] for each in entries],
        "held": found.held,
        "not_ready": found.not_ready,
    }
    if found.blockers:
        facts["blockers"] = [blocker_facts(blocker) for blocker in found.blockers]
    return context.reply(request, ReplyKind.STATUS, **facts)
