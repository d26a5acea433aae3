"""Every figure with its meaning. A test holds that the page has these and no others.

No label may carry a name of a person, a repository or a branch: the page may be public.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.registry import Collector

from queue_engine.domain.reasons import REASONS, Outcome
from queue_engine.domain.shadow_pull import ShadowOutcome, ShadowRejection

PREFIX = "imq_"


class Kind(StrEnum):
    """Prometheus's type of a metric."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Source(StrEnum):
    """The source of a metric: each process, with the label `process`, or the database."""

    PROCESS = "process"
    DATABASE = "database"


class Family(NamedTuple):
    """A metric. `meter` is its name in calls to a Meter; empty for gauges, which are read for each page."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    source: Source = Source.PROCESS
    meter: str = ""
    initial_values: tuple[str, ...] = ()
    """Values of its only label that start at 0: Prometheus sees no increase in a first sample."""
    buckets: tuple[float, ...] = ()
    """Upper bounds in seconds."""


_KIND = ("kind",)
_LANDING_SECONDS = (30, 60, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)


def _counter(meter: str, description: str, labels: tuple[str, ...], *initial_values: str) -> Family:
    return Family(
        f"{PREFIX}{meter}_total", Kind.COUNTER, description, labels, meter=meter, initial_values=initial_values
    )


def _histogram(meter: str, description: str, labels: tuple[str, ...], *buckets: float) -> Family:
    return Family(f"{PREFIX}{meter}_seconds", Kind.HISTOGRAM, description, labels, meter=meter, buckets=buckets)


def _gauge(name: str, description: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}", Kind.GAUGE, description, labels)


def _database_gauge(name: str, description: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}", Kind.GAUGE, description, labels, Source.DATABASE)


_DEQUEUED = tuple(
    reason.value for reason, meaning in REASONS.items() if meaning.outcome in {Outcome.FAILED, Outcome.CANCELLED}
)

FAMILIES = (
    _counter("landed", "Pull requests that landed, a mismatch of trees among them.", ()),
    _counter(
        "dequeued", "Pull requests that left their queue without landing, by reason code.", ("reason",), *_DEQUEUED
    ),
    _counter(
        "shadow_decisions",
        "What IMQ would have done in shadow mode, by outcome; a decision that repeats the one before is not counted.",
        ("outcome",),
        *ShadowOutcome,
    ),
    _counter(
        "shadow_merges",
        "Merges by others in shadow mode, by whether IMQ would have merged the same head in the same way.",
        ("judgement",),
        "same",
        "different",
    ),
    _counter(
        "shadow_differences",
        "How IMQ would have acted otherwise, for merges by others in shadow mode; one may differ in several ways.",
        ("difference",),
        *ShadowRejection,
    ),
    _counter(
        "requests_keyed",
        "New requests that came with an idempotency key; a webhook's delivery id is one.",
        ("scope",),
        "webhook",
        "api",
    ),
    _counter("duplicates", "Requests whose key was known, and which did nothing again.", ("scope",), "webhook", "api"),
    _counter(
        "deliveries_refused", "Webhooks that IMQ refused, by the status of the answer.", ("status",), "401", "503"
    ),
    _counter("jobs_done", "Jobs done.", _KIND),
    _counter("jobs_retried", "Attempts of jobs that failed and are tried again by themselves.", _KIND),
    _counter("jobs_recovered", "Jobs done after at least one failed attempt.", _KIND),
    _counter("jobs_dead", "Jobs that failed for good and became dead letters.", _KIND),
    _counter("jobs_reprocessed", "Dead letters that a person sent back to be done again.", _KIND),
    _counter("user_retries", "Failed requests that a person retried on a page, by kind.", _KIND),
    _counter("pass_errors", "Passes of a queue that ended with an unexpected error of IMQ.", ("on",), "entry", "queue"),
    _counter("queue_full", "Pull requests and calls that met a full queue.", ("where",), "label", "api"),
    _counter("outdated_reads", "Answers of GitHub that were older than known facts, by kind.", ("of",)),
    _counter("github_requests", "Requests to GitHub, by path template and status.", ("call", "status")),
    _counter(
        "github_unauthorized",
        "Answers 401 of GitHub: it did not accept a token, or the App's key.",
        (),
    ),
    _counter(
        "github_limited",
        "Requests that had to wait: for GitHub's primary or secondary limit, our own pacing, or a free slot.",
        ("kind",),
        "primary",
        "secondary",
        "own",
        "slots",
    ),
    _counter(
        "outbox_sent",
        "Comments, check runs and labels that GitHub shows as IMQ wanted them.",
        _KIND,
        "comment",
        "check_run",
        "label",
    ),
    _histogram("queue_time", "From queued to landed, for each landing.", (), *_LANDING_SECONDS),
    _histogram("front_time", "From first in the queue to landed, for each landing.", (), *_LANDING_SECONDS),
    _histogram(
        "job_delay",
        "From the moment that a job was due, after a failed attempt again, until it was done.",
        _KIND,
        *(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600),
    ),
    _histogram("job_duration", "How long one attempt of a job took.", _KIND, *(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60)),
    _histogram(
        "slot_wait",
        "How long a call to GitHub waited for its slot.",
        ("priority",),
        *(0.01, 0.1, 0.5, 1, 5, 15, 60, 300),
    ),
    _histogram(
        "github_duration",
        "How long GitHub took to answer, by path template.",
        ("call",),
        *(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    ),
    _gauge("build_info", "Always 1; the label is the version.", "version", "role"),
    _gauge("start_time_seconds", "When the process started, in seconds since 1970 (UTC)."),
    _gauge("slots", "Slots for calls to GitHub, over all installations."),
    _gauge("slots_available", "Slots that are free."),
    _gauge("slots_waiting", "Calls that wait for a slot.", "priority"),
    _gauge(
        "app_accepted", "1 while GitHub accepts the App's id and key, 0 while it refuses them; absent until it answers."
    ),
    _gauge(
        "github_budget_limit", "Requests an hour that GitHub grants an installation, or the App itself.", "installation"
    ),
    _gauge("github_budget_remaining", "How many of them are left, as far as this process knows.", "installation"),
    _database_gauge(
        "database_up", "1 when the database answered in time for this page; without it no other database figure."
    ),
    _database_gauge("processes", "Processes that reported in the last two minutes.", "role"),
    _database_gauge("jobs", "Jobs in the store.", "kind", "status"),
    _database_gauge(
        "jobs_oldest_due_seconds", "How long the job that is due longest has waited to be taken; 0 if none is due."
    ),
    _database_gauge("dead_letters", "Dead letters that wait for a person.", "kind"),
    _database_gauge("dead_letters_retryable", "Those of them that may be sent back."),
    _database_gauge("dead_letters_last_hour", "Those of them that died within the last hour."),
    _database_gauge("dead_letters_oldest_seconds", "Age of the oldest of them; 0 if there is none."),
    _database_gauge("queues", "Queues that have ever been used."),
    _database_gauge("queues_paused", "Queues that are paused until a person resumes them."),
    _database_gauge(
        "queues_oldest_due_seconds", "How long the queue that is due longest has waited for a pass; 0 if none is due."
    ),
    _database_gauge(
        "front_oldest_seconds",
        "How long the oldest front has been first in its queue, over all queues without a blocker; 0 if there is none.",
    ),
    _database_gauge("queue_entries", "Pull requests in all queues.", "status"),
    _database_gauge("queue_depth_max", "Pull requests in the longest queue."),
    _database_gauge("held_pull_requests", "Pull requests that wait for room in a full queue."),
    _database_gauge("not_ready_pull_requests", "Pull requests that wait outside a queue until they are ready."),
    _database_gauge("outbox_waiting", "Comments, check runs and labels still to be sent."),
    _database_gauge(
        "outbox_oldest_due_seconds", "How long the outbox item that is due longest has waited; 0 if none is due."
    ),
    _database_gauge(
        "outbox_late", "Comments and check runs that GitHub's limits, or a lack of workers, hold for over a minute."
    ),
)
"""Counters and timings of a Meter first, then gauges."""


_log = structlog.get_logger("imq.metrics")

M = TypeVar("M", Counter, Histogram)


class Metrics:
    """Implements `queue_engine.core.observability.progress.Meter`. `unknown` holds what was given and is none of
    FAMILIES."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self._children: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
        self._registry = CollectorRegistry()
        self._counters = {
            family.meter: Counter(_plain(family), family.help, family.labels, registry=self._registry)
            for family in FAMILIES
            if family.kind is Kind.COUNTER
        }
        self._timings = {
            family.meter: Histogram(
                family.name, family.help, family.labels, buckets=family.buckets, registry=self._registry
            )
            for family in FAMILIES
            if family.kind is Kind.HISTOGRAM
        }
        for family in FAMILIES:
            for value in family.initial_values:
                self._counters[family.meter].labels(value)

    def expect_jobs(self, kinds: tuple[str, ...]) -> None:
        """Start the counters of these kinds of jobs at 0."""
        for name, counter in self._counters.items():
            if name.startswith("jobs_"):
                for kind in kinds:
                    counter.labels(kind=kind)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Increase a counter by `amount`."""
        try:
            self._labeled_child(self._counters, name, labels).inc(amount)
        except (KeyError, ValueError) as error:
            self._log_unknown(name, error)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Observe a duration in seconds; a negative one, after the clock was set back, counts as 0."""
        try:
            self._labeled_child(self._timings, name, labels).observe(max(0.0, seconds))
        except (KeyError, ValueError) as error:
            self._log_unknown(name, error)

    def add(self, collector: Collector) -> None:
        """Register a collector of further figures."""
        self._registry.register(collector)

    def read(self) -> list[Metric]:
        """Return the current figures of this process."""
        return list(self._registry.collect())

    def _labeled_child(self, families: Mapping[str, M], name: str, labels: Mapping[str, str]) -> M:
        """Return the figure of these labels, cached: Prometheus's own lookup takes longer than counting."""
        if not labels:
            return families[name]
        key = name, tuple(labels.items())
        child: M | None = self._children.get(key)
        if child is None:
            child = self._children[key] = families[name].labels(**labels)
        return child

    def _log_unknown(self, name: str, error: Exception) -> None:
        """Log an unknown figure once, because an error here must not end its caller."""
        if name not in self.unknown:
            self.unknown.add(name)
            _log.error("unknown_figure", name=name, error=repr(error))


def _plain(family: Family) -> str:
    return family.name.removesuffix("_total")
