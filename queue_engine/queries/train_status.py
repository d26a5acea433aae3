"""Load the trains of a queue: at one instant, what they mean for each member, and what they saved in a period."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from queue_engine.core.read_model import serialized
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import Entry, TimelineEvent
from queue_engine.domain.notice import TrainLanding, TrainNotice, TrainProgress
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RUN_EVENTS, RUN_PASSED, RUN_STARTED, Run, RunState
from queue_engine.rules.check_progress import safe_link
from queue_engine.rules.departure_facts import job_figures
from queue_engine.rules.job_rates import NO_JOBS, JobFigures
from queue_engine.store import Transaction
from queue_engine.store.departures import DepartureQuery, day_of


@dataclass(frozen=True, slots=True)
class FailingMembers:
    """A run that failed, and whose cause is not found."""

    members: tuple[int, ...]
    """Those of the run that have not landed, in the order of the queue."""
    suspects: frozenset[int]
    """Members that no run has passed with since."""
    run: int | None = None
    """The id of the run, if plans still know it."""
    checks: tuple[FailingCheck, ...] = ()
    """The checks that failed, as far as plans keep them."""


@dataclass(frozen=True, slots=True)
class TrainBlocker:
    """Why IMQ tests one entry after the other, although the configuration asks for trains."""

    reason: Reason
    detail: str
    since: datetime


@dataclass(frozen=True, slots=True)
class TrainStatus:
    runs: tuple[Run, ...] = ()
    """Active runs, and runs that passed and have not landed, oldest first."""
    failed: tuple[FailingMembers, ...] = ()
    qualified: frozenset[int] = frozenset()
    conflicts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Members that did not merge onto all of these others."""
    tested_alone: Mapping[int, str] = field(default_factory=dict)
    """Pull requests of forks that are tested alone, by their own heads, and why."""
    filling: frozenset[int] = frozenset()
    """Members that wait for a fuller run."""
    of_agents: frozenset[int] = frozenset()
    """Members before which those of people may come; none where people have none."""
    suspicions: Mapping[int, float] = field(default_factory=dict)
    off: TrainBlocker | None = None

    def notice(self, number: int) -> TrainNotice | None:
        """Return what the trains do with one member; None if they do nothing with it now."""
        group = min((each for each in self.failed if number in each.suspects), key=_size, default=None)
        run = self.run_of(number)
        suspicion = self.suspicions.get(number)
        if run is not None:
            progress = _progress(run, number, group)
            failed = group.members if group and progress in _BISECTIONS else ()
            return TrainNotice(
                progress=progress,
                members=run.numbers,
                run=run.id,
                branch=run.branch,
                candidate=run.candidate,
                url=_page(run),
                failed=failed,
                suspicion=suspicion,
            )
        if group is not None:
            return TrainNotice(progress=TrainProgress.BISECTING, failed=group.members, suspicion=suspicion)
        if (why := self.tested_alone.get(number)) is not None:
            return TrainNotice(progress=TrainProgress.OWN_HEAD, own_head=why)
        if others := self.conflicts.get(number):
            conflict, unsure = (others[0], ()) if len(others) == 1 else (None, others)
            held = TrainProgress.HELD_BACK
            return TrainNotice(progress=held, conflict=conflict, conflicts=unsure, suspicion=suspicion)
        if number in self.qualified:
            return TrainNotice(progress=TrainProgress.QUALIFIED, suspicion=suspicion)
        return TrainNotice(progress=TrainProgress.FILLING) if number in self.filling else None

    def yields(self, number: int) -> bool:
        """Whether a member waits, and members of people may come before it."""
        return number in self.of_agents and self.run_of(number) is None

    def run_of(self, number: int) -> Run | None:
        """Return the most advanced run with this member; of several, the one that tests it."""
        found = [each for each in self.runs if number in each.numbers]
        return min(found, key=lambda each: each.precedence(number), default=None)


_BISECTIONS = frozenset({TrainProgress.BISECTING, TrainProgress.ALONE})


def _size(group: FailingMembers) -> int:
    return len(group.members)


def _page(run: Run) -> str | None:
    """Return the page of one of its checks: a failed one, else one that runs, else one that passed."""
    shown = [each for each in run.timings if each.url is not None]
    first = min(shown, key=lambda each: (each.passed is not False, each.ended is not None, each.name), default=None)
    return None if first is None else first.url


def _progress(run: Run, number: int, group: FailingMembers | None) -> TrainProgress:
    if run.has_passed:
        return TrainProgress.PASSED
    if group is not None and number in run.tested:
        return TrainProgress.ALONE if run.tested == {number} else TrainProgress.BISECTING
    return TrainProgress.BUILDING if run.state is RunState.BUILDING else TrainProgress.TESTING


async def load_trains(tx: Transaction, queue_id: int) -> TrainStatus:
    """Load the trains of a queue; nothing is stored where the queue never had any."""
    runs = await tx.runs.of_queue(queue_id)
    return train_status(runs, (await tx.trains.get(queue_id)).memory)


def train_status(runs: Sequence[Run], memory: Mapping[str, Any]) -> TrainStatus:
    """Read the memory of plans as far as people see it; `queue_engine.planner.trains.memory` writes it."""
    trains = memory.get("trains") or {}
    queue = [each["id"] for each in trains.get("queue", ())]
    off = memory.get("off")
    of_agents = frozenset(each["id"] for each in trains.get("queue", ()) if each.get("yields_until") is not None)
    return TrainStatus(
        runs=tuple(runs),
        failed=tuple(_group(each, queue, memory.get("failed") or ()) for each in trains.get("failures", ())),
        qualified=frozenset(each["id"] for each in trains.get("queue", ()) if each.get("qualified_at") is not None),
        conflicts=_conflicts(memory.get("conflicts") or {}, queue),
        tested_alone={
            int(number): one["why"]
            for number, one in (memory.get("tested_alone") or {}).items()
            if int(number) in queue
        },
        filling=frozenset((memory.get("filling") or {}).get("members", ())),
        of_agents=of_agents if len(of_agents) < len(queue) else frozenset(),
        suspicions={int(number): float(chance) for number, chance in (memory.get("suspicions") or {}).items()},
        off=None
        if off is None
        else TrainBlocker(Reason(off["reason"]), off["detail"], datetime.fromisoformat(off["since"])),
    )


