"""Read the gauges of this process and of the database, and write Prometheus's text format for all processes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client import Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from bot import __version__
from bot.gateway.http.limits import Budget
from bot.metrics.families import FAMILIES, PREFIX
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.jobs.job import JobStatus
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import EntryStatus
from queue_engine.store.figures import JobFigures, OutboxFigures, QueueFigures

ROLES = ("run", "web", "worker")
"""The commands that start a process."""

_BY_NAME = {family.name: family for family in FAMILIES}


class ProcessGauges(Collector):
    """Gauges of this process, its slots and its budgets, without any request."""

    def __init__(
        self,
        *,
        role: str,
        clock: Clock,
        slots: Callable[[], SlotsStatus],
        budget: Callable[[], Mapping[int | None, Budget]],
        accepted: Callable[[], bool | None] = lambda: None,
    ) -> None:
        self._role = role
        self._clock = clock
        self._started = clock.now()
        self._slots = slots
        self._budget = budget
        self._accepted = accepted

    def collect(self) -> Iterator[Metric]:
        """Return the current gauges."""
        slots = self._slots()
        yield _labeled("build_info", {(__version__, self._role): 1})
        yield _single("start_time_seconds", self._started.timestamp())
        yield _single("slots", slots.total_slots)
        yield _single("slots_available", slots.available_slots)
        yield _labeled(
            "slots_waiting", {(RequestPriority.NOW,): slots.rt_queue, (RequestPriority.BACKGROUND,): slots.be_queue}
        )
        accepted = self._accepted()
        yield _labeled("app_accepted", {} if accepted is None else {(): float(accepted)})
        left = {(name_of(key),): budget for key, budget in self._budget().items()}
        now = self._clock.now()
        yield _labeled("github_budget_limit", {labels: budget.limit for labels, budget in left.items()})
        yield _labeled("github_budget_remaining", {labels: remaining(each, now) for labels, each in left.items()})


def name_of(installation_id: int | None) -> str:
    """Return an installation's name in labels and reports: its id, or `app` for the App itself."""
    return "app" if installation_id is None else str(installation_id)


def remaining(budget: Budget, now: datetime) -> int:
    """Return the requests left of a budget, all of them once it was renewed."""
    return budget.limit if budget.resets_at <= now else budget.remaining


def database_gauges(
    jobs: JobFigures, queues: QueueFigures, outbox: OutboxFigures, roles: Mapping[str, int], now: datetime
) -> list[Metric]:
    """Return the gauges of the database. `roles` are the running processes."""

    def age(since: datetime | None) -> float:
        return 0.0 if since is None else max(0.0, (now - since).total_seconds())

    return [
        _single("database_up", 1),
        _labeled("processes", {(role,): roles.get(role, 0) for role in ROLES}),
        _labeled("jobs", {(kind, JobStatus(status).lower()): count for (kind, status), count in jobs.stored.items()}),
        _single("jobs_oldest_due_seconds", age(jobs.due_since)),
        _labeled("dead_letters", {(kind,): count for kind, count in jobs.dead.items()}),
        _single("dead_letters_retryable", jobs.dead_retryable),
        _single("dead_letters_last_hour", jobs.dead_lately),
        _single("dead_letters_oldest_seconds", age(jobs.dead_since)),
        _single("queues", queues.queues),
        _single("queues_paused", queues.paused),
        _single("queues_oldest_due_seconds", age(queues.due_since)),
        _single("front_oldest_seconds", age(queues.front_since)),
        _labeled("queue_entries", {(status.value,): queues.entries.get(status, 0) for status in _WAITING}),
        _single("queue_depth_max", queues.deepest),
        _single("held_pull_requests", queues.held),
        _single("not_ready_pull_requests", queues.not_ready),
        _single("outbox_waiting", outbox.waiting),
        _single("outbox_oldest_due_seconds", age(outbox.due_since)),
        _single("outbox_late", outbox.late),
    ]


def database_down_gauges() -> list[Metric]:
    """Return the gauges while the database does not answer."""
    return [_single("database_up", 0)]


_WAITING = (EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY)


def _single(name: str, value: float) -> Metric:
    return _labeled(name, {(): value})


def _labeled(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    family = _BY_NAME[PREFIX + name]
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric


CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format that `text` writes."""


class _Page(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def text(families: Sequence[Metric]) -> str:
    """Format the families as text; each name must occur once, as after `merged`."""
    return generate_latest(_Page(families)).decode()


def parsed(page: str) -> list[Metric]:
    """Parse families. Raises ValueError for invalid text."""
    return list(text_string_to_metric_families(page))


def with_process_label(process: str, families: Iterable[Metric]) -> list[Metric]:
    """Add the label `process` to every sample. Samples with times of creation are left out."""
    labeled = []
    for family in families:
        metric = Metric(family.name, family.documentation, family.type)
        metric.samples = [
            sample._replace(labels=sample.labels | {"process": process})
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        labeled.append(metric)
    return labeled


def merged(*pages: Iterable[Metric]) -> list[Metric]:
    """Merge pages into one family per name. Samples that contradict an earlier page are left out.

    Processes of two versions run side by side during a deploy: a family that changed its type between them would make
    the whole page unreadable.
    """
    families: dict[str, Metric] = {}
    known_samples: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for page in pages:
        for family in page:
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            if known.type == family.type:
                known.samples += [sample for sample in family.samples if _is_new(sample, known_samples)]
    return list(families.values())


def _is_new(sample: Sample, known_samples: set[tuple[str, tuple[tuple[str, str], ...]]]) -> bool:
    identity = (sample.name, tuple(sorted(sample.labels.items())))
    if identity in known_samples:
        return False
    known_samples.add(identity)
    return True
