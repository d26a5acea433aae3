"""Keep in the memory of a queue what became of its runs. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from queue_engine.domain.facts import RequiredCheck
from queue_engine.planner.trains.memory import FailingChecks, Memory
from queue_engine.planner.trains.model import NewRun, TrainRun, Trains
from queue_engine.planner.trains.transitions import (
    ejected,
    removed,
    run_cancelled,
    run_failed,
    run_landed,
    run_passed,
)


def result_key(tree: str, required: Iterable[RequiredCheck]) -> str:
    """Name a result: by the tree, and by the checks that were required of it."""
    checks = ",".join(sorted(f"{each.app_id or ''}:{each.name}" for each in required))
    return sha256(f"{tree} {checks}".encode()).hexdigest()[:32]


def find_run(trains: Trains, run_id: int | None) -> TrainRun | None:
    """Return the run of this id, active or passed."""
    return next((each for each in (*trains.runs, *trains.passed) if each.id == run_id), None)


def started(memory: Memory, run_id: int, new: NewRun, now: float) -> Memory:
    """Count a run as active."""
    return replace(memory, trains=memory.trains.with_run(TrainRun(run_id, new.content, new.tested, now)))


def without_member(memory: Memory, run_id: int, number: int, others: tuple[int, ...]) -> Memory:
    """Leave a member out of a run, because it did not merge onto these others."""
    runs = tuple(_left_out(each, number) if each.id == run_id else each for each in memory.trains.runs)
    return replace(memory, trains=replace(memory.trains, runs=runs), conflicts={**memory.conflicts, number: others})


def _left_out(run: TrainRun, number: int) -> TrainRun:
    return replace(run, content=tuple(each for each in run.content if each != number), tested=run.tested - {number})


def passed(memory: Memory, run: TrainRun, key: str, now: float, *, seconds: float | None = None) -> Memory:
    """Qualify the members of a run; `seconds`: how long its checks took, if they ran.

    A failed run whose last suspect passed may have flaked: then trees that failed are tested again.
    """
    trains = run_passed(memory.trains, run, now)
    if len(trains.failures) < len(memory.trains.failures):
        memory = replace(memory, results={each: good for each, good in memory.results.items() if good})
    memory = replace(memory.with_result(key, True), trains=trains)
    return memory if seconds is None else memory.with_duration(seconds)


def failed(memory: Memory, run: TrainRun, key: str | None, evidence: FailingChecks, times: int = 1) -> Memory:
    """Keep a failed run as evidence; `times`: how often CI ran on it and failed.

    Without a key, the failure says nothing of other candidates with the same tree.
    """
    known = memory if key is None else memory.with_result(key, False)
    return replace(known.with_failure(evidence), trains=run_failed(memory.trains, run, times))


def known_result(memory: Memory, run: TrainRun, key: str) -> bool | None:
    """Return the result of a tree as evidence about this run; None if CI has to run.

    A tree that failed for one member alone may have flaked: the plan has it tested again.
    """
    passed_before = memory.results.get(key)
    return None if passed_before is False and len(run.content) == 1 and _has_failed(memory, run) else passed_before


def failed_before(memory: Memory, run: TrainRun, key: str) -> Memory:
    """End a run whose tree has failed: one failure counts once.

    A plan that knew this content as a failure on another base knows now that it is the tree of the present one.
    """
    if not _has_failed(memory, run):
        return failed(memory, run, key, FailingChecks(run.id, run.content, ()))
    memory = cancelled(memory, run.id)
    content = frozenset(run.content)
    failures = tuple(
        replace(each, on_base=True) if each.content == content else each for each in memory.trains.failures
    )
    return replace(memory, trains=replace(memory.trains, failures=failures))


def _has_failed(memory: Memory, run: TrainRun) -> bool:
    return any(each.content == frozenset(run.content) for each in memory.trains.failures)


def under_generation(memory: Memory, generation: int) -> Memory:
    """Forget what workflows and rules decide, if these have changed since."""
    if memory.generation == generation:
        return memory
    if memory.generation is not None:
        memory = replace(memory, trigger=None, silent=(), green=(), tested_alone={})
    return replace(memory, generation=generation)


def unblamed(memory: Memory) -> Memory:
    """Forget all failures: a check that judges pull requests may have caused each of them."""
    results = {each: good for each, good in memory.results.items() if good}
    return replace(memory, results=results, failed=(), trains=replace(memory.trains, failures=()))


def heads_judged(memory: Memory, failing: Mapping[int, bool]) -> Memory:
    """Keep of these members whether a required check of their own heads has failed."""
    queue = tuple(replace(each, head_fails=failing.get(each.id, each.head_fails)) for each in memory.trains.queue)
    return replace(memory, trains=replace(memory.trains, queue=queue))


def cancelled(memory: Memory, run_id: int | None) -> Memory:
    """Forget a run without an outcome, or one that passed and cannot land."""
    trains = memory.trains
    if (run := find_run(trains, run_id)) is None:
        return memory
    trains = run_cancelled(trains, run)
    return replace(memory, trains=replace(trains, passed=tuple(each for each in trains.passed if each.id != run_id)))


def landed(memory: Memory, run: TrainRun, tip: str, commits: Iterable[str]) -> Memory:
    """Move the base to a run's candidate; `commits` are those between."""
    gone = frozenset(run.content)
    return replace(
        memory.with_tips(commits).with_tip(tip),
        trains=run_landed(memory.trains, run),
        heads={number: head for number, head in memory.heads.items() if number not in gone},
        conflicts={number: others for number, others in memory.conflicts.items() if number not in gone},
    )


def ejected_member(memory: Memory, number: int) -> Memory:
    """Take out a member that makes runs fail."""
    member = memory.trains.member(number)
    return memory if member is None else _gone(replace(memory, trains=ejected(memory.trains, member)), number)


def removed_member(memory: Memory, number: int) -> Memory:
    """Take out a member that left for a reason of its own."""
    return _gone(replace(memory, trains=removed(memory.trains, number)), number)


def _gone(memory: Memory, number: int) -> Memory:
    return replace(memory, heads={each: head for each, head in memory.heads.items() if each != number})