def _group(failure: Mapping[str, Any], queue: Sequence[int], known: Sequence[Mapping[str, Any]]) -> FailingMembers:
    order = {number: place for place, number in enumerate(queue)}
    members = sorted(failure["content"], key=lambda number: order.get(number, len(order)))
    # Members may have landed since the run failed: the smallest run with all that have not is the one.
    its_own = [each for each in known if set(members) <= set(each["members"])]
    run = min(reversed(its_own), key=lambda each: len(each["members"]), default=None)
    if run is None:
        return FailingMembers(tuple(members), frozenset(failure["suspects"]))
    checks = tuple(FailingCheck(each["name"], safe_link(each.get("url"))) for each in run.get("checks") or ())
    return FailingMembers(tuple(members), frozenset(failure["suspects"]), run["run"], checks)


def _conflicts(stored: Mapping[str, Any], queue: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return the conflicts that hold: once one of the others landed or left, IMQ tries again."""
    return {
        int(number): tuple(others)
        for number, others in stored.items()
        if others and all(each in queue for each in others)
    }


_RUNS_READ = 200


async def load_landing(tx: Transaction, entry: Entry) -> TrainLanding | None:
    """Load with whom an entry landed; None if it landed by itself, outside a train."""
    if not entry.run.has_branch:
        return None
    started = await tx.timeline_reads.of_branch(entry.repository.id, entry.base_branch, [RUN_STARTED], limit=_RUNS_READ)
    return landing_of(entry.run, started)


def landing_of(run: Run, started: Sequence[TimelineEvent]) -> TrainLanding:
    """Return what the landing of a run saved: one CI run for each member, less those that tested any of them."""
    spent = sum(_tested(event, run.numbers) for event in started) or 1
    saved = len(run.numbers) - spent
    seconds = sum(
        (each.ended - each.started).total_seconds()
        for each in run.timings
        if each.started is not None and each.ended is not None
    )
    ci_saved = timedelta(seconds=seconds * saved) if seconds and saved > 0 else None
    return TrainLanding(members=run.numbers, runs_saved=saved, ci_saved=ci_saved)


def _tested(event: TimelineEvent, members: Collection[int]) -> bool:
    tested = event.data.get("tested")
    return isinstance(tested, list) and not set(members).isdisjoint(tested)


async def load_failure(tx: Transaction, entry: Entry) -> TrainNotice | None:
    """Load the smallest run that failed with this entry; None if no train tested the entry's head."""
    memory = (await tx.trains.get(entry.queue_id)).memory
    if list(memory.get("heads", {}).get(str(entry.number), ())) != [entry.id, entry.head_sha]:
        return None
    failed = [each for each in memory.get("failed", ()) if entry.number in each["members"]]
    if not failed:
        return None
    smallest = min(reversed(failed), key=lambda each: len(each["members"]))
    return TrainNotice(progress=TrainProgress.FAILED_ALONE, members=tuple(smallest["members"]), run=smallest["run"])


_MOST_EVENTS = 5_000
"""Events of one queue that are read, the newest."""


@dataclass(frozen=True, slots=True)
class TrainStatistics:
    """The CI runs of trains in a period, and how many pull requests landed by them."""

    runs: int
    landed: int
    run_seconds: float | None
    """How long a run that passed took on average, from its start to its last check."""
    run_jobs: JobFigures = NO_JOBS
    """What its jobs cost on average."""

    @serialized
    def runs_saved(self) -> int:
        """How many runs fewer than one for each landing; none if it took more."""
        return max(0, self.landed - self.runs)

    @serialized
    def seconds_saved(self) -> float | None:
        """How long the saved runs would have taken."""
        return None if self.run_seconds is None else self.runs_saved * self.run_seconds


async def load_train_statistics(tx: Transaction, query: DepartureQuery) -> TrainStatistics | None:
    """Load the sums of the queues that have trains; None where none has."""
    found: list[TimelineEvent] = []
    queues = [each for each in await tx.queues.all() if each.in_trains]
    for queue in queues:
        repository, branch = queue.repository.id, queue.base_branch
        if query.repository_ids is not None and repository not in query.repository_ids:
            continue
        if query.base_branch not in (None, branch):
            continue
        found += await tx.timeline_reads.of_branch(repository, branch, RUN_EVENTS, limit=_MOST_EVENTS)
    within = [each for each in found if query.first_day <= day_of(each.at) <= query.last_day]
    return train_sums(within) if within else None


def train_sums(events: Iterable[TimelineEvent]) -> TrainStatistics:
    """Add up the events of runs."""
    runs, landed, seconds, jobs = 0, 0, list[float](), NO_JOBS
    for event in events:
        if event.event == RUN_STARTED:
            runs += 1
        elif event.event == RUN_PASSED:
            seconds.append(float(event.data.get("seconds") or 0))
            jobs += job_figures(event)[0]
        elif event.data.get("outcome") == "landed":
            landed += len(event.data.get("members") or ())
    mean = sum(seconds) / len(seconds) if seconds else None
    return TrainStatistics(runs, landed, mean, jobs.times(1 / len(seconds)) if seconds else jobs)
