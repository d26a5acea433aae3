"""Memory of plans: what IMQ knows of the trains of one queue between passes, how it changes, and its form as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from queue_engine.core.read_model import adapter
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.model import Entry
from queue_engine.domain.run import CandidateTrigger
from queue_engine.planner.trains.built import BuiltHistory
from queue_engine.planner.trains.model import NewRun, TrainRun, Trains
from queue_engine.planner.trains.suspicion import weigh
from queue_engine.planner.trains.transitions import (
    base_pushed,
    ejected,
    removed,
    run_cancelled,
    run_failed,
    run_landed,
    run_passed,
)

_TIPS_KEPT = 100
_RESULTS_KEPT = 200
_PROOFS_KEPT = 20
_DURATIONS_KEPT = 20
_FAILURES_KEPT = 50

_FIRST_SECONDS = 600.0
"""How long a run is reckoned to take before one has ended."""


@dataclass(frozen=True, slots=True)
class SequentialMode:
    """Why IMQ tests one entry after the other although the configuration asks for trains, until something changes."""

    reason: str
    detail: str
    since: datetime
    generation: int
    """Of configuration, workflows and rules: IMQ tries trains again when these have changed."""
    suspect: int | None = None
    """The pull request whose own branch has to show whether its failing check judges the pull request, not the tree."""
    once: bool = False
    """Whether the check has passed on other candidates, so that trains go on after the suspect."""


class ForkReason(StrEnum):
    """Why a pull request, mostly of a fork, is tested alone, by its own head: no branch of IMQ's gets its commits."""

    ASKED = "asked"
    """Somebody queued it by `/queue alone`."""
    OFF = "forks_off"
    UNREVIEWED = "unreviewed"
    """No one with write access has approved its head."""
    WORKFLOWS = "workflows"
    """It changes workflow files or local actions."""
    UNKNOWN = "unknown"
    """GitHub does not show all files that it changes, or which local actions the base has."""


@dataclass(frozen=True, slots=True)
class ForkEntry:
    """A pull request that is tested alone: its entry, the queued head, and why."""

    entry: str
    head_sha: str
    why: ForkReason


