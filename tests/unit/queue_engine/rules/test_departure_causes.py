"""Who caused a departure: by webhooks, by GitHub's history, and how long after IMQ's own update of the branch."""

from collections.abc import Sequence
from typing import Any

import pytest

from queue_engine.domain.departure import Cause, DequeueReason, RerunCheck
from queue_engine.domain.facts import HistoryEvent
from queue_engine.domain.known_facts import Consent, Known, OwnLabel, PullRequestState, ReviewChange, Statement
from queue_engine.domain.reasons import Reason
from queue_engine.rules.departure_facts import (
    author_in_history,
    cause_of,
    cause_of_refusal,
    changed_lately,
    dismissal_of,
    lost_labels,
    never_set,
    pushed_head,
    withdrawn_by,
)
from tests.unit.queue_engine.examples import MINUTE, NOW, POLICY, entry, pull
from tests.unit.queue_engine.rules.test_departures import departed, own

LABEL = POLICY.trigger_label
UPDATED = entry(queued_head="head-1", head_sha="updated", enqueued_at=NOW)
"""IMQ has updated its branch."""


def state(minute: float = 1, **changes: Any) -> PullRequestState:
    """A webhook about the pull request: by rhea, so many minutes after it was queued."""
    shown: dict[str, Any] = {"head_sha": "head-1", "base": "main", "open": True, "merged": False, "draft": False}
    shown |= {"labels": (LABEL,), "title": "", "by": "rhea", "updated_at": NOW + minute * MINUTE}
    return PullRequestState(**shown | changes)


def is_trigger(label: str) -> bool:
    return POLICY.has_trigger_label([label])


def known(*stated: tuple[float, Statement]) -> list[Known]:
    """Facts, each with the minute of its arrival."""
    return [Known(each, NOW + minute * MINUTE) for minute, each in stated]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": "synchronize", "before": "head-1"}, Reason.HEAD_CHANGED),
        ({"action": "unlabeled", "label": LABEL, "labels": ()}, Reason.LABEL_REMOVED),
        ({"action": "unlabeled", "labels": ()}, Reason.LABEL_DELETED),
        ({"action": "unlabeled", "label": "other", "labels": ()}, None),
        ({"action": "unlabeled"}, None),
        ({"action": "unlabeled", "label": "other"}, None),
        ({"action": "closed", "open": False}, Reason.CLOSED),
        ({"action": "closed", "open": False, "merged": True}, Reason.MERGED_ELSEWHERE),
        ({"action": "converted_to_draft", "draft": True}, Reason.DRAFT),
        ({"action": "edited", "base_changed": True, "base": "release"}, Reason.BASE_CHANGED),
        ({"action": "edited", "base_changed": True}, None),
        ({"action": "edited", "base": "release"}, None),
        ({"action": "reopened"}, None),
    ],
)
def test_change_of_a_pull_request_ends_consent_for_its_own_reason(
    change: dict[str, Any], reason: Reason | None
) -> None:
    """P4: of a pull request that shadow mode dequeued, no entry is left that could be compared."""
    assert withdrawn_by(state(**change), "main", POLICY) is reason


@pytest.mark.parametrize(
    ("reason", "change", "other"),
    [
        (Reason.HEAD_CHANGED, {"before": "old"}, {"before": "old", "head_sha": "another"}),
        (Reason.HEAD_CHANGED, {"before": "old"}, {}),
        (Reason.BASE_CHANGED, {"base_changed": True}, {"base_changed": True, "base": "another"}),
        (Reason.BASE_CHANGED, {"base_changed": True}, {}),
        (Reason.CLOSED, {"action": "closed"}, {"action": "closed", "merged": True}),
        (Reason.CLOSED, {"action": "closed"}, {"action": "reopened"}),
        (Reason.DRAFT, {"action": "converted_to_draft"}, {"action": "ready_for_review"}),
    ],
)
def test_refusal_names_who_last_made_what_it_is_refused_for(
    reason: Reason, change: dict[str, Any], other: dict[str, Any]
) -> None:
    """P6: another change, or one that led to another head or base, causes no refusal."""
    consent = Consent(at=NOW)
    changes = (state(**change, by="first"), state(**change), state(**other, by="nobody"), consent)
    assert cause_of_refusal(reason, pull(reported=changes)) == Cause("rhea")
    assert cause_of_refusal(reason, pull(reported=(state(**change, by_bot=True),))) == Cause("rhea", bot=True)
    assert cause_of_refusal(reason, pull(reported=(state(**other),))) is None
    assert cause_of_refusal(reason, pull(reported=(state(**change, by=None),))) is None
    assert cause_of_refusal(Reason.CONFLICT, pull(reported=changes)) is None


