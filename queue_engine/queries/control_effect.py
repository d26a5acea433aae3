"""Predict what a control costs: who is delayed, which runs end, and the CI time that is lost."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from queue_engine.config.model import Policy
from queue_engine.domain.model import PROCESSING, Entry, Queue
from queue_engine.domain.run import RunState
from queue_engine.queries.check_view import CheckStatus, check_views
from queue_engine.queries.queue_status import load_durations
from queue_engine.rules.check_progress import entry_figures, train_figures
from queue_engine.rules.job_rates import NO_JOBS, JobFigures, total
from queue_engine.rules.priority import delay, usual_duration
from queue_engine.store import Transaction


@dataclass(frozen=True, slots=True)
class ControlEffect:
    """The effect of one request on a queue, before anything is done."""

    entry: Entry | None = None
    """None for a control of the whole queue."""
    position: int | None = None
    """The position afterwards, counted from 0; None: the pull request is not in its queue then."""
    delayed: tuple[int, ...] = ()
    """The pull requests that land later."""
    by: timedelta | None = None
    """By about how much each is delayed; None while that is unknown."""
    sooner: tuple[int, ...] = ()
    """The pull requests that land sooner."""
    ends_run: bool = False
    """Whether a run of the pull request ends without a result."""
    cancels_checks: bool = False
    """Whether IMQ cancels the workflow runs that it caused on GitHub."""
    running: tuple[str, ...] = ()
    """The checks that have not ended."""
    lost: timedelta = timedelta(0)
    """The CI time that was spent in vain, all checks together, as far as IMQ knows."""
    preempts: int | None = None
    """The pull request whose run a hotfix ends; `lost` is how long that run took."""
    in_train: bool = False
    """Whether the run that ends is one of a train: the `delayed` are its other members, which are tested again."""
    runs: int = 0
    """How many runs end without a result."""
    jobs: JobFigures = NO_JOBS
    """What the jobs of these runs have cost until now."""
    holds: bool = False
    """Whether no run ends: `runs` are those whose landing has to wait."""

    def facts(self) -> dict[str, Any]:
        """Return what a reply says of it."""
        return {"runs": self.runs, "jobs": asdict(self.jobs), "delayed": len(self.delayed), "holds": self.holds}


ControlKind = Literal["dequeue", "requeue", "priority"]


async def load_control_effect(
    tx: Transaction, kind: ControlKind, entry: Entry, points: int, policy: Policy, now: datetime
) -> ControlEffect:
    """Predict what a control of this entry does; `points` are those of a priority."""
    match kind:
        case "priority":
            return await load_priority_effect(tx, entry, points, policy, now)
        case "dequeue":
            return await load_dequeue_effect(tx, entry, policy, now)
        case "requeue":
            return await load_requeue_effect(tx, entry, policy, now)


async def load_priority_effect(
    tx: Transaction, entry: Entry, priority: int, policy: Policy, now: datetime
) -> ControlEffect:
    """Predict what another priority of this entry does."""
    if not entry.is_ready:
        # It delays others once it is ready and joins.
        return ControlEffect(entry)
    entries = await tx.entries.of_queue(entry.queue_id)
    rank = await tx.entries.rank_with(entry, priority, policy.priority.ageing)
    after = _placed([*(each for each in entries if each.id != entry.id), replace(entry, rank=rank, priority=priority)])
    moved = next(each for each in after if each.id == entry.id)
    durations = await load_durations(tx, entry.repository.id, entry.base_branch)
    effect = delay(after, moved, durations, now)
    before = {each.id: each.position for each in entries}
    later = tuple(each.number for each in after if each.id != entry.id and each.position > before[each.id])
    sooner = tuple(each.number for each in after if each.id != entry.id and each.position < before[each.id])
    ended = _own_runs([each for each in entries if each.number == effect.preempts], now)
    lost = effect.lost or timedelta(0)
    its_own = moved, moved.position, later, effect.by, sooner
    return ControlEffect(*its_own, lost=lost, preempts=effect.preempts, runs=len(ended), jobs=total(ended))


async def load_dequeue_effect(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> ControlEffect:
    """Predict what the dequeue of this entry does."""
    return await _load_leaving(tx, entry, None, policy, now)


async def load_requeue_effect(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> ControlEffect:
    """Predict what it does to dequeue this entry, and to queue it again at the end."""
    last = await tx.entries.count(entry.queue_id) - 1 if entry.is_ready else None
    return await _load_leaving(tx, entry, last, policy, now)


async def load_pause_effect(tx: Transaction, queue: Queue, now: datetime) -> ControlEffect:
    """Predict what a pause or a freeze of this queue does: runs go to their end, and nothing lands."""
    entries = await tx.entries.of_queue(queue.id)
    found = [*_own_runs(entries, now), *(train_figures(each, now)[0] for each in await tx.runs.of_queue(queue.id))]
    delayed = tuple(each.number for each in entries)
    return ControlEffect(delayed=delayed, runs=len(found), jobs=total(found), holds=True)


async def load_hotfix_effect(tx: Transaction, queue: Queue, policy: Policy, now: datetime) -> ControlEffect:
    """Predict what a hotfix does that joins this queue now, and preempts: all but earlier hotfixes wait longer."""
    entries = await tx.entries.of_queue(queue.id)
    runs = await tx.runs.of_queue(queue.id)
    durations = await load_durations(tx, queue.repository.id, queue.base_branch)
    hotfixes = {each.number for each in entries if each.hotfix}
    ended: list[JobFigures] = []
    if policy.trains.enabled or runs:
        # As `queue_engine.planner.trains.plan` frees a slot: the youngest run ends, unless it tests a hotfix.
        active = [each for each in runs if each.state in {RunState.BUILDING, RunState.TESTING}]
        known = (await tx.trains.get(queue.id)).memory.get("trains") or {}
        full = len(active) >= (policy.trains.runs or known.get("slots") or 1)
        victim = next((each for each in reversed(active) if not hotfixes & set(each.numbers)), None) if full else None
        ended = [] if victim is None else [train_figures(victim, now)[0]]
    elif entries and not entries[0].hotfix:
        ended = _own_runs(entries[:1], now)
    delayed = tuple(each.number for each in entries if not each.hotfix)
    by, ends = usual_duration(durations), len(ended)
    return ControlEffect(None, len(hotfixes), delayed, by, ends_run=bool(ended), runs=ends, jobs=total(ended))


def _own_runs(entries: Sequence[Entry], now: datetime) -> list[JobFigures]:
    """Return what the jobs of each run cost that tests one of these entries by its own head."""
    tested = [each for each in entries if each.status in PROCESSING and not each.run.has_branch]
    return [entry_figures(each, now)[0] for each in tested]


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
        runs=len(runs) or int(ends_run),
        jobs=total(train_figures(each, now)[0] for each in runs) if runs else total(_own_runs([entry], now)),
    )


def _placed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries in the order of their keys, with their positions (`queue_engine/store/order.py`)."""
    ordered = sorted(entries, key=lambda each: (each.status not in PROCESSING, not each.hotfix, each.rank, each.seq))
    return tuple(replace(each, position=position) for position, each in enumerate(ordered))
