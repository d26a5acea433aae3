"""P4: a change withdraws consent if its webhook came after the consent, and not if it happened before."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from queue_engine.admission.admit import judged
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.config.model import Policy
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.known_facts import Consent, PullRequestState
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.policy import NotReadyPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent import (
    CHANGED_SINCE_COMMAND,
    changed_since_command,
    consent_lost,
    last_change,
    withdrawn_since_label,
    withdrawn_since_queued,
)
from queue_engine.rules.eligibility import Admit, Answer, Ignore, Reject, RequiredFacts
from tests.unit.queue_engine.examples import POLICY, REPOSITORY, entry, pull, rules

LABEL = POLICY.trigger_label
AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def state(seconds: int, *, labels: tuple[str, ...] = (LABEL,), by: str = "mona", **changes: object) -> PullRequestState:
    """A pull request's state in a webhook, so many seconds after the label."""
    return PullRequestState.model_validate(
        {
            "updated_at": AT + timedelta(seconds=seconds),
            "head_sha": "head-1",
            "base": "main",
            "open": True,
            "merged": False,
            "draft": False,
            "labels": labels,
            "title": "Pull",
            "by": by,
            **changes,
        }
    )


LABELED = state(0, label=LABEL, label_set=True)
CONSENT = Consent(at=AT, by="mona")


REFUSING = replace(POLICY, when_not_ready=NotReadyPolicy.REFUSE)


def since_label(*reported: PullRequestState | Consent, policy: Policy = REFUSING) -> Reason | None:
    """The judgement of mona's label, set at `AT`."""
    return withdrawn_since_label(pull(reported=reported), base_branch="main", policy=policy, labeled_at=AT, by="mona")


def since_queued(*reported: PullRequestState | Consent) -> Reason | None:
    """The judgement of an entry that mona queued, and that IMQ stored some seconds later."""
    queued = entry(enqueued_at=AT + timedelta(seconds=10), queued_by="mona", trusted_labels=(LABEL,))
    return withdrawn_since_queued(pull(reported=reported), queued, POLICY)


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (state(1, draft=True), Reason.DRAFT),
        (state(1, open=False), Reason.CLOSED),
        (state(1, base="release"), Reason.BASE_CHANGED),
        (state(1, labels=(), label=LABEL), Reason.LABEL_REMOVED),
        (state(1, open=False, merged=True), None),
        (state(1, title="Other"), None),
        (state(0, draft=True), Reason.DRAFT),
        (state(-1, draft=True), None),
    ],
)
def test_consent_is_withdrawn_by_what_happened_after_it(later: PullRequestState, reason: Reason | None) -> None:
    """Within the label's second, webhooks after the label's count; late webhooks of earlier changes do not."""
    assert since_label(LABELED, later, state(3)) is reason
    assert since_queued(LABELED, later, CONSENT, state(3)) is reason


def test_consent_is_not_withdrawn_by_a_change_reported_before_it_in_its_second() -> None:
    """An automation that marks a pull request as ready labels it in the same second."""
    assert since_label(state(0, draft=True, labels=()), LABELED) is None
    assert since_queued(state(0, draft=True, labels=()), LABELED, CONSENT) is None


def test_draft_withdraws_no_label_of_a_pull_request_that_may_wait() -> None:
    """It was not in the queue yet; everything else withdraws the label there, too."""
    assert since_label(LABELED, state(1, draft=True), state(3), policy=POLICY) is None
    assert since_label(LABELED, state(1, draft=True, open=False), state(3), policy=POLICY) is Reason.CLOSED
    outside = entry(queued_by="mona", trusted_labels=(LABEL,), unmet=(UnmetRequirement(Reason.DRAFT),))
    reported = (LABELED, CONSENT, state(1, draft=True), state(3))
    assert withdrawn_since_queued(pull(reported=reported), outside, POLICY) is None


def test_last_consent_counts() -> None:
    """The change that ended an earlier entry does not end the present one."""
    again = Consent(at=AT + timedelta(seconds=5), by="mona")
    assert since_queued(LABELED, CONSENT, state(2, draft=True), again) is None


def test_consent_that_was_reported_too_long_ago_counts_from_when_imq_queued_it() -> None:
    """Facts are kept for a quarter of an hour."""
    assert since_queued(state(9, draft=True)) is None
    assert since_queued(state(11, draft=True)) is Reason.DRAFT


