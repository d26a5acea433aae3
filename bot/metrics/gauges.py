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
from queue_engine.core.jobs.job_table import JobStatus
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import EntryStatus
from queue_engine.store.operations.figures import JobFigures, OutboxFigures, QueueFigures

ROLES = ("run", "web", "worker")
"""What a process can be, as the command that started it."""

_BY_NAME = {family.name: family for family in FAMILIES}


class LiveGauges(Collector):
    """What this process is and has left of GitHub, without a question to anybody."""

    def __init__(
        self,
        *,
        role: str,
        clock: Clock,
        slots: Callable[[], SlotsStatus],
        budget: Callable[[], Mapping[int | None, Budget]],
    ) -> None:
        self._role = role
        self._clock = clock
        self._started = clock.now()
        self._slots = slots
        self._budget = budget

    def collect(self) -> Iterator[Metric]:
        """The gauges as they are now."""
        slots = self._slots()
        yield _labelled("build_info", {(__version__, self._role): 1})
        yield _single("start_time_seconds", self._started.timestamp())
        yield _single("slots", slots.total_slots)
        yield _single("slots_available", slots.available_slots)
        yield _labelled(
            "slots_waiting", {(RequestPriority.NOW,): slots.rt_queue, (RequestPriority.BACKGROUND,): slots.be_queue}
        )
        left = {(name_of(key),): budget for key, budget in self._budget().items()}
        now = self._clock.now()
        yield _labelled("github_budget_limit", {labels: budget.limit for labels, budget in left.items()})
        yield _labelled("github_budget_remaining", {labels: remaining(each, now) for labels, each in left.items()})


def name_of(installation_id: int | None) -> str:
    """An installation in labels and in what processes tell: its id, or `app` for the App itself."""
    return "app" if installation_id is None else str(installation_id)


def remaining(budget: Budget, now: datetime) -> int:
    """What is left of a budget; when its hour is over it is whole again, though GitHub was not asked since."""
    return budget.limit if budget.resets_at <= now else budget.remaining


def of_the_database(
    jobs: JobFigures, queues: QueueFigures, letters: OutboxFigures, roles: Mapping[str, int], now: datetime
) -> list[Metric]:
    """The gauges of a database that answered. `roles` are the running processes."""

    def age(since: datetime | None) -> float:
        return 0.0 if since is None else max(0.0, (now - since).total_seconds())

    return [
        _single("database_up", 1),
        _labelled("processes", {(role,): roles.get(role, 0) for role in ROLES}),
        _labelled("jobs", {(kind, JobStatus(status).lower()): count for (kind, status), count in jobs.stored.items()}),
        _single("jobs_oldest_due_seconds", age(jobs.due_since)),
        _labelled("dead_letters", {(kind,): count for kind, count in jobs.dead.items()}),
        _single("dead_letters_retryable", jobs.dead_retryable),
        _single("dead_letters_last_hour", jobs.dead_lately),
        _single("dead_letters_oldest_seconds", age(jobs.dead_since)),
        _single("queues", queues.queues),
        _single("queues_paused", queues.paused),
        _single("queues_oldest_due_seconds", age(queues.due_since)),
        _labelled("queue_entries", {(status.value,): queues.entries.get(status, 0) for status in _WAITING}),
        _single("queue_depth_max", queues.deepest),
        _single("held_pull_requests", queues.held),
        _single("outbox_waiting", letters.waiting),
        _single("outbox_oldest_due_seconds", age(letters.due_since)),
    ]


def of_no_database() -> list[Metric]:
    """What is left to say while the database does not answer."""
    return [_single("database_up", 0)]


_WAITING = (EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY)


def _single(name: str, value: float) -> Metric:
    return _labelled(name, {(): value})


def _labelled(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    family = _BY_NAME[PREFIX + name]
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric
