"""Read facts about entries, with the labels of their pull requests that count."""

from collections.abc import Sequence
from dataclasses import replace

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry
from queue_engine.effects.actors import followed_login, is_somebody_else
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import LabelStates, effective_labels, wanted_labels
from queue_engine.effects.repository_names import named_by, remember_name
from queue_engine.executor import github_requests
from queue_engine.planner.actions import OF_PULL, FactKind, Facts

_WITH_PULL = OF_PULL | {FactKind.FRESH_RULES}


async def read_entry_fact(engine: Engine, entry: Entry, fact: FactKind, facts: Facts, policy: Policy) -> Facts | None:
    """Read a fact from GitHub, and return the facts with it; None if the repository has another name by now.

    Raises GitHubError.
    """
    before = (await wanted_labels(engine.store, entry))[entry.id] if fact in _WITH_PULL else None
    read = await github_requests.read_fact(engine.github, entry, fact, facts, policy)
    if read.pull is None or read.pull is facts.pull:
        return read
    if (named := named_by(read.pull, entry.repository)) != entry.repository:
        await remember_name(engine, named)
        return None
    if fact is not FactKind.PULL and await followed_login(engine, entry, read.snapshot) is not None:
        return None
    return await _with_labels(engine, entry, read, read.pull, policy, before)


async def read_entry_snapshots(engine: Engine, entries: Sequence[Entry], policy: Policy) -> dict[str, Facts]:
    """Read these entries in few requests, and return their facts by the entry's id; some may be missing.

    Raises GitHubError.
    """
    before = await wanted_labels(engine.store, *entries)
    read = await github_requests.read_snapshots(engine.github, entries, policy)
    found = dict[str, Facts]()
    for entry in entries:
        facts = read.get(entry.id)
        if facts is None or facts.pull is None or named_by(facts.pull, entry.repository) != entry.repository:
            continue
        if facts.snapshot is not None and is_somebody_else(entry, facts.snapshot):
            continue
        found[entry.id] = await _with_labels(engine, entry, facts, facts.pull, policy, before[entry.id])
    return found


async def _with_labels(
    engine: Engine, entry: Entry, read: Facts, pull: PullRequest, policy: Policy, before: LabelStates | None
) -> Facts:
    trusted = entry.trusted_labels
    pull = await effective_labels(engine.store, entry.repository, pull, trusted, policy, before=before)
    return replace(read, pull=pull)
