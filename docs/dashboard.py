"""Makes Grafana's dashboard of IMQ from the metric families: each family has one panel.

The fields are those of Grafana's classic model (its page "Dashboard JSON model" and its Foundation SDK agree on them),
which Grafana 10 and later import; they bring an older `schemaVersion` up to theirs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bot.metrics import FAMILIES, Family, Kind
from bot.metrics.families import PREFIX

ROWS: Mapping[str, tuple[str, ...]] = {
    "Health": (
        "database_up",
        "app_accepted",
        "processes",
        "queues_paused",
        "dead_letters_last_hour",
        "build_info",
        "start_time_seconds",
    ),
    "Landings": ("landed_total", "dequeued_total", "queue_time_seconds", "front_time_seconds"),
    "Queues": (
        "front_oldest_seconds",
        "queue_entries",
        "queue_depth_max",
        "held_pull_requests",
        "not_ready_pull_requests",
        "queue_full_total",
        "queues",
        "queues_oldest_due_seconds",
        "pass_errors_total",
        "outdated_reads_total",
    ),
    "Shadow mode": ("shadow_decisions_total", "shadow_merges_total", "shadow_differences_total"),
    "Webhooks and calls": ("requests_keyed_total", "duplicates_total", "deliveries_refused_total"),
    "Work": (
        "jobs",
        "jobs_oldest_due_seconds",
        "job_delay_seconds",
        "job_duration_seconds",
        "jobs_done_total",
        "jobs_retried_total",
        "jobs_recovered_total",
        "outbox_waiting",
        "outbox_oldest_due_seconds",
        "outbox_late",
        "outbox_sent_total",
    ),
    "Dead letters": (
        "dead_letters",
        "dead_letters_retryable",
        "dead_letters_oldest_seconds",
        "jobs_dead_total",
        "jobs_reprocessed_total",
        "user_retries_total",
    ),
    "GitHub": (
        "github_budget_remaining",
        "github_budget_limit",
        "github_requests_total",
        "github_duration_seconds",
        "github_unauthorized_total",
        "github_limited_total",
        "slots",
        "slots_available",
        "slots_waiting",
        "slot_wait_seconds",
    ),
}
"""The panels of each row, by the family's name without its prefix."""

_STATS = "Health"
"""The row whose panels show the present value alone."""

_SUMMED = {"slots", "slots_available", "slots_waiting"}
"""Gauges that add up over the processes."""

_LEAST = {"app_accepted", "github_budget_remaining", "github_budget_limit"}
"""Gauges of which the worst process counts."""

_YES_OR_NO = {"database_up", "app_accepted"}
_ALL = {
    "build_info": "sum by (version, role) ({name})",
    "start_time_seconds": "time() - max by (process) ({name})",
}
"""Queries of the gauges that need one of their own."""

_TITLES = {"build_info": "Versions", "start_time_seconds": "Time since the start"}
_WIDTH, _HEIGHT, _STAT_WIDTH, _STAT_HEIGHT, _COLUMNS = 8, 8, 3, 4, 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> str:
    """Return the dashboard as JSON."""
    content = {
        "uid": "imq",
        "title": "IMQ",
        "description": "The merge queue IMQ: landings, queues, work and GitHub.",
        "tags": ["imq"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 36,
        "version": 1,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [_datasource(), _window()]},
        "panels": list(_panels()),
    }
    return json.dumps(content, indent=2) + "\n"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def _window() -> dict[str, Any]:
    """Return the variable by which a reader chooses how long a time counters and durations cover."""
    spans = ("5m", "15m", "1h", "6h", "1d")
    options = [{"text": span, "value": span, "selected": span == "1h"} for span in spans]
    return {
        "name": "window",
        "label": "Counted over",
        "type": "interval",
        "query": ",".join(spans),
        "current": {"text": "1h", "value": "1h"},
        "options": options,
        "hide": 0,
    }


def _panels() -> Iterator[dict[str, Any]]:
    families = {family.name: family for family in FAMILIES}
    number, top = 0, 0
    for title, names in ROWS.items():
        number += 1
        place = _place(0, top, _COLUMNS, 1)
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        width, height = (_STAT_WIDTH, _STAT_HEIGHT) if title == _STATS else (_WIDTH, _HEIGHT)
        per_line = _COLUMNS // width
        for index, name in enumerate(names):
            number += 1
            place = _place(index % per_line * width, top + index // per_line * height, width, height)
            yield _panel(number, families[PREFIX + name], place, "stat" if title == _STATS else "timeseries")
        top += -(-len(names) // per_line) * height


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(number: int, family: Family, place: dict[str, int], kind: str) -> dict[str, Any]:
    name = family.name.removeprefix(PREFIX)
    words = name.removesuffix("_total").removesuffix("_seconds").replace("_", " ")
    defaults: dict[str, Any] = {"unit": "s" if name.endswith("_seconds") else "short", "min": 0}
    if name in _YES_OR_NO:
        yes, no = {"text": "yes", "color": "green", "index": 0}, {"text": "no", "color": "red", "index": 1}
        defaults["mappings"] = [{"type": "value", "options": {"1": yes, "0": no}}]
    return {
        "id": number,
        "type": kind,
        "title": _TITLES.get(name, words.capitalize()),
        "description": family.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": ref, "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for ref, (query, legend) in zip("AB", _queries(family, name), strict=False)
        ],
    }


def _queries(family: Family, name: str) -> list[tuple[str, str]]:
    """Return the queries of a family, each with its legend."""
    legend = " ".join(f"{{{{{label}}}}}" for label in family.labels) or "all"
    if family.kind is Kind.COUNTER:
        return [(_by("sum", family.labels, f"increase({family.name}[$window])"), legend)]
    if family.kind is Kind.HISTOGRAM:
        counted = _by("sum", ("le", *family.labels), f"increase({family.name}_bucket[$window])")
        quantiles = {0.5: "half", 0.95: "19 of 20"}
        return [(f"histogram_quantile({q}, {counted})", f"{legend}: {words}") for q, words in quantiles.items()]
    if name in _ALL:
        return [(_ALL[name].format(name=family.name), "{{version}} {{role}}" if family.labels else "{{process}}")]
    how = "sum" if name in _SUMMED else "min" if name in _LEAST else "max"
    return [(_by(how, family.labels, family.name), legend)]


def _by(how: str, labels: tuple[str, ...], query: str) -> str:
    return f"{how} by ({', '.join(labels)}) ({query})" if labels else f"{how}({query})"
