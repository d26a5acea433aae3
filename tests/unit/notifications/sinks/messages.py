"""Messages, sinks and jobs for tests."""

from datetime import UTC, datetime
from typing import Any

from notifications.sinks.message_text import Site
from notifications.sinks.sink import EventKind, Message, Sink, SinkKind, key_of, request_of
from queue_engine.core.jobs.job import Job, JobStatus
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.reasons import Reason
from tests.support.sink_receiver import SECRET

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)
SITE = Site("https://github.com", "https://imq.example")
EJECTED = Message(
    kind=EventKind.EJECTED,
    at=AT,
    event="failed",
    repository="acme/rocket",
    base_branch="main",
    number=7,
    title="Add fuel",
    author="ada",
    reason=Reason.CHECKS_FAILED,
    failing=(FailingCheck(check="ci/test", url="https://ci.example/1?a=b&c", jobs=("unit", "lint")),),
)


def sink(kind: SinkKind = SinkKind.WEBHOOK, name: str = "hook", **more: Any) -> Sink:
    """A sink for one repository."""
    keys = (key_of(SECRET),) if kind is SinkKind.WEBHOOK else ()
    url = f"https://{name}.example/secret-address"
    return Sink(**{"name": name, "kind": kind, "url": url, "repositories": ("acme/*",), "keys": keys} | more)


def job_of(of: Sink, message: Message = EJECTED, **more: Any) -> Job:
    """The claimed job that sends a message."""
    wanted = request_of(of, message)
    values: dict[str, Any] = {
        "seq": 1,
        "id": "0123456789abcdef",
        "process_id": wanted.process_id,
        "kind": wanted.kind,
        "request": wanted.request,
        "status": JobStatus.IN_PROGRESS,
        "response": None,
        "error_message": None,
        "attempt": 0,
        "deaths": 0,
        "priority": wanted.priority,
        "not_before": AT,
        "created_at": AT,
        "owner": "w",
        "claims": 1,
        "holds": {},
        "trace": None,
    }
    return Job(**values | more)
