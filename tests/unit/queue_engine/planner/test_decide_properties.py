"""What holds of every decision, whatever the entry and the facts."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    Comparison,
    Permission,
    PullRequest,
    Review,
    Snapshot,
)
from queue_engine.domain.model import TRANSITIONS, Entry, EntryStatus
from queue_engine.executor.reads import with_snapshot
from queue_engine.planner.actions import (
    Action,
    Block,
    Dequeue,
    FactKind,
    Facts,
    HoldBase,
    Landing,
    Merge,
    ReadFact,
    Rerun,
    Save,
    Update,
    Wait,
)
from queue_engine.planner.decide import decide
from queue_engine.rules.checks import judge, of_now, run_key
from queue_engine.rules.reviews import missing_approval
from tests.unit.queue_engine.examples import CHECKING, NOW, POLICY, READY, UPDATING, workflow_run
from tests.unit.queue_engine.planner.situations import (
    ALL_FACTS,
    FIT,
    REFUSED,
    branch_rules,
    checks,
    comparisons,
    entries,
    mostly,
    pulls,
    sights,
    situations,
    verdicts,
)


def test_merge_is_decided_when_everything_is_fit() -> None:
    """The properties below begin from here."""
    assert isinstance(decide(FIT, ALL_FACTS, POLICY, NOW), Merge)


@settings(max_examples=150, deadline=None)
@given(situations)
def test_merge_is_never_decided_without_consent_and_proof(situation: tuple[Entry, Facts]) -> None:
    """P1 and P4 of every merge: read, compared with the base and found green in this pass, consented to, proved."""
    at, facts = situation
    action = decide(at, facts, POLICY, NOW)
    if not isinstance(action, Merge):
        return
    assert at.status is READY
    assert not at.needs_refetch
    assert at.run.merge_requested_at is None
    read = facts.pull
    assert read is not None
    assert read.open
    assert not read.merged
    assert not read.draft
    assert POLICY.trigger_label in read.labels
    assert read.base_branch == at.base_branch
    assert read.head_repository is not None
    assert read.head_sha == at.head_sha == action.entry.head_sha
    assert at.head_proved
    compared = facts.comparison
    assert compared is not None
    assert compared.head.sha == at.head_sha
    assert compared.behind == 0
    assert (action.entry.run.tested_tree, action.entry.run.base_tip) == (compared.head.tree, compared.base_tip)
    assert action.entry.run.merge_requested_at == NOW
    assert facts.permission is not None
    assert facts.permission.may_merge
    assert facts.rules is not None
    assert facts.reports is not None
    assert judge(facts.rules.required_checks, of_now(at.run, facts.reports, POLICY)).state is CheckState.PASSED
    assert facts.merge_denied is None or facts.merge_refused is None
    assert action.method not in facts.refused_methods
    assert not facts.rules.bypassed
    if facts.rules.approvals_bypassed:
        assert facts.reviews is not None
        assert missing_approval(facts.reviews, facts.rules) is None


@settings(max_examples=150, deadline=None)
@given(situations)
def test_every_decision_keeps_to_the_table_of_transitions_and_to_the_future(situation: tuple[Entry, Facts]) -> None:
    """No forbidden status, no wait that is over already, and nothing changed that is not an entry's to change."""
    at, facts = situation
    action = decide(at, facts, POLICY, NOW)
    if isinstance(action, Save | Update | Merge | Block):
        after = action.entry
        assert after.status is at.status or after.status in TRANSITIONS[at.status]
        assert TRANSITIONS[after.status]
        for name in ("id", "queue_id", "repository", "number", "queued_head", "enqueued_at", "version", "position"):
            assert getattr(after, name) == getattr(at, name)
    if isinstance(action, Wait):
        assert action.until > NOW
    if isinstance(action, Block):
        assert action.entry.status is EntryStatus.PENDING
        assert action.entry.blocked_until is not None
        assert action.entry.blocked_until > NOW
    if isinstance(action, Save):
        assert action.entry != at, "storing what is stored already is a loop"
    if isinstance(action, Update):
        assert action.entry.status is UPDATING
        assert action.entry.run.next_poll_at is not None
        assert action.entry.run.next_poll_at > NOW
    if isinstance(action, Merge):
        assert action.entry.status is READY
    if isinstance(action, Rerun):
        assert action.run.rerun_at is not None
        assert action.checks
        assert all(run_key(check) in action.run.rerun_checks for check in action.checks)


