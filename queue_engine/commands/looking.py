"""What commands only look at: where a pull request stands, what it waits for, and its queue. It asks GitHub nothing."""

from datetime import datetime
from typing import Any

from queue_engine.commands.asked import Asked
from queue_engine.commands.codes import ReplyCode
from queue_engine.commands.reading import Typed
from queue_engine.model import Entry, Queue
from queue_engine.notice import Reply
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from queue_engine.standing import is_blocked, standstills
from queue_engine.store import Transaction
from queue_engine.store.timeline import TimelineEvent

SHOWN = 10
"""How many entries of a queue are shown."""


async def why(tx: Transaction, asked: Asked, typed: Typed, now: datetime) -> Reply:
    """Where this pull request stands and what it waits for."""
    repository, pull = asked.repository, asked.pull
    limits: dict[str, Any] = {"not_followed": list(asked.policy.not_followed)} if asked.policy.not_followed else {}
    queue = await tx.queues.find(repository.id, pull.base_branch)
    entries = () if queue is None else await tx.entries.of_queue(queue.id)
    entry = next((each for each in entries if each.number == pull.number), None)
    if entry is not None and queue is not None:
        return asked.reply(typed, ReplyCode.WHY, **standing(queue, entries, entry, asked.policy, now), **limits)
    if queue is not None and await tx.held.find(repository.id, pull.number) is not None:
        ahead = await tx.held.ahead(queue.id, repository.id, pull.number)
        return asked.reply(typed, ReplyCode.WHY, state="held", ahead=ahead, depth=len(entries), **limits)
    last = ended(await tx.timeline.of_pull_request(repository.id, pull.number))
    label = asked.policy.trigger_label
    return asked.reply(typed, ReplyCode.WHY, state="not_queued", label=label, **last, **limits)


def standing(queue: Queue, entries: tuple[Entry, ...], entry: Entry, policy: Policy, now: datetime) -> dict[str, Any]:
    """The facts of an entry. What is not so is left out.

    `state`: its status. `position`, `depth`; `ahead`: the numbers before it, the front first, at most ten; `since`: of
    its status; `joined`, `queued_by`, `priority`; `awaited`: the checks that have not reported, and `until`: when they
    are given up; `blocked`: the reason for which its queue goes on without it; `trouble_since`: GitHub's own faults
    hold it up; `halts`: why the queue stands still for it, as a list of `reason`, `detail` and `until`.
    """
    facts: dict[str, Any] = {
        "state": entry.status.value,
        "position": entry.position,
        "depth": len(entries),
        "since": entry.status_since.isoformat(),
        "joined": entry.enqueued_at.isoformat(),
        "queued_by": entry.queued_by,
        "priority": entry.priority,
        "first": entry.first,
        "ahead": [each.number for each in entries if each.position < entry.position][:SHOWN],
        "awaited": [name for name in entry.awaited_checks if name not in entry.reported_checks],
        "halts": [
            {"reason": halt.reason.value, "detail": halt.detail, "until": halt.until and halt.until.isoformat()}
            for halt in standstills(queue, policy, now)
            if not halt.lets(entry)
        ],
    }
    if is_blocked(entry, now):
        facts["blocked"] = Reason.WORKFLOWS_PERMISSION.value
    if entry.trouble_since is not None:
        facts["trouble_since"] = entry.trouble_since.isoformat()
    return facts


def ended(events: tuple[TimelineEvent, ...]) -> dict[str, Any]:
    """How its last stay ended, from its story: `event`, `reason`, `detail` and `at`; nothing if it never had one."""
    for event in sorted(events, key=lambda each: each.id, reverse=True):
        if event.event == "landed" or event.reason is not None:
            reason = None if event.reason is None else event.reason.value
            detail = (event.data or {}).get("detail")
            return {"event": event.event, "reason": reason, "detail": detail, "at": event.at.isoformat()}
    return {}


async def status(tx: Transaction, asked: Asked, typed: Typed, now: datetime) -> Reply:
    """The queue of its base branch."""
    queue = await tx.queues.find(asked.repository.id, asked.pull.base_branch)
    if queue is None:
        return asked.reply(typed, ReplyCode.STATUS, depth=0, entries=[], held=0)
    entries = await tx.entries.of_queue(queue.id)
    facts: dict[str, Any] = {
        "depth": len(entries),
        "entries": [[each.number, each.status.value, each.status_since.isoformat()] for each in entries[:SHOWN]],
        "held": await tx.held.count(queue.id),
    }
    for halt in standstills(queue, asked.policy, now)[:1]:
        until = halt.until and halt.until.isoformat()
        facts |= {"reason": halt.reason.value, "detail": halt.detail, "until": until}
    return asked.reply(typed, ReplyCode.STATUS, **facts)