def review(of: str, word: str = "dismissed", by: str | None = "rhea") -> ReviewChange:
    return ReviewChange(author=of, state=word, by=by, by_bot=by == "some-app[bot]")


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ([(1, review("ada"))], Cause("rhea")),
        ([(0, review("ada"))], Cause("rhea")),
        ([(1, review("ada", by="some-app[bot]"))], Cause("some-app[bot]", bot=True)),
        ([(2, review("ada", by="max")), (1, review("eve"))], Cause("max")),
        ([(1, review("eve")), (2, review("ada", by="max"))], Cause("max")),
        ([(1, review("ada")), (2, review("ada", "approved"))], None),
        ([(-1, review("ada"))], None),
        ([(1, review("ada", by=None))], None),
        ([(1, review("ada", "approved"))], None),
        ([(1, state())], None),
        ([], None),
    ],
)
def test_dismissal_is_named_while_no_approval_follows_it(
    facts: list[tuple[float, Statement]], cause: Cause | None
) -> None:
    """P6: an approval that was given again, or dismissed before the pull request was queued, causes nothing."""
    assert dismissal_of(entry(enqueued_at=NOW), known(*facts)) == cause


@pytest.mark.parametrize(("minute", "after"), [(5, 180.0), (2, 0.0), (1, None)])
def test_cause_has_the_seconds_after_the_last_update_of_imq(minute: float, after: float | None) -> None:
    """P6: people see that IMQ's own update had a bot act; what came before the update did not follow from it."""
    updates = [state(each, before="head-1", head_sha="updated", by="imq[bot]") for each in (0.5, 2)]
    closed, why = state(minute, action="closed", open=False), DequeueReason(Reason.CLOSED)
    arrived = known((0.5, updates[0]), (2, updates[1]), (minute, closed))
    assert cause_of(why, UPDATED, arrived, is_trigger) == Cause("rhea", after_update=after)
    arrived = known((0.5, updates[0]), (2, updates[1]), (minute, review("ada")))
    assert dismissal_of(UPDATED, arrived) == Cause("rhea", after_update=after)
    never = entry(queued_head="updated", head_sha="updated", enqueued_at=NOW)
    assert dismissal_of(never, arrived) == Cause("rhea")


def test_change_from_before_the_consent_causes_nothing() -> None:
    """P6: IMQ's own removal of an earlier label came before; the removal of another label causes nothing either."""
    removed = {"label": LABEL, "labels": (), "action": "unlabeled"}
    why, consent = DequeueReason(Reason.LABEL_REMOVED), Consent(at=NOW + 2 * MINUTE)
    me = entry(enqueued_at=NOW)
    facts = known((1, state(1, **removed, by="imq[bot]")), (2, consent))
    assert cause_of(why, me, facts, is_trigger) is None
    assert cause_of(why, me, [*facts, *known((3, state(2, **removed)))], is_trigger) == Cause("rhea")
    other = state(3, **removed | {"label": "other"}, by="max")
    assert cause_of(why, me, [*facts, *known((3, other))], is_trigger) is None


def history(*events: tuple[float, str] | tuple[float, str, str]) -> Sequence[HistoryEvent]:
    """GitHub's history, each event with its minute, by a person of its own."""
    return [
        HistoryEvent(kind, NOW + minute * MINUTE, f"person-{place}", *label)
        for place, (minute, kind, *label) in enumerate(events)
    ]


