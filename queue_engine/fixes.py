"""What mends a red base and was marked so before its label meant anything: found when the base is looked at.

A label's webhook tells of it only where the configuration knows the label. One that becomes a fix's label later needs
not be set again: GitHub tells who carries it, who set it, and when.
"""

from collections.abc import Sequence
from dataclasses import replace

from queue_engine.door import may_queue
from queue_engine.engine import Change, Engine
from queue_engine.model import Entry, Queue
from queue_engine.policy import Policy


async def marked(engine: Engine, queue: Queue, entries: Sequence[Entry], policy: Policy) -> dict[str, str]:
    """Who marked which of these entries as a fix, by the entry's id, beside those known; one request for each label.

    A label counts that whoever queued the pull request saw on it, or that somebody set since who may queue. Raises
    GitHubError.
    """
    github, repository, found = engine.github, queue.repository, dict[str, str]()
    waiting = {entry.number: entry for entry in entries if not entry.fixes_base}
    if not waiting:
        return found
    for label in policy.fix_labels:
        for number in await github.labelled_pull_requests(repository, label):
            if (entry := waiting.get(number)) is None or entry.id in found:
                continue
            last = await github.last_labelling(repository, number, label)
            if last is None:
                continue
            if last.at <= entry.enqueued_at:
                found[entry.id] = entry.queued_by
            elif last.by and may_queue(policy, last.by, await github.permission(repository, last.by)) is None:
                found[entry.id] = last.by
    return found


async def let_through(change: Change, entry_id: str, by: str) -> None:
    """The entry counts as a fix from now on. Raises StaleVersion if it changed in this moment."""
    entry = await change.tx.entries.get(entry_id)
    if entry is None or entry.fixes_base:
        return
    await change.tx.entries.save(replace(entry, fixes_base=True))
    await change.record("priority", entry, data={"by": by, "priority": entry.priority, "position": entry.position})
