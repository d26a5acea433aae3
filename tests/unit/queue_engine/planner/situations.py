"""Strategies for entries and facts, as hypothesis draws them."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st

from queue_engine.domain.facts import (
    CheckState,
    Comparison,
    MergeMethod,
    Permission,
    PullRequest,
    RequiredCheck,
    Review,
    ReviewState,
)
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Facts
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    NOW,
    READY,
    UPDATING,
    WAITING,
    comparison,
    entry,
    facts_with,
    pull,
    report,
    rules,
)

MERGE, SQUASH, REBASE = MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE

HEADS = (*["head-1"] * 6, "head-2", "evil")
TIPS = ("base-1", "base-1", "base-2")


def mostly(fit: object, *others: object) -> st.SearchStrategy[object]:
    """The fit value three times in four."""
    return st.sampled_from([fit] * (3 * len(others)) + list(others))


instants = st.integers(-3 * 3600, 3600).map(lambda seconds: NOW + timedelta(seconds=seconds))

any_entries = st.builds(
    changed,
    st.builds(entry),
    status=st.sampled_from(WAITING),
    queued_head=st.sampled_from(HEADS),
    head_sha=st.sampled_from(HEADS),
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
)


def reachable(at: Entry) -> Entry:
    """Only ready entries have a merge request, and only an update has a head that is not bound."""
    at = at if at.status is READY else changed(at, merge_requested_at=None)
    return at if at.status is UPDATING else changed(at, new_head=None, new_head_is_ours=False)


entries = any_entries.map(reachable)

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
ALL_FACTS = facts_with(
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
    at = reachable(at)
    reports = draw(st.one_of(st.just(ALL_FACTS.reports), st.none(), st.lists(checks, max_size=3).map(tuple)))
    return at, replace(ALL_FACTS, pull=read, comparison=compared, reports=reports)


def some_of(kind: type) -> st.SearchStrategy[set[str]]:
    """The names of at most two of its fields."""
    return st.sets(st.sampled_from(sorted(kind.__dataclass_fields__)), max_size=2)  # type: ignore[attr-defined]


situations = st.one_of(near_merges(), st.tuples(entries, sights))