@pytest.mark.parametrize(
    ("reason", "events", "who"),
    [
        (Reason.LABEL_REMOVED, [(1, "unlabeled", LABEL.upper())], 0),
        (Reason.LABEL_REMOVED, [(0, "unlabeled", LABEL)], 0),
        (Reason.LABEL_REMOVED, [(-1, "unlabeled", LABEL)], None),
        (Reason.LABEL_REMOVED, [(1, "unlabeled", LABEL), (2, "labeled", LABEL)], None),
        (Reason.LABEL_REMOVED, [(1, "unlabeled", LABEL), (2, "unlabeled", "other"), (3, "closed")], 0),
        (Reason.LABEL_REMOVED, [(1, "renamed")], None),
        (Reason.BLOCKED_BY_LABEL, [(1, "labeled", "hold"), (2, "labeled", "other")], 0),
        (Reason.BLOCKED_BY_LABEL, [(1, "unlabeled", "hold")], None),
        (Reason.LABEL_MISSING, [(1, "unlabeled", "HOLD"), (2, "labeled", "hold")], 0),
        (Reason.CLOSED, [(1, "closed"), (2, "closed"), (3, "renamed")], 1),
        (Reason.BASE_CHANGED, [(1, "automatic_base_change_succeeded")], 0),
        (Reason.DRAFT, [(1, "ready_for_review")], None),
    ],
)
def test_history_names_who_made_the_last_change_that_nothing_took_back(
    reason: Reason, events: list[Any], who: int | None
) -> None:
    """P6: where the webhook was lost. A label that was set again, or another label, names no one."""
    found = author_in_history(history(*events), DequeueReason(reason, "hold"), [LABEL], NOW)
    assert (None if found is None else found.by) == (None if who is None else f"person-{who}")


def test_labels_that_history_lacks_were_renamed() -> None:
    """P4: a renamed label is on, and its history has the former name alone, in any case."""
    past = history((1, "labeled", "Former"), (2, "labeled", "gone"), (3, "unlabeled", "GONE"), (4, "closed"))
    assert never_set(past, ["now", "FORMER", "gone", "Else"]) == ["Else", "now"]
    assert lost_labels(past, ["now"]) == ["former"]
    assert lost_labels(past, ["FORMER"]) == []
    removals = history((1, "unlabeled", "gone"))
    assert (never_set(removals, ["gone"]), lost_labels(removals, [])) == (["gone"], [])


def test_labels_set_lately_are_those_of_people_and_of_imq() -> None:
    """P4: GitHub may show an older history of them."""
    facts = known(
        (1, state(label="by-hand", label_set=True)),
        (2, state(label="removed")),
        (3, OwnLabel(label="own", label_set=True)),
        (4, OwnLabel(label="own-removed", label_set=False)),
        (5, review("ada")),
    )
    assert changed_lately(facts, on=True) == {"by-hand", "own"}
    assert changed_lately(facts, on=False) == {"removed", "own-removed"}


def test_pushed_head_is_that_of_the_last_push_which_is_no_update_of_imq() -> None:
    """P6: the comment names the commit that consent does not cover."""
    pushes = known(
        (1, state(before="head-1", head_sha="pushed")),
        (2, state(before="pushed", head_sha="pushed-later")),
        (3, state(before="head-1", head_sha="updated")),
        (4, state(head_sha="shown")),
    )
    assert pushed_head(UPDATED, pushes) == "pushed-later"
    assert pushed_head(UPDATED, pushes[2:]) is None


def _rerun(minute: float, head: str, **more: Any) -> tuple[float, str, dict[str, Any]]:
    return minute, "rerun", {"head": head, "checks": ["ci"], **more}


def test_flaky_check_costs_the_reruns_of_its_own_commit() -> None:
    """A rerun of another commit, or a later one, is none of its own; jobs have minutes and a price."""
    jobs = {"ci": {"minutes": 3.0, "cost": 0.5}}
    events = own(
        _rerun(1, "another"),
        _rerun(2, "h", check_seconds={"ci": 60.0}, check_jobs=jobs),
        _rerun(3, "h", check_jobs=jobs),
        (6, "flaky", {"head": "h", "checks": ["ci"]}),
        _rerun(7, "h", check_jobs=jobs),
    )
    assert departed(9, events).flaky == (RerunCheck("ci", (), 2, 60.0, 240.0, 6.0, 1.0),)
    alone = own((6, "flaky", {"head": "h", "checks": ["ci"], "waited": 90}))
    assert departed(9, alone).flaky == (RerunCheck("ci", (), 0, None, 90.0),)
