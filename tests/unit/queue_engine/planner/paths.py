"""A walk: `decide` played against a scripted GitHub, pass by pass, with every request counted."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.facts import CheckReport, CheckState, CommitFacts, MergeMethod
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.executor.reads import with_snapshot
from queue_engine.planner.actions import (
    Action,
    Dequeue,
    FactKind,
    Facts,
    HoldBase,
    Landing,
    Merge,
    ReadFact,
    Rerun,
    Save,
    Unmet,
    Update,
    Wait,
)
from queue_engine.planner.check_outcome import rerun_answered
from queue_engine.planner.decide import decide
from queue_engine.planner.merge_errors import refused_merge
from queue_engine.rules.transitions import check_transition
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, NOW, POLICY, UPDATING, entry
from tests.unit.queue_engine.planner.scripted_github import GitHub, Refusal

STEPS = 50
"""More than any pass needs between two calls that change something."""


@dataclass
class Walk:
    """The way of one entry. `asked` are the requests, in order; rules are remembered as the gateway does."""

    github: GitHub = field(default_factory=GitHub)
    entry: Entry = field(default_factory=entry)
    policy: Policy = POLICY
    now: datetime = NOW
    due: datetime = NOW
    """When the last wait ends."""
    asked: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    """The statuses gone through."""
    merged_heads: list[str] = field(default_factory=list)
    """Heads that a merge was asked for."""
    methods: list[MergeMethod] = field(default_factory=list)
    """By which methods."""
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens on GitHub right after the next request of this name."""
    _facts: Facts = field(default_factory=Facts)

    def go(self) -> Action | None:
        """One pass: until it waits, ends, or a call's answer is lost (None)."""
        self._facts = Facts()
        for _ in range(STEPS):
            action = decide(self.entry, self._facts, self.policy, self.now)
            match action:
                case ReadFact(fact):
                    self._read(fact)
                case Save(changed):
                    self._save(changed)
                case Wait(run, until):
                    assert until > self.now, "a wait of no time is a loop"
                    self._save(replace(self.entry, run=run))
                    self.due = until
                    return action
                case Dequeue() | Landing() | Unmet():
                    return action
                case HoldBase(run):
                    self._save(replace(self.entry, run=run))
                    return action
                case Rerun(run, failed):
                    self._save(replace(self.entry, run=run))
                    if not self._rerun(failed):
                        return None
                case Update(changed):
                    self._save(changed)
                    if not self._update():
                        return None
                case Merge(changed, method):
                    self._save(changed)
                    outcome = self._merge(method)
                    if outcome is not _AGAIN:
                        return outcome
        raise AssertionError(f"no end after {STEPS} steps: {self.asked}")

    def wait(self) -> Action | None:
        """Let the time pass that the last pass asked for, then one pass more."""
        return self.go_at(self.due)

    def go_at(self, now: datetime) -> Action | None:
        """One pass at this instant."""
        self.now = now
        return self.go()

    def change_entry(self, **changes: object) -> None:
        """A webhook changes the entry."""
        self.entry = changed(self.entry, **changes)

    def updated(self, head: str = "head-2") -> None:
        """The update takes effect and its webhook comes."""
        self.github.update(head)
        self.change_entry(new_head=head, new_head_is_ours=True)

    def reported(self, state: CheckState = CheckState.PASSED) -> None:
        """The required check reports and its webhook comes."""
        self.github.say(state)
        self.change_entry(next_poll_at=self.now)

    def left(self) -> Reason:
        """The reason for which the entry leaves in the next pass."""
        action = self.go()
        assert isinstance(action, Dequeue), action
        return action.reason

    def _save(self, changed: Entry) -> None:
        check_transition(self.entry.status, changed.status)
        if changed.status is not self.entry.status:
            self.ways.append(changed.status.value)
        self.entry = changed

    def _ask(self, name: str) -> None:
        if name != "rules" or name not in self.asked:
            self.asked.append(name)

    def _read(self, fact: FactKind) -> None:
        if fact is FactKind.PERMISSION:
            # Read before every merge; no walk but those about it counts it.
            self._facts = replace(self._facts, permission=self.github.permission)
            return
        self._ask(fact.value)
        match fact:
            case FactKind.PULL:
                self._facts = replace(self._facts, pull=self.github.pull)
            case FactKind.SNAPSHOT:
                self._facts = with_snapshot(self._facts, self.github.snapshot(self.entry.head_sha))
            case FactKind.COMPARISON:
                compared = self.github.compare(self.entry.run.new_head or self.entry.head_sha)
                self._facts = replace(self._facts, comparison=compared)
            case FactKind.CHECKS:
                self._facts = replace(self._facts, reports=self.github.reports.get(self.entry.head_sha, ()))
            case FactKind.BASE_REPORTS:
                reports = self.github.reports.get(self.entry.run.base_tip or "", ())
                self._facts = replace(self._facts, base_reports=reports)
            case FactKind.WORKFLOW_RUNS:
                self._facts = replace(self._facts, workflow_runs=self.github.workflow_runs(self.entry.head_sha))
            case FactKind.FORMER_REPORTS:
                former = self.github.reports.get(self.entry.queued_head, ())
                self._facts = replace(self._facts, former_reports=former)
            case FactKind.CANCELLED_FOR:
                self._facts = replace(self._facts, cancelled_for=())
            case FactKind.LOST_UPDATE:
                self._facts = replace(self._facts, lost_update=False)
            case FactKind.SUITES:
                self._facts = replace(self._facts, suites=self.github.suites)
            case FactKind.RECENT_COMMITS:
                self._facts = replace(self._facts, others=CommitFacts("", self.github.elsewhere))
            case FactKind.FRESH_RULES:
                facts = replace(self._facts, rules=self.github.rules, rules_fresh=True)
                self._facts = with_snapshot(facts, self.github.snapshot(self.entry.head_sha))
            case FactKind.RULES:
                self._facts = replace(self._facts, rules=self.github.rules)
        self.meanwhile.pop(fact.value, lambda: None)()

    def _update(self) -> bool:
        self._ask("update")
        self._facts = Facts()
        if not self.github.updates:
            return True
        refusal = self.github.updates.pop(0)
        if not refusal.lost:
            self._facts = Facts(update_refused=refusal.words, update_forbidden=refusal.forbidden)
        return not refusal.lost

    def _rerun(self, failed: tuple[CheckReport, ...]) -> bool:
        """Whether an answer came at all."""
        self._ask("rerun")
        self._facts = Facts()
        refusal = self.github.reruns.pop(0) if self.github.reruns else None
        if refusal is None or refusal.happened:
            self.github.rerun(failed)
        if refusal is not None and refusal.lost:
            return False
        words = None if refusal is None else refusal.words
        self._save(replace(self.entry, run=rerun_answered(self.entry.run, failed, words, self.policy, self.now)))
        return True

    def _merge(self, method: MergeMethod) -> Action | None:
        """What became of the merge: confirmed, unknown (None), or refused and to be decided again."""
        self._ask("merge")
        self.merged_heads.append(self.entry.head_sha)
        self.methods.append(method)
        refused, self._facts = self._facts.refused_methods, Facts()
        refusal = self.github.merges.pop(0) if self.github.merges else None
        if refusal is None or refusal.happened:
            self.github.merge()
        if refusal is None:
            return Landing("landed-1")
        if refusal.lost:
            return None
        self._facts = replace(refused_merge(refusal.words, method, refused), merge_denied=refusal.final)
        if refusal.final is None:
            since = self.entry.run.refused_since or self.now
            self.entry = changed(self.entry, merge_refusals=self.entry.run.merge_refusals + 1, refused_since=since)
        return _AGAIN


