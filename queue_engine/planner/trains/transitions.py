"""Change the state of a queue for what runs, landings and people do."""

from dataclasses import replace

from queue_engine.planner.trains.model import FailingRun, Member, TrainRun, Trains


def run_passed(trains: Trains, run: TrainRun, now: float) -> Trains:
    """Qualify the members of a run that passed; failed runs whose last suspect is among them had flaked."""
    content = frozenset(run.content)
    queue = tuple(
        replace(each, qualified_at=now) if each.id in content and not each.qualified else each for each in trains.queue
    )
    failures, flakes = [], trains.estimates.flakes.observed(False)
    for failed in trains.failures:
        if suspects := failed.suspects - content:
            failures.append(replace(failed, suspects=suspects))
        elif failed.content <= content:
            flakes = flakes.observed(True)
    return replace(
        _without_run(trains, run),
        queue=queue,
        passed=(*trains.passed, run) if run.extends_base and run.content else trains.passed,
        failures=tuple(failures),
        estimates=replace(trains.estimates, flakes=flakes),
    )


def run_failed(trains: Trains, run: TrainRun) -> Trains:
    """Keep a failed run as evidence against those of its members that have not landed."""
    content = frozenset(run.content)
    failed = (*trains.failures, FailingRun(content, content)) if content else trains.failures
    return replace(_without_run(trains, run), failures=failed)


def run_cancelled(trains: Trains, run: TrainRun) -> Trains:
    """Forget a run that ended without an outcome."""
    return _without_run(trains, run)


def run_landed(trains: Trains, run: TrainRun) -> Trains:
    """Move the base to the tree of a run that passed; other runs go on on top of it, or beside it."""
    landed = frozenset(run.content)
    estimates = trains.estimates
    for each in trains.queue:
        if each.id in landed:
            estimates = estimates.settled(False, failed=False).settled(True, failed=False)
    return replace(
        trains,
        queue=tuple(each for each in trains.queue if each.id not in landed),
        runs=tuple(_on_top_of(each, run.content) for each in trains.runs),
        passed=tuple(
            rest
            for each in trains.passed
            if each.id != run.id and (rest := _on_top_of(each, run.content)).extends_base and rest.content
        ),
        failures=tuple(
            FailingRun(suspects, each.content - landed)
            for each in trains.failures
            if (suspects := each.suspects - landed)
        ),
        estimates=estimates,
    )


def ejected(trains: Trains, member: Member) -> Trains:
    """Take out a member that makes runs fail."""
    estimates = trains.estimates.settled(False, failed=not member.qualified)
    if member.qualified:
        estimates = estimates.settled(True, failed=True)
    return removed(replace(trains, estimates=estimates), member.id)


def removed(trains: Trains, member: int) -> Trains:
    """Take out a member, and the evidence of runs that had it, since it alone may have made them fail."""
    return replace(
        trains,
        queue=tuple(each for each in trains.queue if each.id != member),
        passed=tuple(each for each in trains.passed if member not in each.content),
        failures=tuple(each for each in trains.failures if member not in each.content),
    )


def base_pushed(trains: Trains) -> Trains:
    """Note that somebody else moved the base: no active run extends it, qualified members stay qualified."""
    return replace(trains, runs=tuple(replace(each, extends_base=False) for each in trains.runs), passed=())


def _without_run(trains: Trains, run: TrainRun) -> Trains:
    return replace(trains, runs=tuple(each for each in trains.runs if each.id != run.id))


def _on_top_of(run: TrainRun, landed: tuple[int, ...]) -> TrainRun:
    """Return a run after a landing."""
    extends = run.extends_base and run.content[: len(landed)] == landed
    gone = frozenset(landed)
    return replace(run, content=tuple(each for each in run.content if each not in gone), extends_base=extends)
