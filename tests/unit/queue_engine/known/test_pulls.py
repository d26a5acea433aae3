"""A pull request as it was read compared with what webhooks and IMQ's own writes show of it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import KEPT, SETTLED, Consent, Known, MergeResult, OwnLabel, PullRequestState
from queue_engine.known.pulls import corrected, outdated_pull, webhooks_since
from tests.unit.queue_engine.examples import NOW, pull

SECOND = timedelta(seconds=1)
OTHERS: dict[str, dict[str, Any]] = {
    "head": {"head_sha": "head-0"},
    "base branch": {"base_branch": "release"},
    "state": {"open": False},
    "draft": {"draft": True},
    "labels": {"labels": frozenset({"docs"})},
    "title": {"title": "Other"},
    "auto-merge": {"auto_merge": True},
}
"""Another value of each field that is compared, by the field."""


def read(**changes: Any) -> PullRequest:
    """The pull request as GitHub shows it, changed at NOW."""
    return replace(pull(updated_at=NOW), **changes)


def reported_as(*, at: datetime = NOW, **changes: Any) -> Known:
    """The same as a webhook showed it."""
    state = PullRequestState(
        updated_at=NOW,
        head_sha="head-1",
        base="main",
        open=True,
        merged=False,
        draft=False,
        labels=("merge-queue", "docs"),
        title="Change 1",
        auto_merge=False,
    )
    return Known(state.model_copy(update=changes), at)


@pytest.mark.parametrize("field", OTHERS)
def test_read_older_than_what_is_known_is_outdated_if_a_field_differs(field: str) -> None:
    """As long as the fact is kept."""
    older = read(updated_at=NOW - SECOND, **OTHERS[field])
    why = outdated_pull(older, [reported_as()], NOW + KEPT - SECOND)
    assert why is not None
    assert field in why
    assert outdated_pull(older, [], NOW) is None


def test_read_without_a_line_that_names_others_is_outdated() -> None:
    """P1, P3: it would land before the one that its description names since; a fact of an older IMQ has no lines."""
    known = reported_as(order=("Depends-On: #7",))
    why = outdated_pull(read(updated_at=NOW - SECOND), [known], NOW)
    assert why is not None
    assert "order" in why
    assert outdated_pull(read(order=("Depends-On: #7",)), [known], NOW) is None
    assert outdated_pull(read(order=("Depends-On: #7",)), [reported_as()], NOW) is None


def test_read_with_an_older_time_and_nothing_that_differs_is_believed() -> None:
    """Whether GitHub's two ways of telling the time agree to the second is not documented."""
    assert outdated_pull(read(updated_at=NOW - SECOND), [reported_as()], NOW) is None


@pytest.mark.parametrize("field", OTHERS)
def test_read_of_the_same_second_that_differs_is_doubted_for_some_seconds(field: str) -> None:
    """Two things in one second have no order."""
    differing = read(**OTHERS[field])
    assert outdated_pull(differing, [reported_as()], NOW + SETTLED - SECOND) is not None
    assert outdated_pull(differing, [reported_as()], NOW + SETTLED) is None


@pytest.mark.parametrize("field", OTHERS)
def test_newer_read_is_believed(field: str) -> None:
    """Webhooks may come late, or be lost."""
    assert outdated_pull(read(updated_at=NOW + SECOND, **OTHERS[field]), [reported_as()], NOW) is None


def test_newest_state_counts_in_whatever_order_states_were_reported() -> None:
    """A late delivery lowers nothing."""
    known = [reported_as(), reported_as(updated_at=NOW - 2 * SECOND, head_sha="head-0", labels=())]
    assert outdated_pull(read(), known, NOW) is None
    assert outdated_pull(read(updated_at=NOW - SECOND, head_sha="head-0"), known, NOW) is not None


def test_merged_pull_request_is_never_open_again() -> None:
    """Merged is final, even when GitHub says open for a moment (rust-bors #752)."""
    later = NOW + KEPT - SECOND
    for known in ([Known(MergeResult(sha="landed"), NOW)], [reported_as(open=False, merged=True), reported_as()]):
        assert outdated_pull(read(updated_at=later), known, later) is not None
        assert outdated_pull(read(updated_at=later, open=False, merged=True), known, later) is None


def test_head_that_a_push_has_replaced_is_outdated_whatever_the_time_says() -> None:
    """The `updated_at` of a `synchronize` is not seen to move, that of a comment is."""
    pushed = reported_as(head_sha="head-2", before="head-1")
    assert outdated_pull(read(updated_at=NOW + SECOND), [pushed], NOW) is not None
    assert outdated_pull(read(updated_at=NOW + SECOND, head_sha="head-2"), [pushed], NOW) is None


