"""The JSON for generic webhooks has what a program needs to act."""

import json

import pytest

from notifications.sinks.message_text import HEADLINES, Site, headline, sentence
from notifications.sinks.sender import payload
from notifications.sinks.sink import EventKind, Message
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.sinks.messages import AT, EJECTED, SITE


def test_payload_has_every_documented_field() -> None:
    """Whose move it is, what failed, and where to look."""
    assert json.loads(payload(EJECTED, SITE)) == {
        "type": "ejected",
        "timestamp": "2026-01-05T09:00:00Z",
        "data": {
            "event": "failed",
            "reason": "checks_failed",
            "sentence": "A required check failed.",
            "next_step": "Push a fix, or rerun the check if it is flaky. Then comment `/queue` or add the label "
            "that queues it.",
            "whose_move": "author",
            "repository": "acme/rocket",
            "base_branch": "main",
            "pull_request": {
                "number": 7,
                "title": "Add fuel",
                "author": "ada",
                "url": "https://github.com/acme/rocket/pull/7",
            },
            "link": "https://github.com/acme/rocket/pull/7",
            "queue": "https://imq.example/repositories/acme/rocket/branches/main",
            "by": None,
            "until": None,
            "before": None,
            "sha": None,
            "detail": None,
            "failing": [{"check": "ci/test", "url": "https://ci.example/1?a=b&c", "jobs": ["unit", "lint"]}],
        },
    }


def test_payload_without_pages_has_no_link_to_a_queue() -> None:
    """`IMQ_PUBLIC_URL` is not set: a link would lead nowhere."""
    assert json.loads(payload(EJECTED, Site("https://ghe.example", None)))["data"]["queue"] is None


@pytest.mark.parametrize(
    ("before", "page"),
    [("a" * 40, f"compare/{'a' * 40}...{'b' * 40}"), ("0" * 40, f"commit/{'b' * 40}"), (None, f"commit/{'b' * 40}")],
)
def test_payload_of_a_push_links_the_pushed_commits(before: str | None, page: str) -> None:
    """A new branch has nothing to compare with."""
    pushed = Message(
        kind=EventKind.LANDED_OUTSIDE,
        at=AT,
        event="landed_outside",
        repository="acme/rocket",
        base_branch="main",
        before=before,
        sha="b" * 40,
    )
    assert json.loads(payload(pushed, SITE))["data"]["link"] == f"https://github.com/acme/rocket/{page}"


def test_every_kind_of_event_has_a_headline() -> None:
    """No sink gets an empty message."""
    for kind in EventKind:
        assert set(HEADLINES) == set(EventKind), kind
        assert headline(Message(kind=kind, at=AT, event="x"), "main"), kind


def test_every_reason_is_a_sentence_without_placeholders() -> None:
    """Labels differ by repository, so the sentence describes them."""
    for reason in Reason:
        message = EJECTED.model_copy(update={"reason": reason})
        assert "{" not in sentence(message, "main"), reason
