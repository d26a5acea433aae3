"""Every figure with its meaning. A test holds that the page has these and no others.

No label may carry a name of a person, a repository or a branch: the page may be public.
"""

from enum import StrEnum
from typing import NamedTuple

PREFIX = "imq_"


class Kind(StrEnum):
    """What Prometheus calls the type of a metric."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Source(StrEnum):
    """Who tells it: each process for itself, with the label `process`, or the database once for all."""

    PROCESS = "process"
    DATABASE = "database"


class Family(NamedTuple):
    """One metric. `meter` is its name in calls to a Meter, empty for what is read when the page is asked for."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    source: Source = Source.PROCESS
    meter: str = ""
    starts: tuple[str, ...] = ()
    """Values of its only label that are told from the start, as 0: Prometheus sees no increase in a first sample."""
    buckets: tuple[float, ...] = ()
    """Upper bounds in seconds."""


_KIND = ("kind",)


def _counted(meter: str, words: str, labels: tuple[str, ...], *starts: str) -> Family:
    return Family(f"{PREFIX}{meter}_total", Kind.COUNTER, words, labels, meter=meter, starts=starts)


def _timed(meter: str, words: str, labels: tuple[str, ...], *buckets: float) -> Family:
    return Family(f"{PREFIX}{meter}_seconds", Kind.HISTOGRAM, words, labels, meter=meter, buckets=buckets)


def _live(name: str, words: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}", Kind.GAUGE, words, labels)


def _stored(name: str, words: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}", Kind.GAUGE, words, labels, Source.DATABASE)


FAMILIES = (
    _counted(
        "requests_keyed",
        "New requests that came with an idempotency key; a webhook's delivery id is one.",
        ("scope",),
        "webhook",
        "api",
    ),
    _counted("duplicates", "Requests whose key was known, and which did nothing again.", ("scope",), "webhook", "api"),
    _counted("jobs_done", "Jobs done.", _KIND),
    _counted("jobs_retried", "Attempts of jobs that failed and are tried again by themselves.", _KIND),
    _counted("jobs_recovered", "Jobs done after at least one failed attempt.", _KIND),
    _counted("jobs_dead", "Jobs that failed for good and became dead letters.", _KIND),
    _counted("jobs_reprocessed", "Dead letters that a person sent back to be done again.", _KIND),
    _counted("pass_errors", "Passes of a queue that ended with an unexpected error of IMQ.", ("on",), "entry", "queue"),
    _counted("queue_full", "Pull requests and calls that met a full queue.", ("where",), "label", "api"),
    _counted("outdated_reads", "Answers of GitHub that were older than known facts, by kind.", ("of",)),
    _counted("github_requests", "Requests to GitHub, by path template and status.", ("call", "status")),
    _counted(
        "github_limited",
        "Requests that had to wait: for GitHub's primary or secondary limit, our own pacing, or a free slot.",
        ("kind",),
        "primary",
        "secondary",
        "own",
        "slots",
    ),
    _counted(
        "outbox_sent",
        "Comments, check runs and labels that GitHub shows as IMQ wanted them.",
        _KIND,
        "comment",
        "check_run",
        "label",
    ),
    _timed(
        "job_delay",
        "From the moment that a job was due, after a failed attempt again, until it was done.",
        _KIND,
        *(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
    ),
    _timed("job_duration", "How long one attempt of a job took.", _KIND, *(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60)),
    _timed(
        "slot_wait",
        "How long a call to GitHub waited for its slot.",
        ("priority",),
        *(0.01, 0.1, 0.5, 1, 5, 15, 60, 300),
    ),
    _timed(
        "github_duration",
        "How long GitHub took to answer, by path template.",
        ("call",),
        *(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    ),
    _live("build_info", "Always 1; the label is the version.", "version", "role"),
    _live("start_time_seconds", "When the process started, in seconds since 1970 (UTC)."),
    _live("slots", "Slots for calls to GitHub, over all installations."),
    _live("slots_available", "Slots that are free."),
    _live("slots_waiting", "Calls that wait for a slot.", "priority"),
    _live(
        "github_budget_limit", "Requests an hour that GitHub grants an installation, or the App itself.", "installation"
    ),
    _live("github_budget_remaining", "How many of them are left, as far as this process knows.", "installation"),
    _stored("database_up", "1 when the database answered in time for this page; without it no other database figure."),
    _stored("processes", "Processes that gave a sign of life in the last two minutes.", "role"),
    _stored("jobs", "Jobs in the store.", "kind", "status"),
    _stored(
        "jobs_oldest_due_seconds", "How long the job that is due longest has waited to be taken; 0 if none is due."
    ),
    _stored("dead_letters", "Dead letters that wait for a person.", "kind"),
    _stored("dead_letters_retryable", "Those of them that may be sent back."),
    _stored("dead_letters_last_hour", "Those of them that died within the last hour."),
    _stored("dead_letters_oldest_seconds", "Age of the oldest of them; 0 if there is none."),
    _stored("queues", "Queues that have ever been used."),
    _stored("queues_paused", "Queues that are paused until a person resumes them."),
    _stored(
        "queues_oldest_due_seconds", "How long the queue that is due longest has waited for a pass; 0 if none is due."
    ),
    _stored("queue_entries", "Pull requests in all queues.", "status"),
    _stored("queue_depth_max", "Pull requests in the longest queue."),
    _stored("held_pull_requests", "Pull requests that wait for a place in a full queue."),
    _stored("outbox_waiting", "Comments, check runs and label removals still to be sent."),
    _stored("outbox_oldest_due_seconds", "How long the outbox item that is due longest has waited; 0 if none is due."),
)
"""Counters and timings first, as a Meter takes them; then what is read when the page is asked for."""