_AGAIN = ReadFact(FactKind.PULL)


BEHIND = "base-2"


def behind(**changes: Any) -> Walk:
    """An entry whose base has moved, so that it is to be updated."""
    return Walk(GitHub(base_tip=BEHIND, **changes))


def updating(**changes: Any) -> Walk:
    """An entry whose update has been asked for."""
    walk = behind(**changes)
    walk.go()
    assert walk.entry.status is UPDATING
    return walk


def checking(**changes: Any) -> Walk:
    """An entry whose update is bound and whose check has not reported."""
    walk = updating(**changes)
    walk.updated()
    walk.go()
    assert (walk.entry.status, walk.entry.head_sha) == (CHECKING, "head-2")
    return walk


def ready(*merges: Refusal) -> Walk:
    """An up-to-date, green entry whose first merge calls are answered so."""
    github = GitHub(merges=list(merges))
    github.say(CheckState.PASSED)
    return Walk(github)


def landed(action: Action | None) -> bool:
    """Whether this is the end that everybody hopes for."""
    return action == Landing("landed-1")


WITHDRAWALS: list[tuple[dict[str, Any], Reason]] = [
    ({"open": False}, Reason.CLOSED),
    ({"open": False, "merged": True}, Reason.MERGED_ELSEWHERE),
    ({"draft": True}, Reason.DRAFT),
    ({"labels": frozenset()}, Reason.LABEL_REMOVED),
    ({"base_branch": "release"}, Reason.BASE_CHANGED),
    ({"head_repository": None}, Reason.FORK_DELETED),
]
"""Every way of taking consent back but a push, as GitHub then shows the pull request."""
