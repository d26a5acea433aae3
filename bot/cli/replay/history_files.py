"""Files of the past: IMQ's timeline, and workflow runs that `gh` or the API of GitHub exported."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.cli.replay import estimates
from bot.cli.replay.estimates import Estimate

_BY_CHECKS = frozenset({"checks_failed", "checks_timed_out"})
"""Reason codes of departures that a run decided."""
_BAD, _GOOD = frozenset({"failure", "timed_out", "startup_failure"}), frozenset({"success"})
"""Conclusions of workflow runs (GitHub's REST API, "List workflow runs for a repository")."""
_CANDIDATES = re.compile(r"(?:gh-readonly-queue|imq)/.+|staging|auto")
"""Branches on which GitHub's queue, IMQ, bors-ng and bors test candidates."""
_SOLID = re.compile(r"\S")
_LEAST_RUN = 1 / 60
"""Minutes."""


class FileError(Exception):
    """A file is not what it should be. The message says why, with the way out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stay in the queue. Times are in minutes since 1970; `outcome` is `landed`, `failed` or `cancelled`."""

    number: int
    since: float
    until: float
    outcome: str
    by_checks: bool
    place: float
    """Its place in the queue among those that came at the same instant: the smaller goes first."""


@dataclass(frozen=True, slots=True)
class TimelineRun:
    """A run that was started for these members, in order; `passed` is None where it ended without an outcome."""

    members: tuple[int, ...]
    start: float
    end: float
    passed: bool | None


@dataclass(slots=True)
class Timeline:
    """One queue's history as IMQ recorded it. Entries and runs are those that ended, oldest first."""

    queue: str
    others: int
    """Queues of the file that were left out."""
    entries: list[Entry] = field(default_factory=list)
    runs: list[TimelineRun] = field(default_factory=list)
    absorbed: int = 0
    """How often a run failed, and passed on a rerun of the same commit."""
    minutes: list[float] = field(default_factory=list)
    """Minutes of all checks of each tested commit."""
    spent: tuple[float, float] | None = None
    """Billed minutes and their cost, as IMQ recorded them for jobs of GitHub Actions; the cost is 0 without prices."""
    slots: int = 1
    """The most runs that were active at once, or what the timeline says."""
    trains: bool = False

    @property
    def landed(self) -> list[Entry]:
        """Return the stays that ended with a landing."""
        return [each for each in self.entries if each.outcome == "landed"]

    @property
    def ci_times(self) -> list[float]:
        """Return how long each run took that passed or failed."""
        return [each.end - each.start for each in self.runs if each.passed is not None]

    def estimates(self) -> dict[str, Estimate]:
        """Estimate what the timeline shows."""
        failed = {each.number for each in self.entries if each.by_checks}
        landed = {each.number for each in self.landed}
        judged = [each for each in self.runs if each.passed is not None]
        # A run whose members all landed later was one of good members: if it failed, it flaked.
        good = [each for each in judged if landed.issuperset(each.members) and not failed.intersection(each.members)]
        cut = [each.end - each.start for each in self.runs if each.passed is None]
        departed = len(self.landed) + sum(each.by_checks for each in self.entries)
        return _known(
            ci_time=estimates.mean(self.ci_times, f"{len(self.ci_times):,} runs of the timeline", cut),
            failures=estimates.share(
                sum(each.by_checks for each in self.entries), departed, f"{departed:,} departures of the timeline"
            ),
            flakes=estimates.share(
                sum(not each.passed for each in good) + self.absorbed,
                len(good) + self.absorbed,
                f"{len(good):,} runs whose members all landed, and {self.absorbed:,} reruns that passed",
            ),
            minutes=estimates.mean(self.minutes, f"the checks of {len(self.minutes):,} commits of the timeline"),
            price=estimates.fixed(self.spent[1] / self.spent[0], "the prices that IMQ recorded")
            if self.spent and self.spent[1]
            else None,
        )


def read_timeline(path: Path) -> Timeline:
    """Read events as the API streams them, or as `imq export --timeline` writes them. Raises FileError."""
    events: dict[int, Mapping[str, Any]] = {}
    for each in _objects(path):
        if isinstance(each.get("event"), str) and "base_branch" in each and "at" in each:
            events[int(each.get("id", len(events)))] = each
    if not events:
        raise FileError(f"{path} has no events of IMQ's timeline. `imq export --timeline` writes them.")
    by_queue: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for _, each in sorted(events.items()):
        by_queue[f"{each.get('repository')} {each['base_branch']}"].append(each)
    queue = max(by_queue, key=lambda name: len(by_queue[name]))
    timeline = Timeline(queue, len(by_queue) - 1)
    try:
        _Reader(timeline).read(by_queue[queue])
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} has an event that this IMQ cannot read ({error!r}). Export it again.") from None
    if not timeline.landed:
        raise FileError(f"No pull request landed in the timeline of {queue}. Export a longer period.")
    return timeline


