"""The figures for Prometheus: what is counted, under which names, and how several processes share one page."""

import ast
import re
from collections.abc import Iterator

import pytest
from prometheus_client import Metric

from bot.metrics import FAMILIES, Kind, Metrics
from bot.metrics.families import Source
from bot.metrics.gauges import merged, parsed, text, with_process_label
from docs.generate import ROOT

METERED = {family.meter: family for family in FAMILIES if family.meter}
CALLS = {"count": Kind.COUNTER, "observe": Kind.HISTOGRAM}


def values(page: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of this name, by the values of their labels in the order of the labels' names."""
    samples = [sample for family in parsed(page) for sample in family.samples if sample.name == name]
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in samples}


def page(metrics: Metrics, process: str = "run") -> str:
    """What one process says."""
    return text(with_process_label(process, metrics.read()))


def test_meter_counts_and_times_under_prometheus_names() -> None:
    """A name of the core becomes `imq_…_total` or `imq_…_seconds`."""
    metrics = Metrics()
    metrics.count("jobs_done", kind="webhook")
    metrics.count("jobs_done", 2, kind="webhook")
    metrics.observe("job_delay", 42.0, kind="webhook")
    exposition = page(metrics)
    assert values(exposition, "imq_jobs_done_total") == {("webhook", "run"): 3}
    assert values(exposition, "imq_job_delay_seconds_sum") == {("webhook", "run"): 42}
    buckets = values(exposition, "imq_job_delay_seconds_bucket")
    assert (buckets["webhook", "15.0", "run"], buckets["webhook", "60.0", "run"]) == (0, 1)


def test_counters_of_expected_kinds_are_exposed_from_the_start() -> None:
    """Prometheus sees no increase in the first sample of a counter: the first dead letter must not be missed."""
    metrics = Metrics()
    metrics.expect_jobs(("webhook", "sweep"))
    exposition = page(metrics)
    assert values(exposition, "imq_jobs_dead_total") == {("webhook", "run"): 0, ("sweep", "run"): 0}
    assert values(exposition, "imq_duplicates_total") == {("run", "webhook"): 0, ("run", "api"): 0}
    assert set(values(exposition, "imq_github_limited_total").values()) == {0}


@pytest.mark.parametrize(
    ("name", "labels"), [("nonsense", {}), ("jobs_done", {}), ("jobs_done", {"kind": "webhook", "repository": "acme"})]
)
def test_unknown_figure_is_noted_and_harms_nothing(name: str, labels: dict[str, str]) -> None:
    """What is measured never fails by being measured; tests look at `unknown`."""
    metrics = Metrics()
    metrics.count(name, 1, **labels)
    metrics.observe(name, 1.0, **labels)
    assert metrics.unknown == {name}
    assert "acme" not in page(metrics)


def test_duration_under_a_clock_that_was_set_back_counts_as_none() -> None:
    """A sum that sank would look like a restart to Prometheus."""
    metrics = Metrics()
    metrics.observe("slot_wait", -3600.0, priority="now")
    assert values(page(metrics), "imq_slot_wait_seconds_sum") == {("now", "run"): 0}


def calls() -> Iterator[tuple[str, str, str, set[str]]]:
    """Every call of a meter in the code: where, which method, the figure's name, and its labels."""
    for package in ("bot", "notifications", "queue_engine"):
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            # To parse the files that name no meter would take as long as a thousand other tests.
            for node in ast.walk(ast.parse(source)) if "meter" in source else ():
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=meter, attr="count" | "observe" as method),
                        args=[ast.Constant(value=str(name)), *_],
                        keywords=keywords,
                    ) if ast.unparse(meter).rstrip("()").endswith("meter"):
                        place = f"{path.relative_to(ROOT)}:{node.lineno}"
                        yield place, method, name, {str(word.arg) for word in keywords}


def test_figures_in_the_code_are_those_of_the_table() -> None:
    """A new metric name or label needs its meaning in the table first."""
    wrong = [
        place
        for place, method, name, labels in calls()
        if name not in METERED or METERED[name].kind is not CALLS[method] or set(METERED[name].labels) != labels
    ]
    assert wrong == []


def test_figures_of_the_table_are_all_counted_somewhere() -> None:
    """A figure without a call that counts it would stay 0 and look like health."""
    assert {name for _, _, name, _ in calls()} == set(METERED)


def test_names_and_labels_follow_prometheus_customs_and_identify_no_person() -> None:
    """Counters end in `_total`, times in `_seconds`; no label could hold a repository, a branch or a person."""
    for family in FAMILIES:
        assert re.fullmatch(r"imq_[a-z_]+[a-z]", family.name)
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER), family.name
        assert family.kind is not Kind.HISTOGRAM or (family.name.endswith("_seconds") and family.buckets)
        assert not {"repository", "branch", "login", "owner", "number", "process"} & set(family.labels)
        assert family.help.endswith(".")
        assert family.source is Source.PROCESS or not family.meter
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_page_of_several_processes_describes_each_family_once() -> None:
    """Prometheus refuses a page that describes one family twice; the label `process` distinguishes the samples."""
    one, two = Metrics(), Metrics()
    one.count("jobs_done", kind="webhook")
    two.count("jobs_done", 5, kind="webhook")
    two.observe("github_duration", 0.2, call="GET /rate_limit")
    exposition = text(merged(with_process_label("web-1", one.read()), parsed(page(two, "worker-2"))))
    assert values(exposition, "imq_jobs_done_total") == {("webhook", "web-1"): 1, ("webhook", "worker-2"): 5}
    assert values(exposition, "imq_github_duration_seconds_count") == {("GET /rate_limit", "worker-2"): 1}
    described = re.findall(r"^# TYPE (\S+)", exposition, re.MULTILINE)
    assert len(described) == len(set(described))
    assert not re.search(r"_created\b", exposition)


def test_page_that_was_parsed_is_rendered_unchanged() -> None:
    """Nothing is lost between one process's page and another's: names, kinds, label values with odd characters."""
    metrics = Metrics()
    metrics.count("github_requests", call='GET /a"b\\c\nd', status="200")
    metrics.observe("job_duration", 0.3, kind="webhook")
    assert text(parsed(page(metrics))) == page(metrics)


def test_page_leaves_out_what_contradicts_it() -> None:
    """During a deploy another version's process cannot make the page unreadable, nor can a duplicate sample."""
    ours = Metrics()
    ours.count("jobs_done", kind="webhook")
    other = Metric("imq_jobs_done", "Once a gauge.", "gauge")
    other.add_sample("imq_jobs_done", {"process": "old"}, 7)
    exposition = text(merged(with_process_label("run", ours.read()), [other], with_process_label("run", ours.read())))
    assert exposition == page(ours)
