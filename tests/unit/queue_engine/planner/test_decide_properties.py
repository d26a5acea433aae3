"""What holds of every decision, whatever the entry and the facts."""

from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    Comparison,
    MergeMethod,
    Permission,
    PullRequest,
    RequiredCheck,
    Review,
    ReviewState,
    Snapshot,
)
from queue_engine.domain.model import TRANSITIONS, Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.executor.github_requests import with_snapshot
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
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    READY,
    UPDATING,
    WAITING,
    comparison,
    entry,
    pull,
    report,
    rules,
    seen,
    workflow_run,
)

MERGE, SQUASH, REBASE = MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE

# Each value is mostly the fit one, so that merges are reached, and often not.

HEADS = (*["head-1"] * 6, "head-2", "evil")
TIPS = ("base-1", "base-1", "base-2")


def mostly(fit: object, *others: object) -> st.SearchStrategy[object]:
    """The fit value three times in four."""
    return st.sampled_from([fit] * (3 * len(others)) + list(others))


instants = st.integers(-3 * 3600, 3600).map(lambda seconds: NOW + timedelta(seconds=seconds))

entries = st.builds(
    changed,
    st.builds(entry),
    status=st.sampled_from(WAITING),
    queued_head=st.sampled_from(HEADS),
    head=st.sampled_from(HEADS),
    head_proved=st.booleans(),
    updated_from=st.sampled_from([None, "head-1", "head-2", "evil"]),
    new_head=mostly(None, "head-1", "head-2", "evil"),
    new_head_is_ours=st.booleans(),
    newer_tip=mostly(None, "base-1", "base-2"),
    base_tip=st.sampled_from([None, *TIPS]),
    tested_tree=st.sampled_from([None, "tree-of-head-1"]),
    pending_checks=st.sampled_from([(), ("ci",)]),
    completed_checks=st.sampled_from([(), ("ci",), ("head-2:ci",)]),
    reruns=st.integers(0, 2),
    rerun_checks=st.sampled_from([(), ("1:ci",), ("1:ci", "2:lint")]),
    rerun_at=mostly(None, NOW),
    fixes_base=mostly(False, True),
    needs_refetch=mostly(False, True),
    merge_requested_at=mostly(None, NOW),
    merge_refusals=st.integers(0, 5),
    polls=st.integers(0, 30),
    next_poll_at=st.none() | instants,
    status_since=instants,
).map(lambda e: e if e.status is READY else changed(e, merge_requested_at=None))

pulls = st.builds(
    pull,
    open=mostly(True, False),
    draft=mostly(False, True),
    merged=mostly(False, False, True),
    head_sha=st.sampled_from(HEADS),
    head_repository=mostly("acme/rocket", None, "eve/rocket"),
    base_branch=mostly("main", "release"),
    mergeable=st.sampled_from([True, False, None]),
    labels=mostly(frozenset({"merge-queue"}), frozenset(), frozenset({"docs"})),
    methods=st.sampled_from([(MERGE, SQUASH), (REBASE,), ()]),
)

comparisons = st.builds(
    comparison,
    st.sampled_from(HEADS),
    behind=mostly(0, 1, 7),
    base_tip=st.sampled_from(TIPS),
    merge_base=st.sampled_from(TIPS),
    parents=st.sampled_from([("work-1",), ("head-1", "base-1"), ("evil", "base-1"), ("base-1", "head-1"), ()]),
)

checks = st.builds(
    report,
    st.sampled_from(["ci", "lint"]),
    st.sampled_from([CheckState.PASSED, CheckState.PASSED, CheckState.PENDING, CheckState.FAILED]),
    app_id=st.sampled_from([10, 11, None]),
    completed_at=instants,
    conclusion=st.sampled_from([None, "timed_out", "cancelled"]),
    run=st.sampled_from([1, 2, None]),
    workflow=st.sampled_from([7, 8, None]),
)

branch_rules = st.builds(
    rules,
    st.sampled_from([RequiredCheck("ci", None), RequiredCheck("lint", 10)]),
    linear_history=st.booleans(),
    native_queue=st.booleans(),
    approvals=mostly(0, 1),
    approvals_bypassed=mostly(False, True),
    bypassed=mostly((), ("main: workflows",)),
) | st.just(rules())

verdicts = st.lists(
    st.builds(Review, st.sampled_from(["ada", "bob"]), st.sampled_from(ReviewState), st.booleans()),
    max_size=2,
).map(tuple)

REFUSED = mostly(
    None,
    "Base branch was modified",
    "Merge commits are not allowed on this repository.",
    "without `workflows` permission",
    "no",
)