@dataclass(frozen=True, slots=True)
class TrainWait:
    """Members that wait for a fuller run, and until when."""

    members: tuple[int, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class FailingChecks:
    """The failing checks of a run, kept to explain an ejection."""

    run: int
    members: tuple[int, ...]
    checks: tuple[Mapping[str, Any], ...]
    detail: str | None = None
    reason: str = "checks_failed"
    base_tip: str | None = None
    """The tip of the base below them."""
    on_base: bool = False
    """Whether all these checks passed on that tip."""
    reruns: int = 0
    """How often IMQ ran them again."""
    key: str | None = None
    """Names the tree and its required checks, as `result_key` does."""
    seconds: float = 0.0
    """How long the run took."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All that plans for one queue remember. `trains` counts in seconds since 1970."""

    trains: Trains = field(default_factory=lambda: Trains(1, _FIRST_SECONDS))
    heads: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Of each member its entry's id and its head: another head is another member."""
    base_tip: str | None = None
    tips: tuple[str, ...] = ()
    """Tips of the base that IMQ has taken account of, the newest last."""
    conflicts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Members that did not merge onto others: they are tested when one of these has landed or left."""
    tested_alone: Mapping[int, ForkEntry] = field(default_factory=dict)
    """Pull requests of forks that are tested alone, by their own heads."""
    filling: TrainWait = TrainWait()
    trigger: CandidateTrigger | None = None
    """What has started every required check on a candidate of this base."""
    silent: tuple[CandidateTrigger, ...] = ()
    """What has not started every required check."""
    unreported: str = ""
    """Required checks that no head of a pull request had, for people to read: CI reports them on candidates alone."""
    off: SequentialMode | None = None
    results: Mapping[str, bool] = field(default_factory=dict)
    """Whether a tree passed, by the tree and the required checks."""
    proofs: Mapping[str, LandingProof] = field(default_factory=dict)
    """What the newest trees that passed were tested by: runs of the same tree take that over."""
    cancelled: Mapping[str, int] = field(default_factory=dict)
    """How often somebody cancelled the checks of a tree."""
    failed: tuple[FailingChecks, ...] = ()
    durations: tuple[float, ...] = ()
    """How long the last runs took, in seconds."""
    spans: tuple[tuple[float, float], ...] = ()
    """From when to when the checks of the last runs ran, in seconds since 1970."""
    built: tuple[BuiltHistory, ...] = ()
    """What runs that ended built on the tip of the base."""
    candidates: tuple[str, ...] = ()
    """The commits of `built` that were candidates."""
    by_api: str | None = None
    """GitHub's message when it refused to move the base branch: since then IMQ lands members one by one."""
    generation: int | None = None
    """Of configuration, workflows and rules, under which IMQ learnt what follows, `trigger` and `silent`."""
    pull_request_checks: tuple[str, ...] = ()
    """The checks that, by the base's workflows, judge the pull request: `trigger` was chosen without them."""
    pull_request_checks_in_runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By run: those of them that do so by the candidate's workflows, too. They count from its members' heads."""
    green: tuple[str, ...] = ()
    """The checks that have passed on some candidate, by App and name."""

    def tests_alone(self, entry: Entry) -> bool:
        """Whether this entry is tested alone, by its own head."""
        alone = self.tested_alone.get(entry.number)
        return alone is not None and (alone.entry, alone.head_sha) == (entry.id, entry.queued_head)

    def with_tip(self, tip: str) -> "Memory":
        """Take account of a tip of the base."""
        tips = tuple(each for each in self.tips if each != tip)
        return replace(self, base_tip=tip, tips=(*tips, tip)[-_TIPS_KEPT:])

    def with_tips(self, tips: Iterable[str]) -> "Memory":
        """Take account of commits that the base has passed."""
        new = tuple(tip for tip in tips if tip not in self.tips)
        return replace(self, tips=(*self.tips, *new)[-_TIPS_KEPT:])

    def with_result(self, key: str, passed: bool) -> "Memory":
        """Keep the result of a tree."""
        results = {**self.results, key: passed}
        return replace(self, results=dict(list(results.items())[-_RESULTS_KEPT:]))

    def with_proof(self, key: str, proof: LandingProof) -> "Memory":
        """Keep what a tree was tested by."""
        proofs = {**self.proofs, key: proof}
        return replace(self, proofs=dict(list(proofs.items())[-_PROOFS_KEPT:]))

    def with_cancelled(self, key: str) -> "Memory":
        """Count that the checks of a tree ended without a result; the newest trees alone are kept."""
        others = {each: times for each, times in self.cancelled.items() if each != key}
        counted = {**others, key: self.cancelled.get(key, 0) + 1}
        return replace(self, cancelled=dict(list(counted.items())[-_RESULTS_KEPT:]))

    def with_duration(self, seconds: float) -> "Memory":
        """Count how long a run took."""
        durations = (*self.durations, seconds)[-_DURATIONS_KEPT:]
        usual = sorted(durations)[len(durations) // 2]
        return replace(self, durations=durations, trains=replace(self.trains, usual_seconds=max(usual, 1.0)))

    def with_span(self, start: float, end: float) -> "Memory":
        """Keep when the checks of a run ran."""
        return replace(self, spans=(*self.spans, (start, end))[-_DURATIONS_KEPT:])

    @property
    def most_at_once(self) -> int:
        """How many of the last runs had their checks run at once."""
        return max((sum(a <= start < b for a, b in self.spans) for start, _ in self.spans), default=0)

    def with_failure(self, failed: FailingChecks) -> "Memory":
        return replace(self, failed=(*self.failed, failed)[-_FAILURES_KEPT:])

    def failures_of_tree(self, key: str) -> tuple[FailingChecks, ...]:
        """Return the failed runs of a tree, of which the last result was a failure."""
        return tuple(each for each in self.failed if each.key == key) if self.results.get(key) is False else ()

    def failure_of(self, member: int) -> FailingChecks | None:
        """Return the newest failed run with this member, of the smallest ones, and of those whose checks are known."""
        with_it = [each for each in self.failed if member in each.members]
        return min(reversed(with_it), key=lambda each: (not each.checks, len(each.members)), default=None)


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


def later_ones(trains: Trains, number: int) -> frozenset[int]:
    """Return a member with all that land after it."""
    found = {number}
    while more := {each.id for each in trains.queue if not found.isdisjoint(each.after)} - found:
        found |= more
    return frozenset(found)


def without_member(memory: Memory, run_id: int, number: int, others: tuple[int, ...]) -> Memory:
    """Leave a member out of a run, because it did not merge onto these others, and those that land after it."""
    gone = later_ones(memory.trains, number)
    runs = tuple(_left_out(each, gone) if each.id == run_id else each for each in memory.trains.runs)
    return replace(memory, trains=replace(memory.trains, runs=runs), conflicts={**memory.conflicts, number: others})


def _left_out(run: TrainRun, gone: frozenset[int]) -> TrainRun:
    return replace(run, content=tuple(each for each in run.content if each not in gone), tested=run.tested - gone)


def passed(
    memory: Memory,
    run: TrainRun,
    key: str,
    now: float,
    *,
    seconds: float | None = None,
    checks: Mapping[str, int] = MappingProxyType({}),
) -> Memory:
    """Qualify the members of a run; if its checks ran, `seconds`: how long, `checks`: which, with their failures.

    A failed run whose last suspect passed may have flaked: then trees that failed are tested again.
    """
    trains = run_passed(memory.trains, run, now, checks)
    if len(trains.failures) < len(memory.trains.failures):
        memory = replace(memory, results={each: good for each, good in memory.results.items() if good})
    memory = replace(memory.with_result(key, True), trains=trains)
    return memory if seconds is None else memory.with_duration(seconds)


def failed(memory: Memory, run: TrainRun, key: str | None, evidence: FailingChecks, times: int = 1) -> Memory:
    """Keep a failed run, which CI ran `times`, as evidence; without a key it says nothing of other candidates."""
    known = memory if key is None else memory.with_result(key, False)
    names = {str(each["name"]) for each in evidence.checks}
    return replace(known.with_failure(evidence), trains=run_failed(memory.trains, run, times, names))


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


def cancelled(memory: Memory, run_id: int | None, *, yields: bool = False) -> Memory:
    """Forget a run without an outcome, or one that passed and cannot land; `yields`: it ended for people."""
    trains = memory.trains
    if (run := find_run(trains, run_id)) is None:
        return memory
    trains = run_cancelled(trains, run, yields=yields)
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


def base_moved(memory: Memory, tip: str) -> Memory:
    """Return the memory after somebody else moved the base: no run extends it, and conflicts are tried again."""
    return replace(memory.with_tip(tip), trains=base_pushed(memory.trains), conflicts={})


def to_json(memory: Memory) -> dict[str, Any]:
    stored: dict[str, Any] = adapter(Memory).dump_python(memory, mode="json")
    # For people alone: `queue_engine.queries.train_status` reads it, and each plan computes it.
    stored["suspicions"] = {str(member): round(chance, 4) for member, chance in weigh(memory.trains).chances.items()}
    return stored


def from_json(stored: Mapping[str, Any]) -> Memory:
    """Read the memory; an empty one where nothing is stored."""
    memory: Memory = adapter(Memory).validate_python(stored)
    return memory
