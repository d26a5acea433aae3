"""Read the gauges of this process and of the database when the page is requested."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

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
