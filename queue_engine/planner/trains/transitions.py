"""Change the state of a queue for what runs, landings and people do."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from queue_engine.planner.trains.model import FailingRun, Member, TrainRun, Trains

_FAILURES_KEPT = 64
"""Of more, the oldest one that a smaller one explains goes first."""
_MOST_SAVED = 32.0
"""Runs. A long time with few failures does not pay for one with many."""


def run_passed(trains: Trains, run: TrainRun, now: float, checks: Mapping[str, int] = MappingProxyType({})) -> Trains:
    """Qualify the members of a run that passed, and clear them; `checks` are its own, with their failures before.

    What failed and passes now had flaked. If its last suspect passed without the others on a base where they failed,
    all of them are suspected to break together; on another base, that is not known, and it counts no longer.
    """
    content = frozenset(run.content)
    queue = tuple(
        replace(each, qualified_at=now) if each.id in content and not each.qualified else each
        for each in _yielding(trains, run, yields=False)
    )
    failures, flakes = [], trains.estimates.flakes.observed(False)
    trains = trains.with_checks(checks, passed=True)
    for failed in trains.failures:
        suspects = failed.suspects - content
        if failed.content <= content and (run.extends_base or not failed.on_base):
            for _ in range(failed.times):
                flakes = flakes.observed(True)
            trains = trains.with_checks(dict.fromkeys(failed.checks, failed.times), passed=False)
        elif suspects or failed.on_base:
            failures.append(replace(failed, suspects=suspects or failed.content))
    return replace(
        _ended(trains, run),
        queue=queue,
        passed=(*trains.passed, run) if run.extends_base and run.content else trains.passed,
        failures=tuple(failures),
        estimates=replace(trains.estimates, flakes=flakes),
    )


def run_failed(trains: Trains, run: TrainRun, times: int = 1, checks: Iterable[str] = ()) -> Trains:
    """Keep a run that CI failed by these checks, so many times, as evidence against its unlanded members."""
    content = frozenset(run.content)
    failed = FailingRun(content, content, times, run.extends_base, tuple(sorted({*checks})))
    failures = _once((*trains.failures, failed)) if content else trains.failures
    return replace(_ended(trains, run), queue=_yielding(trains, run, yields=False), failures=failures)


def run_cancelled(trains: Trains, run: TrainRun, *, yields: bool = False) -> Trains:
    """Forget a run that ended without an outcome; `yields`: it has members of agents, and ended for people."""
    queue = _yielding(trains, run, yields=True) if yields else trains.queue
    return replace(_ended(trains, run), queue=queue)


def run_landed(trains: Trains, run: TrainRun) -> Trains:
    """Move the base to the tree of a run that passed; other runs go on on top of it, or beside it."""
    landed = frozenset(run.content)
    estimates = trains.estimates
    for each in trains.queue:
        if each.id in landed:
            estimates = estimates.settled(each, False, failed=False).settled(each, True, failed=False)
            trains = _resolved(trains, each, 1)
    return replace(
        trains,
        queue=tuple(each for each in trains.queue if each.id not in landed),
        runs=tuple(_on_top_of(each, run.content) for each in trains.runs),
        passed=tuple(
            rest
            for each in trains.passed
            if each.id != run.id and (rest := _on_top_of(each, run.content)).extends_base and rest.content
        ),
        failures=_once(left for each in trains.failures if (left := _without_landed(each, landed)) is not None),
        estimates=estimates,
    )


def ejected(trains: Trains, member: Member) -> Trains:
    """Take out a member that makes runs fail."""
    estimates = trains.estimates.settled(member, False, failed=not member.qualified)
    if member.qualified:
        estimates = estimates.settled(member, True, failed=True)
    # One by one, the checks of a run that fails are run once more.
    return removed(replace(_resolved(trains, member, 2), estimates=estimates), member.id)


def removed(trains: Trains, member: int) -> Trains:
    """Take out a member, and the evidence of runs that had it, since it alone may have made them fail."""
    return replace(
        trains,
        queue=tuple(each for each in trains.queue if each.id != member),
        passed=tuple(each for each in trains.passed if member not in each.content),
        failures=tuple(each for each in trains.failures if member not in each.content),
    )


def base_pushed(trains: Trains) -> Trains:
    """Note that somebody else moved the base: no run extends it, qualified members stay qualified."""
    return replace(
        trains,
        runs=tuple(replace(each, extends_base=False) for each in trains.runs),
        passed=(),
        failures=tuple(replace(each, on_base=False) for each in trains.failures),
    )


def _yielding(trains: Trains, run: TrainRun, *, yields: bool) -> tuple[Member, ...]:
    """Return the members, with one run more that ended for people; with an outcome the count begins again."""
    content = {*run.content}
    return tuple(
        replace(each, yields=each.yields + 1 if yields else 0) if each.id in content else each for each in trains.queue
    )


def _ended(trains: Trains, run: TrainRun) -> Trains:
    """Return them without an active run, which has cost what it cost."""
    left = tuple(each for each in trains.runs if each.id != run.id)
    content = {*run.content}
    of_agents = any(each.yields_until is not None for each in trains.queue if each.id in content)
    return _saving(replace(trains, runs=left), len(left) - len(trains.runs), of_agents=of_agents)


def _resolved(trains: Trains, member: Member, runs: int) -> Trains:
    """Count the runs that a member would have cost alone, where those that flake are run again."""
    saved = runs / (1 - trains.estimates.flake_chance)
    return _saving(trains, saved, of_agents=member.yields_until is not None)


def _saving(trains: Trains, runs: float, *, of_agents: bool) -> Trains:
    before = trains.saved_by_agents if of_agents else trains.saved
    saved = max(-_MOST_SAVED, min(before + runs, _MOST_SAVED))
    return replace(trains, saved_by_agents=saved) if of_agents else replace(trains, saved=saved)


def _without_landed(failed: FailingRun, landed: frozenset[int]) -> FailingRun | None:
    """Return a failed run after a landing; None if it says nothing any more."""
    content, suspects = failed.content - landed, failed.suspects - landed
    on_base = failed.on_base and landed <= failed.content
    if not content or not (suspects or on_base):
        return None
    return replace(failed, suspects=suspects or content, content=content, on_base=on_base)


def _once(failures: Iterable[FailingRun]) -> tuple[FailingRun, ...]:
    """Return each content once, with all of its failures, where the first of them was; no more than are kept."""
    found = dict[frozenset[int], FailingRun]()
    for each in failures:
        same = found.get(each.content)
        found[each.content] = (
            each
            if same is None
            else replace(
                same,
                suspects=same.suspects | each.suspects,
                times=same.times + each.times,
                on_base=same.on_base or each.on_base,
                checks=same.checks if same.checks == each.checks else (),
            )
        )
    kept = tuple(found.values())
    for _ in range(len(kept) - _FAILURES_KEPT):
        explained = (each for each in kept if any(other.content < each.content for other in kept))
        gone = next(explained, kept[0])
        kept = tuple(each for each in kept if each is not gone)
    return kept


def _on_top_of(run: TrainRun, landed: tuple[int, ...]) -> TrainRun:
    """Return a run after a landing."""
    extends = run.extends_base and run.content[: len(landed)] == landed
    gone = frozenset(landed)
    return replace(run, content=tuple(each for each in run.content if each not in gone), extends_base=extends)
