"""Which sink gets which event."""

from typing import Any

import pytest

from notifications.sinks.sink import EventKind, SinkJobs, kind_of, of_dead_letter, of_event, wants
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.domain.model import WHOLE_QUEUE, Queue, TimelineEvent
from queue_engine.domain.reasons import Reason
from tests.store.examples import REPOSITORY
from tests.unit.notifications.sinks.messages import AT, sink

QUEUE = Queue(id=1, repository=REPOSITORY, base_branch="main", due_at=None, wake_count=0)


def event(name: str, reason: Reason | None = None, **data: Any) -> TimelineEvent:
    """An event of a queue."""
    return TimelineEvent(AT, name, REPOSITORY.id, "main", WHOLE_QUEUE, reason=reason, data=data, id=5)


def test_kind_of_an_event() -> None:
    """Each event that people act on has a kind; steps of an entry have none."""
    for name, reason, kind in [
        ("failed", Reason.CONFLICT, EventKind.EJECTED),
        ("cancelled", Reason.UNQUEUED, EventKind.DEQUEUED),
        ("landed", None, EventKind.LANDED),
        ("queued", None, EventKind.QUEUED),
        ("landed_outside", None, EventKind.LANDED_OUTSIDE),
        ("paused", Reason.PAUSED_BY_HAND, EventKind.PAUSED),
        ("paused", Reason.FROZEN, EventKind.FROZEN),
        ("paused", Reason.BASE_RED, EventKind.BASE_RED),
        ("paused", Reason.TREE_MISMATCH, EventKind.TREE_MISMATCH),
        ("resumed", Reason.PAUSED_BY_HAND, EventKind.RESUMED),
        ("resumed", Reason.BASE_RED, EventKind.BASE_GREEN),
        ("checking", None, None),
    ]:
        assert kind_of(event(name, reason)) is kind, (name, reason, kind)


@pytest.mark.parametrize(
    ("patterns", "repository", "wanted"),
    [
        (("acme/*",), "acme/rocket", True),
        (("Acme/Rocket",), "acme/rocket", True),
        (("acme/r*",), "acme/sled", False),
        (("other/*",), "acme/rocket", False),
        (("*",), "acme/rocket", False),
        (("*/*",), "acme/rocket", True),
        (("acme/*",), None, False),
        (("*/*",), None, True),
    ],
)
def test_private_repository_goes_only_where_its_pattern_matches(
    patterns: tuple[str, ...], repository: str | None, wanted: bool
) -> None:
    """A tenant's channel learns nothing of another tenant's repository, nor of work that names none."""
    assert wants(sink(repositories=patterns), EventKind.EJECTED, repository, "main") is wanted


def test_sink_gets_only_its_branches_and_kinds() -> None:
    """A team may watch release branches alone."""
    releases = sink(branches=("release/*",), events=frozenset({EventKind.LANDED}))
    assert wants(releases, EventKind.LANDED, "acme/rocket", "release/1")
    assert not wants(releases, EventKind.LANDED, "acme/rocket", "main")
    assert not wants(releases, EventKind.EJECTED, "acme/rocket", "release/1")


def test_event_causes_a_job_for_each_sink_that_wants_it() -> None:
    """The jobs of one sink share a process, and no job goes before a webhook."""
    jobs = SinkJobs([sink(), sink(name="b"), sink(name="c", repositories=("x/y",))])
    made = list(jobs.of_event(event("failed", Reason.CONFLICT), QUEUE))
    assert [(each.kind, each.process_id, each.priority) for each in made] == [
        ("sink_webhook", "sink:hook", -1),
        ("sink_webhook", "sink:b", -1),
    ]
    assert made[0].request["message"]["repository"] == "acme/rocket"
    assert "secret-address" not in str(made)


def test_failing_checks_come_with_pages_and_jobs_or_with_names_alone() -> None:
    """Some events have names alone."""
    old = of_event(event("failed", Reason.CHECKS_FAILED, checks=["a", "b"]), QUEUE, EventKind.EJECTED)
    assert [each.check for each in old.failing] == ["a", "b"]
    failing = [{"check": "a", "url": "https://ci.example/1", "jobs": ["x"]}]
    new = of_event(event("failed", Reason.CHECKS_FAILED, failing=failing), QUEUE, EventKind.EJECTED)
    assert [(each.check, each.url, each.jobs) for each in new.failing] == [("a", "https://ci.example/1", ("x",))]
    left = of_event(event("cancelled", Reason.CLOSED, checks=["a"]), QUEUE, EventKind.DEQUEUED)
    assert left.failing == ()


def letter(kind: str, **payload: Any) -> DeadLetter:
    """A dead letter."""
    return DeadLetter("id", "7:3", kind, "no luck", payload, AT, True, 9, 0, AT, None)


def test_dead_letter_goes_to_operators_and_a_dead_message_to_none() -> None:
    """Two sinks that both fail would otherwise report each other without end."""
    wanted = frozenset({EventKind.DEAD_LETTER})
    jobs = SinkJobs([sink(events=wanted), sink(name="ops", events=wanted, repositories=("*/*",))])
    assert [each.process_id for each in jobs.of_dead_letter(letter("outbox"))] == ["sink:ops"]
    named = letter("webhook", owner="acme", name="rocket")
    assert [each.process_id for each in jobs.of_dead_letter(named)] == ["sink:hook", "sink:ops"]
    assert list(jobs.of_dead_letter(letter("sink_slack"))) == []
    assert of_dead_letter(named).whose_move == "operator"