def often(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Seen, mostly."""
    return st.one_of(strategy, strategy, strategy, st.none())


sights = st.builds(
    Facts,
    pull=often(pulls),
    comparison=often(comparisons),
    reports=often(st.lists(checks, max_size=3).map(tuple)),
    base_reports=often(st.lists(checks, max_size=3).map(tuple)),
    rules=often(branch_rules),
    permission=often(st.sampled_from(Permission)),
    reviews=often(verdicts),
    refused_methods=mostly(frozenset(), frozenset({MergeMethod.MERGE}), frozenset(MergeMethod)),
    update_refused=mostly(None, "merge conflict", "no"),
    update_forbidden=mostly(False, True),
    merge_refused=REFUSED,
    merge_denied=mostly(None, Reason.PERMISSION_MISSING),
)


FIT = entry(status=READY)
ALL_SEEN = seen(
    pull=pull(), permission=Permission.WRITE, comparison=comparison(), rules=rules("ci"), reports=(report("ci"),)
)


@st.composite
def near_merges(draw: st.DrawFn) -> tuple[Entry, Facts]:
    """What is fit to be merged, but for some things taken from anywhere."""
    wild, wild_pull, wild_comparison = draw(entries), draw(pulls), draw(comparisons)
    read, compared = pull(), comparison()
    at = replace(FIT, **{name: getattr(wild, name) for name in draw(some_of(Entry))})
    read = replace(read, **{name: getattr(wild_pull, name) for name in draw(some_of(PullRequest))})
    compared = replace(compared, **{name: getattr(wild_comparison, name) for name in draw(some_of(Comparison))})
    if at.status is not READY:
        at = changed(at, merge_requested_at=None)
    reports = draw(st.one_of(st.just(ALL_SEEN.reports), st.none(), st.lists(checks, max_size=3).map(tuple)))
    return at, replace(ALL_SEEN, pull=read, comparison=compared, reports=reports)


def some_of(kind: type) -> st.SearchStrategy[set[str]]:
    """The names of at most two of its fields."""
    return st.sets(st.sampled_from(sorted(kind.__dataclass_fields__)), max_size=2)  # type: ignore[attr-defined]


situations = st.one_of(near_merges(), st.tuples(entries, sights))


def test_merge_is_decided_when_everything_is_fit() -> None:
    """The properties below begin from here."""
    assert isinstance(decide(FIT, ALL_SEEN, POLICY, NOW), Merge)


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
    assert read.head_sha == at.head == action.entry.head
    assert at.head_proved
    compared = facts.comparison
    assert compared is not None
    assert compared.head.sha == at.head
    assert compared.behind == 0
    assert (action.entry.run.tested_tree, action.entry.run.base_tip) == (compared.head.tree, compared.base_tip)
    assert action.entry.run.merge_requested_at == NOW
    assert facts.permission is not None
    assert facts.permission.may_merge
    assert facts.rules is not None
    assert facts.reports is not None
    assert judge(facts.rules.required_checks, of_now(at.run, facts.reports)).state is CheckState.PASSED
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
    if isinstance(action, Save | Wait | Update | Merge | Block | Rerun | HoldBase):
        after = action.entry
        assert after.status is at.status or after.status in TRANSITIONS[at.status]
        assert not after.status.final
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
        assert action.entry.run.rerun_at is not None
        assert action.checks
        assert all(run_key(check) in action.entry.run.rerun_checks for check in action.checks)


@settings(max_examples=120, deadline=None)
@given(entries, sights)
def test_head_is_bound_only_as_own_update_or_to_be_proved(at: Entry, facts: Facts) -> None:
    """P4: another head than the stored one is proved by its parents, or marked unproved with what will prove it."""
    action = decide(at, facts, POLICY, NOW)
    if not isinstance(action, Save | Wait | Update | Merge) or action.entry.head == at.head:
        return
    bound = action.entry
    assert (at.status, bound.status) == (UPDATING, CHECKING)
    assert (bound.head, bound.updated_from) == (at.run.new_head, at.head)
    if bound.head_proved:
        assert facts.comparison is not None
        assert facts.comparison.head.sha == bound.head
        assert facts.comparison.head.parents == (at.head, facts.comparison.merge_base)
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

    Fresh rules come with a new snapshot: a comparison that it lacks is asked for once more.
    """
    facts = Facts(update_refused=update_refused, merge_refused=merge_refused)
    asked: list[tuple[FactKind, str, bool]] = []
    for _ in range(15):
        action: Action = decide(at, facts, POLICY, NOW)
        if isinstance(action, ENDS):
            return
        if isinstance(action, Save):
            at = action.entry
            continue
        assert isinstance(action, ReadFact)
        subject = at.run.new_head or at.head
        asked.append((action.fact, subject, facts.rules_fresh))
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
            case FactKind.SUITES:
                facts = replace(facts, suites=())
    raise AssertionError(f"no end: {asked}")
