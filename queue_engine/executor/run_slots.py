"""Scarce runners: have a run wait for a free one, while runs that need none pass it.

A pull request needs such runners if one of their checks ran on its own head, or is required and was not reported
there, or runs in the queue alone. Unknown counts as needed: a run may wait, and never tests less. Runs of all queues of
the repository share the runners. The pull request that waits longest gets the next free one: no queue keeps them (P5).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import CheckState, RequiredCheck
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import RunSlots
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.notices import announce_blockers
from queue_engine.planner.check_limits import check_deadline
from queue_engine.rules.checks import needs_runner, required_checks

_log = structlog.get_logger("imq.run_slots")

RUNNER_AGAIN = timedelta(seconds=30)
"""How soon IMQ looks again for a free runner, without a request to GitHub."""

_MOST_HEADS = 1_000
"""Heads that a process remembers."""

_USING = frozenset({EntryStatus.UPDATING, EntryStatus.CHECKING})


@dataclass(frozen=True, slots=True)
class _Full:
    """Runners that a run has to wait for."""

    words: str
    queues: frozenset[int]
    """Other queues of which a pull request waits longer for a free one."""


async def set_aside_for_runner(
    engine: Engine,
    entries: Sequence[Entry],
    policy: Policy,
    *,
    active: Collection[int] = (),
    ending: Collection[int] = (),
) -> bool:
    """Set aside those not `active` that need a busy runner; whether a run of all waits. Raises StaleRecord.

    The runs of the pull requests `ending` end for this one, so they count as no more.
    """
    if not policy.capacity:
        return False
    waits = False
    required = await _required(engine, entries[0], policy)
    for entry in entries:
        if (full := await _full(engine, entry, policy, required, ending)) is not None:
            waits = True
            if entry.number not in active and entry.status is EntryStatus.PENDING:
                await _set_aside(engine, entry, full, policy)
    return waits


async def release_for_runner(engine: Engine, entries: Sequence[Entry], policy: Policy) -> bool:
    """Have as many entries go on as have a free runner; whether there are any. Raises StaleRecord."""
    now = engine.clock.now()
    released = False
    for entry in entries:
        if entry.blocked_for is None or entry.blocked_until is None or entry.blocked_until <= now:
            continue
        if await _full(engine, entry, policy, await _required(engine, entry, policy)) is None:
            async with engine.change() as change:
                await change.tx.entries.save(replace(entry, blocked_until=now))
            released = True
    return released


async def _required(engine: Engine, entry: Entry, policy: Policy) -> frozenset[RequiredCheck] | None:
    try:
        return required_checks(await engine.github.branch_rules(entry.repository, entry.base_branch), policy)
    except GitHubError:
        return None


async def _full(
    engine: Engine,
    entry: Entry,
    policy: Policy,
    required: frozenset[RequiredCheck] | None,
    ending: Collection[int] = (),
) -> _Full | None:
    """Return the first runners that the entry needs, and of which none is free for it."""
    of_repository: tuple[Entry, ...] | None = None
    for capacity in policy.capacity:
        if not await _needs(engine, entry, capacity, policy, required):
            continue
        if of_repository is None:
            of_repository = await _entries(engine, entry.repository)
        now = engine.clock.now()
        runs: dict[object, list[Entry]] = {}
        for each in of_repository:
            if each.number not in {entry.number, *ending} and _uses_runners(each, policy, now):
                runs.setdefault(each.run.id, []).append(each)
        busy = 0
        for members in runs.values():
            needed = [await _needs(engine, each, capacity, policy, required) for each in members]
            busy += any(needed)
        longer = [each for each in of_repository if _waits_longer(each, entry, capacity, now)]
        if busy + len(longer) >= capacity.runs:
            # A free one for which others waited longer is theirs in a moment, and the comment stays as it is.
            words = f"{capacity.name}: {capacity.runs} of {capacity.runs} busy"
            return _Full(words, frozenset(each.queue_id for each in longer))
    return None


def _uses_runners(entry: Entry, policy: Policy, now: datetime) -> bool:
    """Whether checks of an entry's run may be under way: a queue that is paused judges none, however long (P5)."""
    run = entry.run
    has_ended = bool(run.pending_checks) and {*run.pending_checks} <= {*run.completed_checks}
    return entry.status in _USING and not has_ended and now <= check_deadline(run, policy)


def _waits_longer(other: Entry, entry: Entry, capacity: RunSlots, now: datetime) -> bool:
    """Whether an entry of another queue has waited longer for these runners, and its queue still looks for one."""
    if other.queue_id == entry.queue_id or other.blocked_for is None or other.blocked_since is None:
        return False
    waits = other.blocked_for.startswith(f"{capacity.name}: ")
    is_current = other.blocked_until is not None and other.blocked_until + RUNNER_AGAIN > now
    return waits and is_current and (other.blocked_since, other.seq) < (entry.blocked_since or now, entry.seq)


async def _entries(engine: Engine, repository: Repository) -> tuple[Entry, ...]:
    async with engine.store.reading() as tx:
        queues = await tx.queues.of_repository(repository.id)
        return tuple([entry for queue in queues for entry in await tx.entries.of_queue(queue.id)])


async def _needs(
    engine: Engine,
    entry: Entry,
    capacity: RunSlots,
    policy: Policy,
    required: frozenset[RequiredCheck] | None,
) -> bool:
    """Whether a run with this entry may need these runners."""
    ran = await _ran_on_head(engine, entry)
    return required is None or needs_runner(capacity, ran, required | policy.checks.queue_only)


async def _ran_on_head(engine: Engine, entry: Entry) -> Mapping[str, bool]:
    """Return whether each check on the queued head ran, or was skipped; read once, unless some have not ended."""
    key = (entry.repository.id, entry.queued_head)
    if (known := engine.checks_of_heads.get(key)) is not None:
        return known
    try:
        reports = await engine.github.check_reports(entry.repository, entry.queued_head, frozenset())
    except GitHubError:
        return {}
    found = {each.name: not each.skipped for each in reports}
    if found and all(each.state is not CheckState.PENDING for each in reports):
        if len(engine.checks_of_heads) >= _MOST_HEADS:
            engine.checks_of_heads.clear()
        engine.checks_of_heads[key] = found
    return found


async def _set_aside(engine: Engine, entry: Entry, full: _Full, policy: Policy) -> None:
    """Have the entry wait; only the first time, its comment and its history say so."""
    now = engine.clock.now()
    waiting = replace(
        entry, blocked_since=entry.blocked_since or now, blocked_until=now + RUNNER_AGAIN, blocked_for=full.words
    )
    async with engine.change() as change:
        saved = await change.tx.entries.save(waiting)
        if entry.blocked_for is None:
            blocker = Blocker(Reason.RUNNERS_BUSY, full.words)
            await announce_blockers(change, saved, [blocker], policy, kind=NoticeKind.BLOCKED)
            await change.record("blocked", saved, reason=Reason.RUNNERS_BUSY, data={"detail": full.words})
            _log.info("waits_for_runner", repository=saved.repository.full_name, number=saved.number)
        for queue_id in sorted(full.queues):
            await change.tx.queues.wake(queue_id, now)
