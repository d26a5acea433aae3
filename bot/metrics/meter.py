"""Count and time in Prometheus's counters and histograms, in a separate registry."""

from collections.abc import Mapping
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.registry import Collector

from bot.metrics.families import FAMILIES, Family, Kind

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