@pytest.mark.parametrize("label_set", [True, False])
def test_label_that_changed_just_now_is_missed_whatever_the_time_says(label_set: bool) -> None:
    """By a webhook or by IMQ itself; case does not matter."""
    labels = frozenset({"docs"}) if label_set else frozenset({"docs", "Merge-Queue"})
    lacking = read(updated_at=NOW + SECOND, labels=labels)
    known_labels = ("docs", "merge-queue") if label_set else ("docs",)
    for known in (
        reported_as(labels=known_labels, label="MERGE-queue", label_set=label_set),
        Known(OwnLabel(label="MERGE-queue", label_set=label_set), NOW),
    ):
        assert outdated_pull(lacking, [known], NOW) is not None
        assert outdated_pull(lacking, [known], NOW + SETTLED) is None


def test_last_change_of_a_label_counts() -> None:
    """IMQ took it off, and somebody set it again."""
    off = Known(OwnLabel(label="merge-queue", label_set=False), NOW)
    on = reported_as(label="merge-queue", label_set=True)
    assert outdated_pull(read(), [off, on], NOW) is None
    assert outdated_pull(read(), [on, off], NOW) is not None


def test_label_that_a_newer_state_shows_otherwise_is_not_missed() -> None:
    """A label deleted from its repository leaves by an `unlabeled` that names none; an older state proves nothing."""
    on = reported_as(label="merge-queue", label_set=True)
    off = reported_as(labels=("docs",))
    older = reported_as(labels=("docs",), updated_at=NOW - SECOND)
    lacking = read(updated_at=NOW + SECOND, labels=frozenset({"docs"}))
    assert outdated_pull(lacking, [on, off], NOW) is None
    assert outdated_pull(lacking, [on, older], NOW) is not None


def test_label_event_delivered_again_much_later_is_ignored() -> None:
    """A read that is much newer is right."""
    again = reported_as(label="merge-queue", label_set=True)
    assert outdated_pull(read(updated_at=NOW + SETTLED, labels=frozenset()), [again], NOW + 2 * SETTLED) is None
    assert outdated_pull(read(updated_at=NOW + KEPT, head_sha="x"), [reported_as(before="x")], NOW + KEPT) is None


def test_own_change_of_a_label_is_part_of_what_is_known() -> None:
    """Its webhook may come later: the true answer of the same second is not doubted."""
    before = reported_as(labels=("docs",))
    written = Known(OwnLabel(label="merge-queue", label_set=True), NOW)
    assert outdated_pull(read(), [before, written], NOW) is None
    off = Known(OwnLabel(label="Merge-Queue", label_set=False), NOW)
    assert outdated_pull(read(labels=frozenset({"docs"})), [reported_as(), off], NOW) is None


def test_last_state_reported_of_one_second_counts() -> None:
    """Two changes in one second arrive in their order more often than not."""
    first, last = reported_as(title="First"), reported_as(title="Last")
    assert outdated_pull(read(title="Last"), [first, last], NOW) is None
    assert outdated_pull(read(title="First"), [first, last], NOW) is not None


def test_listed_pull_request_that_is_outdated_is_corrected_or_left_out() -> None:
    """IMQ does not read a list again: it puts the known state into it, and leaves out a known close."""
    older = read(updated_at=NOW - SECOND, head_sha="head-0", labels=frozenset())
    assert corrected(older, [reported_as()], NOW) == read(mergeable=None)
    known: dict[str, Any] = {
        "head_sha": "head-2",
        "base": "release",
        "draft": True,
        "title": "Other",
        "labels": ("docs",),
    }
    changed = {"head_sha": "head-2", "base_branch": "release", "draft": True, "title": "Other"}
    assert corrected(older, [reported_as(**known)], NOW) == read(mergeable=None, labels=frozenset({"docs"}), **changed)
    assert corrected(older, [reported_as(open=False)], NOW) is None
    assert corrected(older, [reported_as(), Known(MergeResult(sha="landed"), NOW)], NOW) is None
    assert corrected(older, [], NOW) == older


def test_merged_pull_request_is_believed_whatever_was_reported_in_its_second() -> None:
    """A merge is final, and an answer that shows one is no older state."""
    merged = read(open=False, merged=True)
    assert outdated_pull(merged, [reported_as()], NOW) is None
    assert outdated_pull(merged, [reported_as(), Known(MergeResult(sha="landed"), NOW)], NOW) is None


def test_push_counts_since_it_was_reported_and_other_changes_since_they_happened() -> None:
    """A push may leave `updated_at` as it was; a close of long ago was only delivered again."""
    consent = Known(Consent(at=NOW, by="mona"), NOW)
    push = reported_as(updated_at=NOW - KEPT, before="head-0")
    closed, late = reported_as(updated_at=NOW - KEPT, open=False), reported_as(updated_at=NOW - KEPT + SECOND)
    assert webhooks_since([push, consent, closed, late], NOW) == (push.statement, consent.statement, late.statement)
