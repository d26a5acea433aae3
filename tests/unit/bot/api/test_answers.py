"""What programs read of a pull request: for every reason whose move it is, in words, and what to do next."""

import ast
import inspect
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from bot.api.events import EventAnswer
from bot.api.views import TrainAnswer, as_json, state_fields
from notifications.render.status import answer_text
from queue_engine.config.model import Policy
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.notice import TrainNotice, TrainProgress
from queue_engine.domain.reasons import (
    MERGED_REASONS,
    REASONS,
    RETRY_REASONS,
    Outcome,
    PullRequestActor,
    Reason,
    WaitReason,
)
from queue_engine.queries.pull_request_status import PullRequestStatus, QueueHistory
from queue_engine.rules import eligibility
from tests.unit.queue_engine.examples import NOW, REPOSITORY
from tests.unit.queue_engine.queries.examples import entries

EVERY = (*Reason, *WaitReason)
PATH = f"/api/v1/repositories/{REPOSITORY.full_name}/pulls/1/queue"
BROKEN = (FailingCheck("ci/test", "https://ci.example/7", ("test",)),)


def left(reason: Reason | None, event: str = "failed") -> PullRequestStatus:
    """A pull request that left its queue for this reason; None: it landed."""
    event = "landed" if reason is None else event
    return PullRequestStatus(
        1, "not_queued", None, 0, previous=QueueHistory(event, reason, "why", NOW, "main", "head-1", BROKEN)
    )


def test_every_reason_has_two_sentences_in_plain_text() -> None:
    """Nothing is left to fill in, with or without the repository's own labels."""
    for reason, policy in list(product(EVERY, (None, Policy()))):
        text = answer_text(reason, policy=policy)
        for sentence in (text.sentence, text.next_step):
            assert sentence, (reason, policy)
            assert not set("{}") & set(sentence), (reason, policy)
            assert sentence[0].isupper() or sentence[0] == "`", (reason, policy)
            assert sentence.endswith("."), (reason, policy)


def test_answer_about_a_pull_request_that_left_is_complete() -> None:
    """Whose move it is, what happened, and one instruction; a call only where queueing it again can succeed at all."""
    for reason in [None, *Reason]:
        fields = as_json(state_fields(left(reason), REPOSITORY))
        assert fields["whose_move"] in set(PullRequestActor), reason
        assert (fields["state"], fields["detail"]) == ("not_queued", "why"), reason
        assert fields["failing"] == [{"check": "ci/test", "url": "https://ci.example/7", "jobs": ["test"]}], reason
        merged = reason is None or reason in MERGED_REASONS
        assert fields["next"]["call"] == (None if merged else {"method": "POST", "path": PATH}), reason
        if fields["retry_safe"]:
            assert fields["next"]["call"] is not None, reason


def rejecting() -> set[Reason]:
    """Every reason for which the eligibility check rejects a head by itself."""
    tree = ast.parse(inspect.getsource(eligibility))
    named = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {Reason[name] for name in named if name in Reason.__members__}


def test_head_that_was_rejected_for_good_is_never_safe_to_retry() -> None:
    """What the eligibility check rejects, it rejects again; what a person withdrew is not queued behind their back."""
    for_good = rejecting() | {
        *(Reason.CHECKS_FAILED, Reason.CHECKS_NOT_REPEATED, Reason.NO_CHECKS, Reason.REFUSED_BY_RULES),
        *(Reason.UNQUEUED, Reason.LABEL_REMOVED, Reason.CLOSED, Reason.PERMISSION_LOST, Reason.INTERNAL_ERROR),
    }
    assert {Reason.CONFLICT, Reason.DRAFT, Reason.APPROVAL_MISSING, Reason.STACKED_ABOVE} <= rejecting() | {
        Reason.APPROVAL_MISSING
    }
    assert not RETRY_REASONS & for_good
    assert not [reason for reason in RETRY_REASONS if REASONS[reason].outcome is Outcome.PAUSED]


@given(st.sampled_from(list(Reason)), st.sampled_from(["failed", "cancelled", "refused"]))
def test_refusal_of_a_call_says_what_the_refusal_was_about(reason: Reason, event: str) -> None:
    """Not how the pull request left some time ago: its own reason, no older detail and no older checks."""
    fields = state_fields(left(Reason.CHECKS_FAILED, event), REPOSITORY, why=reason)
    assert (fields["reason"], fields["outcome"], fields["detail"], fields["failing"]) == (reason, "refused", None, ())
    assert fields["retry_safe"] == (reason in RETRY_REASONS)


def test_queued_pull_request_is_never_safe_to_retry() -> None:
    """It is queued: the call is to ask again, also for one that waits for room."""
    held = PullRequestStatus(1, "held", "main", 1, held_behind=0)
    fields = as_json(state_fields(held, REPOSITORY))
    assert (fields["reason"], fields["retry_safe"], fields["whose_move"]) == ("queue_full", False, "nobody")
    assert fields["next"]["call"] == {"method": "GET", "path": f"{PATH}?wait=60"}


def test_train_of_an_entry_counts_the_checks_that_have_reported() -> None:
    """A program reads the progress of the run, its commit, and sentences without Markdown; none of it without a run."""
    run = {"pending_checks": tuple("abcdefg"), "completed_checks": tuple("abc")}
    checked = entries(1, **run)[0]
    notice = TrainNotice(
        progress=TrainProgress.TESTING, members=(1, 2), run=7, branch="imq/main/7", candidate="c" * 40, suspicion=0.1
    )
    found = TrainAnswer.of(notice, checked)
    assert (found.run, found.candidate, found.reported) == (7, "c" * 40, "3 of 7 checks")
    assert found.sentences[0] == "IMQ tests it with #2 in one CI run, on the branch imq/main/7."
    waiting = TrainAnswer.of(TrainNotice(progress=TrainProgress.QUALIFIED), checked)
    assert (waiting.progress, waiting.run, waiting.reported) == ("qualified", None, None)


def test_events_have_rounded_minutes_and_cost() -> None:
    """Programs that follow the timeline add them up; the store keeps what is exact."""
    event = TimelineEvent(NOW, "landed", REPOSITORY.id, "main", 1, data={"jobs": {"minutes": 0.1 + 0.2, "cost": None}})
    assert EventAnswer.of(REPOSITORY, event).data == {"jobs": {"minutes": 0.3, "cost": None}}
