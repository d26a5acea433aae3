"""What people see of trains: what each member waits for, and what a landing saved."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.notice import TrainLanding, TrainNotice, TrainProgress
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import (
    RUN_STARTED,
    CandidateTrigger,
    CheckTiming,
    Run,
    RunMember,
    RunState,
)
from queue_engine.queries.train_status import landing_of, train_status
from tests.store.examples import NOW, REPOSITORY

MINUTE = timedelta(minutes=1)


def run(run_id: int, *numbers: int, tested: set[int] | None = None, state: RunState = RunState.TESTING) -> Run:
    """A run of these members."""
    return Run(
        id=run_id,
        queue_id=1,
        base_branch="main",
        base_tip="0" * 40,
        members=tuple(RunMember(each, str(each), f"{each:040d}", MergeMethod.MERGE) for each in numbers),
        tested=frozenset(numbers if tested is None else tested),
        trigger=CandidateTrigger.PUSH,
        state=state,
        started_at=NOW,
    )


def memory(*queue: int, qualified: tuple[int, ...] = (), **stored: Any) -> dict[str, Any]:
    """What plans remember, as they store it."""
    members = [{"id": each, "since": 0.0, "qualified_at": 1.0 if each in qualified else None} for each in queue]
    failures = stored.pop("failures", [])
    return {"trains": {"queue": members, "failures": failures}, **stored}


FAILED = [{"suspects": [1, 2, 3], "content": [1, 2, 3]}]


def test_notice_says_what_the_trains_do_with_a_member() -> None:
    """Each member learns who is tested with it, what a bisection does, and what it waits for."""
    for runs, stored, number, expected in [
        ([run(7, 1, 2)], memory(1, 2), 1, TrainNotice(progress=TrainProgress.TESTING, members=(1, 2))),
        (
            [run(7, 1, state=RunState.BUILDING)],
            memory(1),
            1,
            TrainNotice(progress=TrainProgress.BUILDING, members=(1,)),
        ),
        (
            [run(7, 1, state=RunState.LANDING), run(8, 1, 2, tested={2})],
            memory(1, 2),
            1,
            TrainNotice(progress=TrainProgress.PASSED, members=(1,)),
        ),
        (
            [run(7, 1, 2)],
            memory(1, 2, 3, failures=FAILED),
            2,
            TrainNotice(progress=TrainProgress.BISECTING, members=(1, 2), failed=(1, 2, 3)),
        ),
        (
            [run(7, 1)],
            memory(1, 2, 3, failures=FAILED),
            1,
            TrainNotice(progress=TrainProgress.ALONE, members=(1,), failed=(1, 2, 3)),
        ),
        (
            [run(7, 1, 2, tested={1})],
            memory(1, 2, 3, failures=FAILED),
            2,
            TrainNotice(progress=TrainProgress.TESTING, members=(1, 2)),
        ),
        (
            [run(7, 1, 2)],
            memory(1, 2, 3, failures=FAILED),
            3,
            TrainNotice(progress=TrainProgress.BISECTING, failed=(1, 2, 3)),
        ),
        ([], memory(1, 2, conflicts={"2": [1]}), 2, TrainNotice(progress=TrainProgress.HELD_BACK, conflict=1)),
        (
            [],
            memory(1, 2, 3, conflicts={"3": [1, 2]}),
            3,
            TrainNotice(progress=TrainProgress.HELD_BACK, conflicts=(1, 2)),
        ),
        ([], memory(2, conflicts={"2": [1]}), 2, None),
        ([], memory(1, qualified=(1,)), 1, TrainNotice(progress=TrainProgress.QUALIFIED)),
        ([], memory(1), 1, None),
        ([], {}, 1, None),
    ]:
        found = train_status(runs, stored).notice(number)
        known = found and found.model_copy(update={"run": None, "branch": None})
        assert known == expected, (runs, stored, number, expected)


def test_notice_has_the_suspicion_that_the_plan_stored() -> None:
    """The chance is the planner's own."""
    found = train_status([run(7, 1)], memory(1, suspicions={"1": 0.1})).notice(1)
    assert found is not None
    assert (found.suspicion, found.run, found.branch) == (0.1, 7, "imq/main/7")


def test_status_says_why_there_are_no_trains() -> None:
    """People read the reason, and since when."""
    off = {"reason": "ci_silent_on_candidates", "detail": "test", "since": NOW.isoformat(), "generation": 3}
    found = train_status([], memory(off=off)).off
    assert found is not None
    assert (found.reason, found.detail, found.since) == (Reason.CI_SILENT_ON_CANDIDATES, "test", NOW)


def started(*tested: int) -> TimelineEvent:
    """A run that a train started for these members."""
    return TimelineEvent(
        id=1,
        at=NOW,
        event=RUN_STARTED,
        repository_id=REPOSITORY.id,
        base_branch="main",
        number=0,
        reason=None,
        data={"tested": list(tested), "members": list(tested)},
    )


def test_landing_saved_one_run_for_each_member_less_those_that_tested_it() -> None:
    """Three members in one run save two; a bisection on the way counts as well."""
    landed = run(7, 1, 2, 3)
    timings = (CheckTiming("test", started=NOW, ended=NOW + 10 * MINUTE), CheckTiming("lint"))
    timed = replace(landed, timings=timings)
    assert landing_of(landed, [started(1, 2, 3)]) == TrainLanding(members=(1, 2, 3), runs_saved=2)
    assert landing_of(timed, [started(1, 2, 3), started(9)]).ci_saved == 20 * MINUTE
    bisected = [started(1, 2, 3, 4), started(1, 2), started(3), started(4)]
    assert landing_of(timed, bisected) == TrainLanding(members=(1, 2, 3), runs_saved=0)


def test_notice_links_a_failed_check_before_one_that_runs() -> None:
    """People want the page that says what is wrong; without a page there is no link."""
    timings = [
        CheckTiming("a", "https://ci/a", NOW, NOW, True),
        CheckTiming("b", "https://ci/b", NOW),
        CheckTiming("c", None, NOW),
        CheckTiming("d", "https://ci/d", NOW, NOW, False),
    ]
    links = []
    for count in (0, 1, 2, 3, 4):
        made = replace(run(7, 1), timings=tuple(timings[:count]))
        notice = train_status([made], memory(1)).notice(1)
        links.append(notice and notice.url)
    assert links == [None, "https://ci/a", "https://ci/b", "https://ci/b", "https://ci/d"]