@dataclass(slots=True)
class _Reader:
    """Makes entries and runs of events."""

    timeline: Timeline
    _waiting: dict[int, tuple[float, float]] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)
    _active: dict[int, tuple[float, tuple[int, ...]]] = field(default_factory=dict)
    _alone: dict[int, float] = field(default_factory=dict)
    _checked: dict[str, float] = field(default_factory=dict)
    _jobs: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    """What the jobs of each run or tested commit cost, as GitHub bills them."""

    def read(self, events: Iterable[Mapping[str, Any]]) -> None:
        for each in events:
            number, at, data = each["number"], _minutes(each["at"]), each.get("data") or {}
            if seconds := data.get("check_seconds"):
                self._checked[str(data.get("tested"))] = sum(seconds.values()) / 60
            if (jobs := data.get("jobs")) and each["event"] != "run_passed":
                self._jobs[str(data.get("run") or data.get("tested"))] = jobs["minutes"], jobs.get("cost")
            if number is None:
                self._of_run(each["event"], at, data)
            else:
                if each["event"] in {"queued", "held"} and number not in self._waiting:
                    self._waiting[number] = at, self._place(number, data.get("position"))
                self._of_entry(each["event"], number, at, each.get("reason") in _BY_CHECKS)
        self.timeline.runs.sort(key=lambda run: (run.start, run.end))
        jobs = self._jobs.values()
        self.timeline.minutes += [minutes for minutes, _ in jobs] if jobs else self._checked.values()
        if jobs:
            self.timeline.spent = sum(minutes for minutes, _ in jobs), sum(cost or 0.0 for _, cost in jobs)

    def _of_run(self, event: str, at: float, data: Mapping[str, Any]) -> None:
        timeline, run = self.timeline, data.get("run")
        if event == "run_started" and run is not None:
            timeline.trains = True
            self._active[run] = at, tuple(data["members"])
            timeline.slots = max(timeline.slots, len(self._active), data.get("slots") or 1)
        elif event in {"run_passed", "run_ended"} and run in self._active:
            start, members = self._active.pop(run)
            passed = event == "run_passed" or (False if data.get("outcome") == "failed" else None)
            timeline.runs.append(TimelineRun(members, start, at, passed))
        elif event == "flake_seen":
            # A run of its own that failed with the same members is counted as one.
            members = tuple(data["members"])
            timeline.absorbed += not any(each.members == members and each.passed is False for each in timeline.runs)

    def _of_entry(self, event: str, number: int, at: float, by_checks: bool) -> None:
        if event == "checking" and not any(number in members for _, members in self._active.values()):
            self._alone[number] = at
        if event in {"ready", "failed", "pending", "updating", "cancelled", "landed"} and number in self._alone:
            passed = True if event in {"ready", "landed"} else False if by_checks else None
            start = self._alone.pop(number)
            # Where the checks of its head had passed before, no run began.
            if at - start >= _LEAST_RUN:
                self.timeline.runs.append(TimelineRun((number,), start, at, passed))
        if event in {"landed", "failed", "cancelled"} and number in self._waiting:
            self._order.remove(number)
            since, place = self._waiting.pop(number)
            self.timeline.entries.append(Entry(number, since, at, event, by_checks, place))

    def _place(self, number: int, position: int | None) -> float:
        """Return where an entry stands between its neighbours: webhooks of one instant come in any order."""
        position = len(self._order) if position is None else min(position, len(self._order))
        before, after = self._order[:position][-1:], self._order[position:][:1]
        low = self._waiting[before[0]][1] if before else self._waiting[after[0]][1] - 2 if after else 0.0
        high = self._waiting[after[0]][1] if after else low + 2
        self._order.insert(position, number)
        return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Checks:
    """Workflow runs, by the commit that they tested. `queued`: those of a merge queue, as it was."""

    ci_times: Sequence[float]
    minutes: Sequence[float]
    failed: int
    judged: int
    flaked: int
    passed: int
    queued: int
    queued_minutes: float

    def estimates(self) -> dict[str, Estimate]:
        return _known(
            ci_time=estimates.mean(self.ci_times, f"{len(self.ci_times):,} commits whose checks passed"),
            minutes=estimates.mean(self.minutes, f"the workflow runs of {len(self.minutes):,} commits"),
            failures=estimates.share(self.failed, self.judged, f"{self.judged:,} candidates of a merge queue"),
            flakes=estimates.share(
                self.flaked, self.passed, f"{self.passed:,} commits that passed in the end: those that failed before"
            ),
        )


