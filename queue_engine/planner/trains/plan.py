"""Plan the runs of a queue: qualify members in small groups side by side, combine what qualified, land what passed.

A wave of nested runs ends at its first bad member, however many runs it has. So groups that may well fail are tested as
siblings on the same base, and nested only on runs that are probably good. Members that passed are carried along by
later runs, and land with the first of them that passes and extends the base.
"""

from dataclasses import replace

from queue_engine.planner.trains.model import Plan, TrainRun, Trains
from queue_engine.planner.trains.new_runs import new_runs
from queue_engine.planner.trains.suspicion import Evidence, weigh
from queue_engine.planner.trains.transitions import run_failed

_DOUBT = 0.02
"""A member is ejected when it makes its run fail by a chance of all but this."""
_DOUBT_WHEN_LATE = 0.10
"""The same once the oldest member has waited `_LATE_RUNS` usual runs."""
_LATE_RUNS = 6.0
_MOST_TESTS = 8
"""A member whose tree alone has failed so often is ejected, however often runs flake (P5)."""
_LOST_BENEATH = 0.25
"""A run is cancelled when what lies beneath its own members is good by less than this chance."""
_LIKELY = 0.5


def plan(trains: Trains, now: float) -> Plan:
    """Return the next landing, or else the ejections, or else the runs to cancel and to start."""
    evidence = weigh(trains)
    if (run := _landing(trains, evidence, now)) is not None:
        return Plan(land=run)
    if eject := _ejections(trains, evidence, now):
        return Plan(eject=eject)
    cancel = _lost_runs(trains, evidence)
    cancel += _preempted_runs(trains, cancel)
    left = replace(trains, runs=tuple(each for each in trains.runs if each.id not in cancel))
    return Plan(cancel=cancel, start=new_runs(left, evidence, now))


def failure_ejects(trains: Trains, run: TrainRun, now: float) -> bool:
    """Whether the only member of this run is ejected if it fails, without another run."""
    failed = run_failed(trains, run)
    return run.content[0] in _ejections(failed, weigh(failed), now)


def _landing(trains: Trains, evidence: Evidence, now: float) -> TrainRun | None:
    """Return the longest run that passed and that no better active run would lose by."""
    for run in sorted(trains.passed, key=lambda run: (-len(run.content), run.id)):
        rivals = (each for each in trains.runs if each.extends_base and each.content[: len(run.content)] != run.content)
        if not any(_outweighs(each, run, trains, evidence, now) for each in rivals):
            return run
    return None


def _outweighs(rival: TrainRun, run: TrainRun, trains: Trains, evidence: Evidence, now: float) -> bool:
    good = evidence.good(rival.content)
    progress = min(1.0, (now - rival.started) / trains.usual_seconds)
    return good >= _LIKELY and good * len(rival.content) * progress > len(run.content)


def _ejections(trains: Trains, evidence: Evidence, now: float) -> tuple[int, ...]:
    """Return the members that are as good as proved to fail on the present base, and that no run tests alone."""
    late = bool(trains.queue) and now - min(each.since for each in trains.queue) > _LATE_RUNS * trains.usual_seconds
    doubt = _DOUBT_WHEN_LATE if late else _DOUBT
    retested = {each.content[0] for each in trains.runs if len(each.content) == 1 and each.extends_base}
    alone = {next(iter(each.content)): each.times for each in trains.failures if len(each.content) == 1}
    return tuple(
        each.id
        for each in trains.queue
        if each.id not in retested
        and (alone.get(each.id, 0) >= _MOST_TESTS or (each.id in alone and evidence.chances[each.id] >= 1 - doubt))
    )


def _lost_runs(trains: Trains, evidence: Evidence) -> tuple[int, ...]:
    """Return the runs whose outcome would change nothing."""
    queued = {each.id: each for each in trains.queue}
    lost = []
    for run in trains.runs:
        ejected = any(each not in queued for each in run.content)
        undecided = any(
            not queued[each].qualified or _suspected(each, trains) or run.extends_base
            for each in run.tested
            if each in queued
        )
        if ejected or not undecided or evidence.good(run.beneath) < _LOST_BENEATH:
            lost.append(run.id)
    return tuple(lost)


def _suspected(member: int, trains: Trains) -> bool:
    return any(member in each.suspects for each in trains.failures)


def _preempted_runs(trains: Trains, cancelled: tuple[int, ...]) -> tuple[int, ...]:
    """Return the youngest runs, as many as hotfixes need that no run tests."""
    left = [each for each in trains.runs if each.id not in cancelled]
    active = {member for each in left for member in each.content}
    waiting = sum(each.preempts and each.id not in active and not each.qualified for each in trains.queue)
    hotfixes = {each.id for each in trains.queue if each.preempts}
    needed = min(1, waiting) - (trains.slots - len(left))
    victims = [each for each in reversed(left) if not hotfixes & set(each.content)]
    return tuple(each.id for each in victims[: max(0, needed)])
