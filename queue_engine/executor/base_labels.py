"""Find pull requests that were labelled as the fix of a red base before the label had that meaning.

A label's webhook tells of it only where the configuration knows the label. One that becomes a fix's label later needs
not be set again: GitHub tells who carries it, who set it, and when.
"""

from collections.abc import Sequence
from dataclasses import replace

from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.policy import Policy
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.eligibility import may_queue


async def find_fixes(engine: Engine, queue: Queue, entries: Sequence[Entry], policy: Policy) -> dict[str, str]:
    """Who marked which of these entries as a fix, by the entry's id, beside those known; one request for each label.

    A label counts if it was on the pull request when it was queued, or if a person who may queue set it since. Raises
    GitHubError.
    """
    github, repository, found = engine.github, queue.repository, dict[str, str]()
    waiting = {entry.number: entry for entry in entries if not entry.fixes_base}
    if not waiting:
        return found
    for label in policy.fix_labels:
        for number in await github.labeled_pull_requests(repository, label):
            if (entry := waiting.get(number)) is None or entry.id in found:
                continue
            last = await github.last_labeled_event(repository, number, label)
            if last is None:
                continue
            if last.at <= entry.enqueued_at:
                found[entry.id] = entry.queued_by
            elif last.by and may_queue(policy, last.by, await github.permission(repository, last.by)) is None:
                found[entry.id] = last.by
    return found


async def mark_as_fix(change: Change, entry_id: str, by: str) -> None:
    """The entry counts as a fix from now on. Raises StaleRecord if it changed in this moment."""
    entry = await change.tx.entries.get(entry_id)
    if entry is None or entry.fixes_base:
        return
    await change.tx.entries.save(replace(entry, fixes_base=True))
    await change.record("priority", entry, data={"by": by, "priority": entry.priority, "position": entry.position})