def read_checks(path: Path) -> Checks:
    """Read workflow runs: `gh run list --json ...`, or pages of GitHub's API. Raises FileError."""
    by_commit: dict[str, list[_WorkflowRun]] = defaultdict(list)
    try:
        for each in _objects(path, "workflow_runs"):
            if (run := _workflow_run(each)) is not None:
                by_commit[run.sha].append(run)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} has a workflow run that this IMQ cannot read ({error!r}).") from None
    if not by_commit:
        fields = "attempt,conclusion,createdAt,event,headBranch,headSha,startedAt,updatedAt,workflowName"
        raise FileError(
            f"{path} has no workflow runs that ended. `gh run list --limit 1000 --json {fields}` lists them."
        )
    counts: Counter[str] = Counter()
    ci_times, minutes, queued_minutes = [], [], 0.0
    for runs in by_commit.values():
        newest = {each.name: each for each in sorted(runs, key=lambda run: run.end)}
        passed = all(each.passed for each in newest.values())
        in_queue = any(each.in_queue for each in runs)
        minutes.append(sum(each.end - each.start for each in newest.values()))
        counts["queued"] += in_queue
        queued_minutes += minutes[-1] if in_queue else 0
        counts["judged"] += in_queue
        counts["failed"] += in_queue and not passed
        if passed:
            # Without reruns: those begin hours later.
            ci_times.append(max(each.end - each.start for each in newest.values()))
            counts["passed"] += 1
            counts["flaked"] += any(each.attempt > 1 or not each.passed for each in runs)
    return Checks(
        ci_times=ci_times, minutes=minutes,
        failed=counts["failed"], judged=counts["judged"], flaked=counts["flaked"], passed=counts["passed"],
        queued=counts["queued"], queued_minutes=queued_minutes,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _WorkflowRun:
    sha: str
    name: str
    start: float
    end: float
    attempt: int
    passed: bool
    in_queue: bool


def _workflow_run(given: Mapping[str, Any]) -> _WorkflowRun | None:
    """Read a workflow run in the words of GitHub's API or of `gh`; None for one without an outcome."""

    def get(*names: str) -> Any:
        return next((given[each] for each in names if given.get(each) is not None), None)

    sha, conclusion = get("head_sha", "headSha"), get("conclusion")
    if sha is None or conclusion not in _BAD | _GOOD:
        return None
    branch = str(get("head_branch", "headBranch") or "")
    return _WorkflowRun(
        sha,
        str(get("workflow_id", "workflowDatabaseId", "workflowName", "name")),
        _minutes(get("run_started_at", "startedAt", "created_at", "createdAt")),
        _minutes(get("updated_at", "updatedAt")),
        int(get("run_attempt", "attempt") or 1),
        conclusion in _GOOD,
        get("event") == "merge_group" or _CANDIDATES.fullmatch(branch) is not None,
    )


def _objects(path: Path, within: str | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file: one array or several documents one after the other, or lines of an event stream.

    `within` names the array of an answer of GitHub's API. Raises FileError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is no text in UTF-8.") from None
    if any(line.startswith("data:") for line in text.splitlines()):
        lines = (line.removeprefix("data:") for line in text.splitlines() if line.startswith("data: {"))
        text = "\n".join(lines)
    decoder, position = json.JSONDecoder(), 0
    while (found := _SOLID.search(text, position)) is not None:
        try:
            value, position = decoder.raw_decode(text, found.start())
        except ValueError:
            line = text.count("\n", 0, found.start()) + 1
            raise FileError(f"{path} is no JSON from line {line} on. Export it again.") from None
        for each in _flat(value, within):
            if isinstance(each, dict):
                yield each


def _flat(found: Any, within: str | None) -> Iterator[Any]:
    if isinstance(found, list):
        for each in found:
            yield from _flat(each, within)
    elif within is not None and isinstance(found, dict) and isinstance(found.get(within), list):
        yield from found[within]
    else:
        yield found


def _minutes(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp() / 60


def _known(**found: Estimate | None) -> dict[str, Estimate]:
    return {name: each for name, each in found.items() if each is not None}