@pytest.mark.parametrize(("by", "reason"), [("mona", None), ("tria", Reason.LABEL_REMOVED)])
def test_label_set_again_renews_the_consent_of_the_same_person_only(by: str, reason: Reason | None) -> None:
    """Another person's label asks for itself."""
    removed, again = state(1, labels=(), label=LABEL), state(2, label=LABEL, label_set=True, by=by)
    assert since_queued(LABELED, CONSENT, removed, again) is reason
    assert since_queued(LABELED, CONSENT, again, removed) is Reason.LABEL_REMOVED


def test_pull_request_is_known_up_to_its_last_change() -> None:
    """Reads lag behind webhooks, and webhooks get lost."""
    assert last_change(pull(updated_at=AT, reported=(state(4), state(2)))) == AT + timedelta(seconds=4)
    assert last_change(pull(updated_at=AT, reported=(state(-4),))) == AT


@pytest.mark.parametrize(
    ("reported", "answer"),
    [
        ((LABELED,), Admit()),
        ((LABELED, state(1, draft=True), state(2)), Reject(Reason.DRAFT)),
        ((LABELED, state(1, open=False), state(2)), Reject(Reason.CLOSED)),
        ((LABELED, state(1, labels=(), label=LABEL), state(2, label=LABEL, label_set=True, by="tria")), Ignore()),
    ],
)
def test_admission_asks_whether_the_label_is_consent_still(
    reported: tuple[PullRequestState, ...], answer: Answer
) -> None:
    """The pull request looks unchanged. The label that another person has set since is judged by its own webhook."""
    request = EnqueueRequest(Case(REPOSITORY, 1), by="mona", head_sha="head-1", labeled_at=AT)
    taken = Snapshot(pull(reported=reported), Permission.WRITE)
    assert judged(request, taken, RequiredFacts(rules("ci")), REFUSING) == answer


def test_admission_without_a_known_right_is_refused() -> None:
    """P4: a right that was not read is none, so that nothing lands by it."""
    request = EnqueueRequest(Case(REPOSITORY, 1), by="mona", head_sha="head-1")
    refused = judged(request, Snapshot(pull()), RequiredFacts(rules("ci")), POLICY)
    assert refused == Reject(Reason.LABEL_WITHOUT_RIGHT)


PUSH = state(0, before="head-0")
OTHER_BASE = state(0, base_changed=True)
COMMAND = Consent(kind="commanded", at=AT, head_sha="head-1")


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        ((COMMAND, PUSH), Reason.HEAD_CHANGED),
        ((COMMAND, CONSENT, PUSH, state(3)), Reason.HEAD_CHANGED),
        ((COMMAND, state(-9, before="head-0")), Reason.HEAD_CHANGED),
        ((COMMAND, OTHER_BASE), Reason.BASE_CHANGED),
        ((COMMAND, PUSH, OTHER_BASE), Reason.HEAD_CHANGED),
        ((COMMAND.model_copy(update={"lands_on": OTHER_BASE.base}), OTHER_BASE), None),
        ((COMMAND.model_copy(update={"lands_on": "other"}), OTHER_BASE), Reason.BASE_CHANGED),
        ((PUSH, OTHER_BASE, COMMAND), None),
        ((COMMAND, state(0, before="head-0", head_sha="head-2")), None),
        ((COMMAND, state(3)), None),
        ((CONSENT, PUSH, OTHER_BASE), None),
        ((Consent(kind="commanded", at=AT, head_sha="head-2"), PUSH, OTHER_BASE), None),
        ((), None),
    ],
)
def test_command_is_void_when_a_push_or_a_changed_base_is_reported_after_it(
    reported: tuple[PullRequestState | Consent, ...], reason: Reason | None
) -> None:
    """GitHub does not say which head a comment was made on, and a push may leave its times as they were."""
    assert changed_since_command(reported, "head-1") is reason
    lost = consent_lost(entry(queued_by="mona"), pull(reported=reported), POLICY)
    assert lost == (None if reason is None else Reject(reason, CHANGED_SINCE_COMMAND[reason]))


def test_command_renews_no_consent_by_itself() -> None:
    """Changes since the entry was queued still count: the command may have been refused."""
    assert since_queued(LABELED, CONSENT, state(2, draft=True), COMMAND) is Reason.DRAFT
