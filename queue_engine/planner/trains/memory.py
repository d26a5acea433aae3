"""Memory of plans: what IMQ knows about the trains of one queue between passes, and its form as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from queue_engine.core.read_model import adapter
from queue_engine.domain.candidate_run import CandidateTrigger
from queue_engine.domain.model import Entry
from queue_engine.planner.trains.built import BuiltHistory
from queue_engine.planner.trains.model import Trains
from queue_engine.planner.trains.suspicion import weigh

_TIPS_KEPT = 100
_RESULTS_KEPT = 200
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
    """Why a pull request of a fork is tested alone, by its own head: no branch of IMQ's gets its commits."""

    OFF = "forks_off"
    """`trains.forks` is off."""
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
    head: str
    why: ForkReason


@dataclass(frozen=True, slots=True)
class FailingChecks:
    """The failing checks of a run, kept to explain an ejection."""

    run: int
    members: tuple[int, ...]
    checks: tuple[Mapping[str, Any], ...]
    detail: str | None = None
    reason: str = "checks_failed"


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
    trigger: CandidateTrigger | None = None
    """What has started every required check on a candidate of this base."""
    silent: tuple[CandidateTrigger, ...] = ()
    """What has not started every required check."""
    unreported: str = ""
    """Required checks that no head of a pull request had, for people to read: CI reports them on candidates alone."""
    off: SequentialMode | None = None
    results: Mapping[str, bool] = field(default_factory=dict)
    """Whether a tree passed, by the tree and the required checks."""
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
        return alone is not None and (alone.entry, alone.head) == (entry.id, entry.queued_head)

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
        """Keep the failing checks of a run."""
        return replace(self, failed=(*self.failed, failed)[-_FAILURES_KEPT:])

    def failure_of(self, member: int) -> FailingChecks | None:
        """Return the newest failed run with this member, of the smallest ones, and of those whose checks are known."""
        with_it = [each for each in self.failed if member in each.members]
        return min(reversed(with_it), key=lambda each: (not each.checks, len(each.members)), default=None)


def to_json(memory: Memory) -> dict[str, Any]:
    """Write the memory as JSON."""
    stored: dict[str, Any] = adapter(Memory).dump_python(memory, mode="json")
    # For people alone: `queue_engine.queries.train_status` reads it, and each plan computes it.
    stored["suspicions"] = {str(member): round(chance, 4) for member, chance in weigh(memory.trains).chances.items()}
    return stored


def from_json(stored: Mapping[str, Any]) -> Memory:
    """Read the memory; an empty one where nothing is stored."""
    memory: Memory = adapter(Memory).validate_python(stored)
    return memory
