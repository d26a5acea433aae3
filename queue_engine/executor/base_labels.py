"""Find pull requests that got a label for fixes of a red base before the configuration gave the label that meaning.

IMQ follows a label's webhook only if the configuration names the label then. If the configuration names the label
later, IMQ asks GitHub which pull requests have the label, and who set it. So the label need not be set again.
"""

from collections.abc import Sequence
from dataclasses import replace

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry, Queue
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.eligibility import may_queue


async def find_fixes(engine: Engine, queue: Queue, entries: Sequence[Entry], policy: Policy) -> dict[str, str]:
    """Return which of these entries are unknown fixes, as the entry's id with the login of the person who said so.

    A label counts if the pull request had it when it was queued, or if a person who may queue has set it since. Costs
    one request for each label. Raises GitHubError.
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
    """Mark the entry as a fix of the base. Raises StaleRecord if the entry changed meanwhile."""
    entry = await change.tx.entries.get(entry_id)
    if entry is None or entry.fixes_base:
        return
    await change.tx.entries.save(replace(entry, fixes_base=True))
    await change.record("priority", entry, data={"by": by, "priority": entry.priority, "position": entry.position})
