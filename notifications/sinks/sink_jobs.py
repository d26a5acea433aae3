"""Name the jobs that an event causes: a message for each sink that wants the event. Pure.

The engine calls this through its port, in the transaction of the event, so that no message is lost (P2). A private
repository's events go only to sinks one of whose patterns matches the repository.
"""

from collections.abc import Callable, Iterable, Iterator

import structlog

from notifications.sinks.message import Message, kind_of, of_dead_letter, of_event
from notifications.sinks.sink import EVERY_REPOSITORY, SINK_JOBS, EventKind, Sink
from queue_engine.config.patterns import branch_matches
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.jobs.job import JobRequest
from queue_engine.domain.model import Entry, Queue, TimelineEvent

_BEHIND_WEBHOOKS = -1
"""The priority of these jobs: a burst of messages delays no webhook."""

Creation = Callable[[], Message]
"""Creates the message of an event that some sink wants."""

_log = structlog.get_logger("imq.sinks")


class SinkJobs:
    """Implements the engine's ports `EventJobs` (`of_event`) and `FollowUp` (`of_dead_letter`)."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = tuple(sinks)

    def of_event(self, event: TimelineEvent, subject: Entry | Queue) -> Iterable[JobRequest]:
        """Name the jobs that an event causes."""
        if not self._sinks or (kind := kind_of(event)) is None:
            return ()
        return self._jobs(kind, subject.repository.full_name, event.base_branch, lambda: of_event(event, subject, kind))

    def of_dead_letter(self, letter: DeadLetter) -> Iterable[JobRequest]:
        """Name the jobs that a dead letter causes; one of a sink causes none, as two sinks would never end."""
        if not self._sinks or letter.job_type in SINK_JOBS.values():
            return ()
        message = of_dead_letter(letter)
        return self._jobs(EventKind.DEAD_LETTER, message.repository, None, lambda: message)

    def _jobs(self, kind: EventKind, repository: str | None, branch: str | None, create: Creation) -> list[JobRequest]:
        wanted = [sink for sink in self._sinks if wants(sink, kind, repository, branch)]
        try:
            return list(_requests(wanted, create)) if wanted else []
        except Exception:
            # A message may fail, the change of the queue must not.
            _log.exception("sink_message_failed", kind=kind.value)
            return []


def wants(sink: Sink, kind: EventKind, repository: str | None, branch: str | None) -> bool:
    """Return whether a sink wants an event of this repository and branch.

    What belongs to no known repository goes only to sinks that get every repository.
    """
    if kind not in sink.events:
        return False
    if repository is None:
        return EVERY_REPOSITORY in sink.repositories
    return matches(sink, repository) and (
        branch is None or any(branch_matches(pattern, branch) for pattern in sink.branches)
    )


def matches(sink: Sink, repository: str) -> bool:
    """Return whether one of the sink's patterns matches a repository; GitHub's names have no case."""
    return any(branch_matches(pattern.casefold(), repository.casefold()) for pattern in sink.repositories)


def request_of(sink: Sink, message: Message) -> JobRequest:
    """Create the job that sends a message; the jobs of one sink share a process, which keeps their order."""
    content = {"sink": sink.name, "message": message.model_dump(mode="json", exclude_none=True)}
    return JobRequest(SINK_JOBS[sink.kind], f"sink:{sink.name}", content, priority=_BEHIND_WEBHOOKS)


def _requests(sinks: Iterable[Sink], create: Creation) -> Iterator[JobRequest]:
    message = create()
    for sink in sinks:
        yield request_of(sink, message)
