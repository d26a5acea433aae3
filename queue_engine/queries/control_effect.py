"""Predict what a jump, a dequeue or a requeue costs: who is delayed, which runs end, and the CI time that is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.model import PROCESSING, Entry
from queue_engine.queries.check_view import CheckStatus, check_views
from queue_engine.queries.queue_status import load_durations
from queue_engine.rules.priority import delay
from queue_engine.store import Transaction


@dataclass(frozen=True, slots=True)
class ControlEffect:
    """The effect of one request on a queue, before anything is done."""

    entry: Entry
    position: int | None
    """The position afterwards, counted from 0; None: the pull request is not in its queue then."""
    delayed: tuple[int, ...]
    """The pull requests that land later."""
    by: timedelta | None
    """By about how much each is delayed; None while that is unknown."""
    sooner: tuple[int, ...]
    """The pull requests that land sooner."""
    ends_run: bool
    """Whether a run of the pull request ends without a result."""
    cancels_checks: bool
    """Whether IMQ cancels the workflow runs that it caused on GitHub."""
    running: tuple[str, ...]
    """The checks that have not ended."""
    lost: timedelta
    """The CI time that was spent in vain, all checks together, as far as IMQ knows."""
    preempts: int | None = None
    """The pull request whose run a hotfix ends; `lost` is how long that run took."""
    in_train: bool = False
    """Whether the run that ends is one of a train: the `delayed` are its other members, which are tested again."""


async def load_priority_effect(
    tx: Transaction, entry: Entry, priority: int, policy: Policy, now: datetime
) -> ControlEffect:
    """Predict what another priority of this entry does."""
    if not entry.is_ready:
        # It delays others once it is ready and joins.
        return ControlEffect(entry, None, (), None, (), False, False, (), timedelta(0))
    entries = await tx.entries.of_queue(entry.queue_id)
    rank = await tx.entries.rank_with(entry, priority, policy.priority.ageing)
    after = _placed([*(each for each in entries if each.id != entry.id), replace(entry, rank=rank, priority=priority)])
    moved = next(each for each in after if each.id == entry.id)
    durations = await load_durations(tx, entry.repository.id, entry.base_branch)
    effect = delay(after, moved, durations, now)
    before = {each.id: each.position for each in entries}
    later = tuple(each.number for each in after if each.id != entry.id and each.position > before[each.id])
    sooner = tuple(each.number for each in after if each.id != entry.id and each.position < before[each.id])
    lost = effect.lost or timedelta(0)
    return ControlEffect(
        moved, moved.position, later, effect.by, sooner, False, False, (), lost, preempts=effect.preempts
    )


async def load_dequeue_effect(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> ControlEffect:
    """Predict what the dequeue of this entry does."""
    return await _load_leaving(tx, entry, None, policy, now)


async def load_requeue_effect(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> ControlEffect:
    """Predict what it does to dequeue this entry, and to queue it again at the end."""
    last = await tx.entries.count(entry.queue_id) - 1 if entry.is_ready else None
    return await _load_leaving(tx, entry, last, policy, now)


async def _load_leaving(
    tx: Transaction, entry: Entry, position: int | None, policy: Policy, now: datetime
) -> ControlEffect:
    entries = await tx.entries.of_queue(entry.queue_id)
    runs = [run for run in await tx.runs.of_queue(entry.queue_id) if entry.number in run.numbers]
    members = {number for run in runs for number in run.numbers} - {entry.number}
    ends_run = entry.status in PROCESSING or bool(runs)
    checks = check_views(entry, {}, now) if ends_run else ()
    updated = policy.checks.cancel_outdated and entry.updated_from is not None
    return ControlEffect(
        entry,
        position,
        tuple(each.number for each in entries if each.number in members),
        now - min(run.started_at or now for run in runs) if runs else None,
        tuple(each.number for each in entries if each.position > entry.position and each.number not in members),
        ends_run,
        any(run.published_at is not None for run in runs) if runs else ends_run and updated,
        tuple(each.name for each in checks if each.status in {CheckStatus.RUNNING, CheckStatus.WAITING}),
        sum((each.elapsed for each in checks if each.elapsed is not None), timedelta(0)),
        in_train=bool(runs),
    )


def _placed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries in the order of their keys, with their positions (`queue_engine/store/order.py`)."""
    ordered = sorted(entries, key=lambda each: (each.status not in PROCESSING, not each.hotfix, each.rank, each.seq))
    return tuple(replace(each, position=position) for position, each in enumerate(ordered))
