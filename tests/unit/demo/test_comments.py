"""IMQ's comments are read back as IMQ wrote them."""

from imq_demo import comments
from notifications.texts import headlines, reason_texts
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from tests.unit.demo.examples import comment


def test_kind_of_every_comment_is_read_back() -> None:
    """The headline alone identifies the state of a pull request."""
    for kind in list(NoticeKind):
        assert comments.kind(comment(kind)) is kind, kind


def test_kind_of_a_persons_comment_is_none() -> None:
    """What people write is not taken for IMQ's, even when they quote it."""
    assert comments.kind(headlines.KINDS[NoticeKind.LANDED].headline) is None


def test_reason_of_every_comment_is_read_back() -> None:
    """The explanation names one reason."""
    for reason in list(Reason):
        assert comments.reason(comment(NoticeKind.FAILED, reason), "main", "merge-queue") is reason, reason


def test_why_checks_failed_names_the_check() -> None:
    """The one line at the end of the demo says which check failed, without markup."""
    check = CheckReport("ci/test", 7, CheckState.FAILED, "failure", "https://ci.example.com/1", None, None)
    body = comment(NoticeKind.FAILED, Reason.CHECKS_FAILED, checks=(check,))
    assert comments.why(body) == f"{reason_texts.REASONS[Reason.CHECKS_FAILED].sentence} (ci/test: failure)"
