"""What plans remember is read as it was written, and follows the entries of its queue."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from json import dumps, loads

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.policy import TrainSplit
from queue_engine.domain.run import CandidateTrigger
from queue_engine.planner.queue_plan import ahead_of_tested_alone, follow_queue, slots, visible
from queue_engine.planner.trains.memory import (
    FailingChecks,
    ForkEntry,
    ForkReason,
    Memory,
    SequentialMode,
    base_moved,
    cancelled,
    ejected_member,
    failed,
    failed_before,
    find_run,
    from_json,
    heads_judged,
    known_result,
    landed,
    passed,
    removed_member,
    result_key,
    started,
    to_json,
    unblamed,
    under_generation,
    without_member,
)
from queue_engine.planner.trains.model import FailingRun, Member, NewRun, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from tests.store.examples import entry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RUN = TrainRun(7, (1, 2), frozenset({2}), 5.0)
NEW = NewRun((1, 2, 3), frozenset({1, 2, 3}))


def stored(memory: Memory) -> Memory:
    """The memory after it was written to the database and read."""
    return from_json(loads(dumps(to_json(memory))))


def queued(*numbers: int) -> Memory:
    """A memory with these members."""
    return follow_queue(Memory(), [entry(number) for number in numbers], Policy(trains=TrainRules(runs=2)))


def test_members_ahead_of_one_that_is_tested_alone_and_those_in_runs_are_all_that_trains_test() -> None:
    """P3: it loses its place neither to those behind it nor to those ahead of it."""
    run = TrainRun(1, (4,), frozenset({4}), 0.0)
    memory = queued(1, 2, 3, 4)
    memory = replace(
        memory, trains=memory.trains.with_run(run), tested_alone={2: ForkEntry("e", "h", ForkReason.UNREVIEWED)}
    )
    assert ahead_of_tested_alone(memory, {1, 2, 3, 4}) == {1, 4}
    assert ahead_of_tested_alone(memory, {1, 3, 4}) == {1, 3, 4}


def test_memory_is_read_as_it_was_written() -> None:
    """A pass after a kill plans by exactly what the one before knew."""
    memory = Memory(
        trains=Trains(
            2,
            60.0,
            queue=(Member(1, 3.0, 4.0, preempts=True), Member(2, 5.0, head_fails=True)),
            runs=(RUN,),
            passed=(replace(RUN, id=8, extends_base=False),),
            failures=(FailingRun(frozenset({2}), frozenset({1, 2}), 3, False),),
            saved=-2.5,
            most=5,
            fills=True,
            splits_singly=True,
        ),
        heads={1: ("e1", "h1")},
        base_tip="tip",
        tips=("old", "tip"),
        conflicts={2: (1,)},
        tested_alone={3: ForkEntry("e3", "h3", ForkReason.WORKFLOWS)},
        trigger=CandidateTrigger.PUSH,
        silent=(CandidateTrigger.DISPATCH,),
        off=SequentialMode("candidates_refused", "no", NOW, 3, 2),
        results={"key": True},
        cancelled={"key": 1},
        failed=(FailingChecks(7, (1, 2), ({"name": "ci", "url": None, "conclusion": "failure"},), "why"),),
        durations=(60.0,),
        by_api="refused",
        generation=3,
        pull_request_checks=("title", "size"),
        pull_request_checks_in_runs={"7": ("title",)},
        green=("15368:ci",),
    )
    assert stored(memory) == memory
    assert from_json({}) == Memory()


def test_changed_workflows_and_rules_make_ci_unknown() -> None:
    """What starts CI, and which checks can pass on a candidate, is forgotten; results of trees are not."""
    known = Memory(trigger=CandidateTrigger.PUSH, silent=(CandidateTrigger.DISPATCH,), green=(":ci",), generation=1)
    assert under_generation(known, 1) == known
    assert under_generation(replace(known, generation=None), 2) == replace(known, generation=2)
    assert under_generation(replace(known, results={"key": True}), 2) == Memory(results={"key": True}, generation=2)


def test_failures_that_a_check_of_the_pull_request_may_have_caused_count_no_longer() -> None:
    """P5: neither runs nor trees that failed count any more; what passed still does."""
    memory = started(queued(1, 2, 3), 4, NEW, 10.0)
    run = find_run(memory.trains, 4)
    assert run is not None
    bad = failed(memory, run, "together", FailingChecks(4, (1, 2, 3), ())).with_result("good", True)
    cleared = unblamed(bad)
    assert (cleared.results, cleared.failed, cleared.trains.failures) == ({"good": True}, (), ())


def test_member_with_another_head_is_another_member() -> None:
    """P4: what runs found out about a former head is void."""
    memory = queued(1, 2)
    known = replace(
        memory,
        trains=replace(memory.trains, queue=tuple(replace(each, qualified_at=1.0) for each in memory.trains.queue)),
        conflicts={2: (1,), 1: (2,)},
    )
    followed = follow_queue(known, [entry(1), replace(entry(2), head_sha="pushed")], Policy())
    assert [each.qualified for each in followed.trains.queue] == [True, False]
    assert followed.conflicts == {1: (2,)}


def test_hotfix_comes_before_members_that_came_earlier() -> None:
    """Priorities and hotfixes come before the order of arrival."""
    memory = follow_queue(Memory(), [entry(1), replace(entry(2), hotfix=True, preempts=True)], Policy())
    assert [(each.id, each.preempts) for each in memory.trains.queue] == [(2, True), (1, False)]
    urgent = follow_queue(Memory(), [entry(1), replace(entry(2), preempts=True)], Policy())
    assert not any(each.preempts for each in urgent.trains.queue)


def test_member_that_conflicts_is_shown_again_when_one_of_the_others_has_left() -> None:
    """No plan without a new fact: a conflict does not thrash."""
    memory = replace(queued(1, 2, 3), conflicts={3: (1, 2)})
    assert [each.id for each in visible(memory, {1, 2, 3}).queue] == [1, 2]
    assert [each.id for each in visible(removed_member(memory, 1), {2, 3}).queue] == [2, 3]
    assert visible(base_moved(memory, "tip"), {1, 2, 3}).queue == memory.trains.queue


def test_no_run_lands_on_a_base_that_somebody_else_moved() -> None:
    """P1: its candidate has another base; what it found out about its members remains."""
    memory = replace(queued(1, 2), trains=Trains(2, 60.0, runs=(RUN,), passed=(replace(RUN, id=8),)))
    moved = base_moved(memory, "tip")
    assert (moved.base_tip, moved.trains.passed) == ("tip", ())
    assert [(each.id, each.extends_base) for each in moved.trains.runs] == [(7, False)]


def test_blocked_members_keep_their_evidence_and_are_not_shown() -> None:
    """A freeze that lets one entry through forgets nothing about the others."""
    memory = queued(1, 2)
    memory = replace(
        memory, trains=replace(memory.trains, failures=(FailingRun(frozenset({1, 2}), frozenset({1, 2})),))
    )
    shown = visible(memory, {2})
    assert [each.id for each in shown.queue] == [2]
    assert [each.suspects for each in shown.failures] == [{2}]
    assert visible(memory, set()).failures == ()


def test_run_tests_no_more_members_than_the_configuration_allows() -> None:
    """With `split: single` the members of a failed run are tested one by one."""
    entries = [entry(number) for number in range(1, 9)]

    def tested(policy: TrainRules, *failed: int) -> int:
        memory = follow_queue(Memory(), entries, Policy(trains=policy))
        failures = (FailingRun(frozenset(failed), frozenset(failed)),) if failed else ()
        (new,) = plan(replace(memory.trains, failures=failures), 1.0).start
        return len(new.tested)

    single = TrainRules(split=TrainSplit.SINGLE)
    assert [tested(TrainRules(max_size=most)) for most in (1, 3, 32)] == [1, 3, 7]
    assert (tested(single), tested(single, *range(1, 9)), tested(TrainRules(), *range(1, 9))) == (7, 1, 4)


def test_outcomes_of_runs_are_counted_once() -> None:
    """A run leaves the active ones with its outcome, and its tree keeps the result."""
    memory = started(queued(1, 2, 3), 4, NEW, 10.0)
    run = find_run(memory.trains, 4)
    assert run is not None
    good = passed(memory, run, "key", 20.0, seconds=10.0)
    assert (good.results, good.trains.usual_seconds, good.trains.runs) == ({"key": True}, 10.0, ())
    done = landed(good, good.trains.passed[0], "new", ["c1", "c2"])
    assert (done.base_tip, done.trains.queue, done.heads) == ("new", (), {})
    assert {"c1", "c2", "new"} <= set(done.tips)
    bad = failed(memory, run, "key", FailingChecks(4, (1, 2, 3), ()))
    assert bad.trains.failures == (FailingRun(frozenset({1, 2, 3}), frozenset({1, 2, 3})),)
    assert bad.failure_of(2) == FailingChecks(4, (1, 2, 3), ())
    assert ejected_member(bad, 2).trains.failures == ()
    assert cancelled(good, 4).trains.passed == ()
    assert cancelled(memory, 99) == memory


def test_member_left_out_of_a_run_waits_for_the_others() -> None:
    """The run continues with the members that merge."""
    memory = without_member(started(queued(1, 2, 3), 4, NEW, 10.0), 4, 3, (1, 2))
    assert memory.trains.runs[0].content == (1, 2)
    assert memory.trains.runs[0].tested == {1, 2}
    assert memory.conflicts == {3: (1, 2)}


def test_result_belongs_to_a_tree_and_to_the_checks_required_of_it() -> None:
    """A check that becomes required later voids results."""
    check = RequiredCheck("ci", 1)
    assert result_key("t", [check]) == result_key("t", [check])
    others = result_key("u", [check]), result_key("t", []), result_key("t", [RequiredCheck("ci", 2)])
    assert result_key("t", [check]) not in others


def test_usual_run_follows_the_last_ones() -> None:
    """Plans know how long a run takes by those that ended."""
    memory = Memory()
    for seconds in (100.0, 200.0, 300.0):
        memory = memory.with_duration(seconds)
    assert memory.trains.usual_seconds == 200.0
    assert timedelta(seconds=memory.trains.usual_seconds) == timedelta(seconds=200)
    assert Memory().with_duration(0.0).trains.usual_seconds > 0


def test_tree_that_failed_is_tested_again_once_a_flake_is_found() -> None:
    """Members that pass apart after they failed together are not ejected by that old result."""
    memory = started(queued(1, 2, 3), 4, NEW, 10.0)
    run = find_run(memory.trains, 4)
    assert run is not None
    bad = failed(memory, run, "together", FailingChecks(4, (1, 2, 3), ()))
    assert bad.results == {"together": False}
    again = started(bad, 5, NEW, 20.0)
    second = find_run(again.trains, 5)
    assert second is not None
    assert passed(again, second, "other", 30.0).results == {"other": True}


def test_auto_allows_one_run_more_than_ci_ran_at_once() -> None:
    """A queue learns how many runs its CI starts at once, and forgets it when the CI no longer does."""
    auto, memory = TrainRules(runs=None), Memory()
    assert (slots(memory, auto), slots(memory, TrainRules(runs=3))) == (1, 3)
    memory = stored(memory.with_span(0.0, 10.0))
    assert slots(memory, auto) == 2
    assert slots(memory.with_span(10.0, 20.0), auto) == 2
    memory = memory.with_span(5.0, 15.0)
    assert slots(memory, auto) == 3
    for number in range(20):
        memory = memory.with_span(100.0 * number, 100.0 * number + 50.0)
    assert slots(memory, auto) == 2
    for _ in range(20):
        memory = memory.with_span(5000.0, 6000.0)
    assert slots(memory, auto) == 16


def test_ejection_is_explained_by_known_checks_of_the_smallest_newest_run() -> None:
    """A tree that failed before ended its run without checks: an author would read nothing of them."""
    memory, check = Memory(), {"name": "ci", "url": None, "conclusion": "failure"}
    for run, members, checks in ((1, (1, 2), (check,)), (2, (1, 2), (check,)), (3, (1, 2, 3), (check,)), (4, (1,), ())):
        memory = memory.with_failure(FailingChecks(run, members, checks))
    found = memory.failure_of(1)
    assert found is not None
    assert found.run == 2


def test_trees_whose_checks_were_cancelled_are_forgotten_after_many_others() -> None:
    """A queue whose checks are often cancelled writes no more with each plan after a year."""
    memory = Memory()
    for number in range(300):
        memory = memory.with_cancelled(str(number)).with_cancelled("often")
    assert len(memory.cancelled) == 200
    assert (memory.cancelled["often"], memory.cancelled["299"], memory.cancelled.get("0")) == (300, 1, None)


def test_memory_of_many_runs_keeps_the_newest_alone() -> None:
    """P5: what plans remember is bounded, however long a queue has trains."""
    memory = Memory()
    for number in range(400):
        key = str(number)
        memory = memory.with_tip(key).with_tips([f"{key}-passed"]).with_result(key, passed=False)
        memory = memory.with_proof(key, LandingProof((), None, "")).with_duration(number).with_span(number, number + 1)
        memory = memory.with_failure(FailingChecks(number, (number,), ()))
    kept = memory.tips, memory.results, memory.proofs, memory.durations, memory.spans, memory.failed
    assert [len(each) for each in kept] == [100, 200, 20, 20, 20, 50]
    newest = memory.tips[-1], [*memory.results][-1], [*memory.proofs][-1], memory.durations[-1], memory.failed[-1].run
    assert newest == ("399-passed", "399", "399", 399, 399)


def test_known_failure_of_a_tree_counts_once_and_a_lone_one_is_tested_again() -> None:
    """P5: a run whose tree has failed ends at once; to count it again would be no new evidence."""
    memory = started(queued(1, 2, 3), 4, NEW, 10.0)
    run = find_run(memory.trains, 4)
    assert run is not None
    assert known_result(memory, run, "key") is None
    bad = failed(memory, run, "key", FailingChecks(4, (1, 2, 3), ()))
    again = started(bad, 5, NEW, 20.0)
    second = find_run(again.trains, 5)
    assert second is not None
    assert known_result(again, second, "key") is False
    assert failed_before(again, second, "key").trains.failures == bad.trains.failures
    moved = base_moved(again, "tip")
    assert [each.on_base for each in failed_before(moved, second, "key").trains.failures] == [True]
    other = replace(second, content=(1, 2))
    assert len(failed_before(again, other, "key").trains.failures) == 2
    alone = replace(run, content=(1,))
    bad = failed(memory, alone, "alone", FailingChecks(4, (1,), ()), times=2)
    assert bad.trains.failures[0].times == 2
    assert known_result(bad, alone, "alone") is None


def test_head_that_fails_is_kept_until_it_is_read_again() -> None:
    """A new head is a new member."""
    memory = heads_judged(queued(1, 2), {1: True})
    assert [each.head_fails for each in memory.trains.queue] == [True, False]
    assert [each.head_fails for each in heads_judged(memory, {2: True}).trains.queue] == [True, True]
    pushed = follow_queue(memory, [replace(entry(1), head_sha="pushed"), entry(2)], Policy())
    assert [each.head_fails for each in pushed.trains.queue] == [False, False]
