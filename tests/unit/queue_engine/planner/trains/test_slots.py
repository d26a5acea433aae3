"""Runs at once save time, where building them takes none."""

from queue_engine.planner.trains.model import Member, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.transitions import ejected, run_cancelled, run_failed, run_landed, run_passed

BAD = frozenset({7, 16, 25, 33})
CI = 600.0


def ci_times(slots: int) -> float:
    """How many CI times pass until forty members are resolved, all queued at once."""
    trains = Trains(slots, CI, queue=tuple(Member(number, 0.0) for number in range(1, 41)))
    now, started = 0.0, 0
    while trains.queue:
        made = plan(trains, now)
        if made.land is not None:
            trains = run_landed(trains, made.land)
        elif made.eject:
            member = trains.member(made.eject[0])
            assert member is not None
            assert member.id in BAD
            trains = ejected(trains, member)
            for run in [each for each in trains.runs if member.id in each.content]:
                trains = run_cancelled(trains, run)
        elif made.cancel:
            trains = run_cancelled(trains, next(each for each in trains.runs if each.id == made.cancel[0]))
        elif made.start:
            for new in made.start:
                started += 1
                trains = trains.with_run(TrainRun(started, new.content, new.tested, now))
        else:
            run = min(trains.runs, key=lambda each: each.started)
            now = run.started + CI
            trains = run_failed(trains, run) if BAD & set(run.content) else run_passed(trains, run, now)
    return now / CI


def test_four_runs_at_once_resolve_a_queue_in_less_than_half_the_time_of_one() -> None:
    """Where four are slower, as with CI of seconds, IMQ's building of candidates takes the time, not the plan."""
    assert ci_times(4) < ci_times(1) / 2
