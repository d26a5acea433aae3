"""GitHub as a script changes it: one pull request, one branch, and the answers to the next calls."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    CheckSuite,
    Comparison,
    Permission,
    PullRequest,
    Snapshot,
    WorkflowRun,
)
from queue_engine.domain.reasons import Reason
from tests.unit.queue_engine.examples import NOW, comparison, pull, report, rules, workflow_run


@dataclass
class Refusal:
    """GitHub's answer to a call that it does not carry out, or says so (`happened`)."""

    words: str = ""
    final: Reason | None = None
    forbidden: bool = False
    lost: bool = False
    """No answer came at all."""
    happened: bool = False


@dataclass
class GitHub:
    """One pull request and one branch, as a script changes them."""

    pull: PullRequest = field(default_factory=pull)
    rules: BranchRules = field(default_factory=lambda: rules("ci"))
    permission: Permission = Permission.WRITE
    """That of the person who queued it."""
    base_tip: str = "base-1"
    merge_base: str = "base-1"
    parents: tuple[str, ...] = ("work-1",)
    reports: dict[str, tuple[CheckReport, ...]] = field(default_factory=dict)
    updates: list[Refusal] = field(default_factory=list)
    """Answers to the next updates; after them they are accepted."""
    merges: list[Refusal] = field(default_factory=list)
    """Answers to the next merges; after them they are carried out."""
    reruns: list[Refusal] = field(default_factory=list)
    """Answers to the next reruns; after them they are carried out."""
    workflow: int | None = None
    """The run of GitHub Actions that all reports on heads are jobs of; None: an App's own."""
    parked: tuple[WorkflowRun, ...] = ()
    """Runs of GitHub Actions beside that one."""
    suites: tuple[CheckSuite, ...] = ()
    elsewhere: tuple[CheckReport, ...] = (report("ci"),)
    """The checks of other commits."""
    runs: int = 100
    """Number of the last check run."""

    def compare(self, head: str) -> Comparison:
        behind = int(self.merge_base != self.base_tip)
        return comparison(head, behind=behind, base_tip=self.base_tip, merge_base=self.merge_base, parents=self.parents)

    def snapshot(self, head: str) -> Snapshot:
        """The snapshot that one GraphQL query returns: a comparison only where the head contains the base's tip."""
        compared = self.compare(head)
        shown = None if compared.behind else compared
        return Snapshot(self.pull, self.permission, shown, base_tip=compared.base_tip, behind=compared.behind)

    def move_base(self, tip: str) -> None:
        """Somebody pushes to the base."""
        self.base_tip = tip

    def update(self, head: str) -> None:
        """The update that was asked for takes effect: a merge of the base into the head."""
        self.push(head, parents=(self.pull.head_sha, self.base_tip), merge_base=self.base_tip)

    def push(self, head: str, *, parents: tuple[str, ...], merge_base: str) -> None:
        """A new head appears."""
        self.pull = replace(self.pull, head_sha=head)
        self.parents, self.merge_base = parents, merge_base

    def say(self, state: CheckState, name: str = "ci", at: datetime = NOW, conclusion: str | None = None) -> None:
        """A check reports on the present head, in a new run."""
        self.reports[self.pull.head_sha] = (self._run(name, state, at, conclusion),)

    def say_on_base(self, state: CheckState, name: str = "ci", conclusion: str | None = None) -> None:
        """The same on the base's tip."""
        self.reports[self.base_tip] = (self._run(name, state, NOW, conclusion),)

    def _run(self, name: str, state: CheckState, at: datetime, conclusion: str | None = None) -> CheckReport:
        self.runs += 1
        return report(name, state, completed_at=at, conclusion=conclusion, run=self.runs, workflow=self.workflow)

    def rerun(self, failed: Iterable[CheckReport]) -> None:
        """Jobs that failed begin again: their new runs are pending."""
        again = {check.name: self._run(check.name, CheckState.PENDING, NOW) for check in failed}
        head = self.pull.head_sha
        self.reports[head] = tuple(again.get(report.name, report) for report in self.reports[head])

    def workflow_runs(self, head: str) -> tuple[WorkflowRun, ...]:
        """The runs of GitHub Actions on a head."""
        own = () if self.workflow is None else (workflow_run(self.workflow, head),)
        return (*own, *self.parked)

    def merge(self) -> None:
        """The pull request is merged."""
        self.pull = replace(self.pull, open=False, merged=True, merge_sha="landed-1")