@settings(max_examples=120, deadline=None)
@given(entries, sights)
def test_head_is_bound_only_as_own_update_or_to_be_proved(at: Entry, facts: Facts) -> None:
    """P4: another head than the stored one is proved by its parents, or marked unproved with what will prove it."""
    action = decide(at, facts, POLICY, NOW)
    if not isinstance(action, Save | Update | Merge) or action.entry.head_sha == at.head_sha:
        return
    bound = action.entry
    assert (at.status, bound.status) == (UPDATING, CHECKING)
    assert (bound.head_sha, bound.updated_from) == (at.run.new_head, at.head_sha)
    if bound.head_proved:
        assert facts.comparison is not None
        assert facts.comparison.head.sha == bound.head_sha
        assert facts.comparison.head.parents == (at.head_sha, facts.comparison.merge_base)
    else:
        assert at.run.new_head_is_ours


ENDS = (Wait, Dequeue, Block, Merge, Update, Landing, Rerun, HoldBase)


@dataclass(frozen=True)
class Answers:
    """What GitHub answers, whenever it is asked."""

    pull: PullRequest
    comparison: Comparison
    reports: tuple[CheckReport, ...]
    base_reports: tuple[CheckReport, ...]
    rules: BranchRules
    reviews: tuple[Review, ...]

    def comparison_with(self, head: str) -> Comparison:
        """The comparison with this head."""
        return replace(self.comparison, head=replace(self.comparison.head, sha=head))


@settings(max_examples=150, deadline=None)
@given(
    entries,
    st.builds(
        Answers,
        pulls,
        comparisons,
        st.lists(checks, max_size=3).map(tuple),
        st.lists(checks, max_size=3).map(tuple),
        branch_rules,
        verdicts,
    ),
    mostly(None, "merge conflict", "no"),
    REFUSED,
)
def test_pass_over_unchanging_facts_ends(
    at: Entry, answers: Answers, update_refused: str | None, merge_refused: str | None
) -> None:
    """P5: no pass goes round in circles, and none asks for the same fact twice unless the head in question changed.

    Fresh rules come with a new snapshot: IMQ asks again for a comparison that it lacks.
    """
    facts = Facts(update_refused=update_refused, merge_refused=merge_refused)
    asked: list[tuple[FactKind, str, bool, bool]] = []
    for _ in range(15):
        action: Action = decide(at, facts, POLICY, NOW)
        if isinstance(action, ENDS):
            return
        if isinstance(action, Save):
            at = action.entry
            continue
        assert isinstance(action, ReadFact)
        subject = at.run.new_head or at.head_sha
        # A snapshot replaces the comparison that was read before it.
        asked.append((action.fact, subject, facts.rules_fresh, facts.snapshot is not None))
        assert len(set(asked)) == len(asked), asked
        match action.fact:
            case FactKind.PULL:
                facts = replace(facts, pull=answers.pull)
            case FactKind.SNAPSHOT:
                facts = with_snapshot(facts, Snapshot(answers.pull, Permission.WRITE))
            case FactKind.COMPARISON:
                facts = replace(facts, comparison=answers.comparison_with(subject))
            case FactKind.CHECKS:
                facts = replace(facts, reports=answers.reports)
            case FactKind.PERMISSION:
                facts = replace(facts, permission=Permission.WRITE)
            case FactKind.REVIEWS:
                facts = replace(facts, reviews=answers.reviews)
            case FactKind.BASE_REPORTS:
                facts = replace(facts, base_reports=answers.base_reports)
            case FactKind.FRESH_RULES:
                facts = replace(facts, rules=answers.rules, rules_fresh=True)
                facts = with_snapshot(facts, Snapshot(answers.pull, Permission.WRITE))
            case FactKind.RULES:
                facts = replace(facts, rules=answers.rules)
            case FactKind.WORKFLOW_RUNS:
                facts = replace(facts, workflow_runs=(workflow_run(7, subject),))
            case FactKind.FORMER_REPORTS:
                facts = replace(facts, former_reports=answers.base_reports)
            case FactKind.CANCELLED_FOR:
                facts = replace(facts, cancelled_for=())
            case FactKind.SUITES:
                facts = replace(facts, suites=())
            case FactKind.LOST_UPDATE:
                facts = replace(facts, lost_update=False)
            case FactKind.HEAD_PUSHES:
                facts = replace(facts, head_pushes=())
    raise AssertionError(f"no end: {asked}")
