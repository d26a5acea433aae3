"""The alert rules, by Prometheus's own tool: they can be loaded, and fire where they should and nowhere else."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot.metrics import FAMILIES, Kind
from docs.generate import ROOT
from queue_engine.store import Store
from tests.support.documents import read
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.process.test_report import reporter

FOLDER = ROOT / "deploy" / "prometheus"
RULES = YAML(typ="safe").load(FOLDER / "alerts.yml")
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
CASES = YAML(typ="safe").load(FOLDER / "alerts_test.yml")
PAGE = read("docs/operating.md")
QUERIES = re.findall(r"^```promql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SEED = {
    "ImqDeadLetters": "> 10",
    "ImqRetriesFail": "> 0.05",
    "ImqDuplicates": "> 0.5",
    "ImqSlow": "> 300",
}
"""More than 10 dead letters an hour, failing retries over 5 %, duplicates over 50 %, a mean delay over 5 minutes."""


@pytest.fixture(scope="session")
def promtool() -> str:
    """The tool, from the PATH or from where `.ci/from-debian` puts it."""
    found = shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".tools")
    return found or pytest.skip("no promtool: run .ci/from-debian prometheus usr/bin/promtool, or install Prometheus")


def run(*command: str, text: str | None = None) -> tuple[int, str]:
    """Exit code, and all that was said."""
    pipe, together = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, input=text, stdout=pipe, stderr=together, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.process
def test_rules_and_their_cases_hold(promtool: str) -> None:
    """Prometheus takes the file as it is, and each alert fires and is silent as its cases say."""
    assert run(promtool, "check", "rules", str(FOLDER / "alerts.yml"))[0] == 0
    code, output = run(promtool, "test", "rules", str(FOLDER / "alerts_test.yml"))
    assert code == 0, output


def thresholds() -> Iterator[tuple[str, str, str]]:
    """Every comparison with a number above 0: the alert, the comparison, and one that is a little off."""
    for name, rule in ALERTS.items():
        for found in re.finditer(r"([<>]=?) ([\d.]+)", rule["expr"]):
            value = float(found[2])
            step = 1 if value >= 1 else 0.001
            for moved in (value - step, value + step) if value else ():
                yield name, found[0], f"{found[1]} {moved:g}"


@pytest.mark.process
def test_threshold_that_is_moved_a_little_is_noticed(promtool: str, tmp_path: Path) -> None:
    """The cases stand at the edges: no threshold can drift without a case that fails."""
    files = dict[str, tuple[str, str, str]]()
    for number, (alert, comparison, moved) in enumerate(sorted(set(thresholds()))):
        rule = ALERTS[alert] | {"expr": ALERTS[alert]["expr"].replace(comparison, moved)}
        assert rule != ALERTS[alert]
        own = [case for case in CASES["tests"] if _is_about(case, alert)]
        rules, cases = f"alerts-{number}.yml", tmp_path / f"cases-{number}.yml"
        _write(tmp_path / rules, {"groups": [{"name": "imq", "rules": [rule]}]})
        _write(cases, CASES | {"rule_files": [rules], "tests": own})
        files[str(cases)] = alert, comparison, moved
    assert files
    _, answer = run(promtool, "test", "rules", *files)
    verdicts = dict(part.split(maxsplit=1) for part in answer.split("Unit Testing:")[1:])
    assert [drift for file, drift in files.items() if "FAILED" not in verdicts[file]] == []


def _is_about(case: dict[str, Any], alert: str) -> bool:
    return any(f'"{alert}"' in test["expr"] for test in case["promql_expr_test"])


def _write(path: Path, content: dict[str, Any]) -> None:
    with path.open("w") as file:
        YAML(typ="safe").dump(content, file)


def test_alert_has_cases_of_firing_and_of_silence() -> None:
    """A rule that has never been seen to fire, or never to be silent, says nothing."""
    for alert in ALERTS:
        healthy, *others = CASES["tests"]
        assert {(test["expr"], "exp_samples" in test) for test in healthy["promql_expr_test"]} == {("ALERTS", False)}, (
            alert
        )
        tests = [test for case in others for test in case["promql_expr_test"] if f'"{alert}"' in test["expr"]]
        assert [test for test in tests if "exp_samples" in test], alert
        assert [test for test in tests if "exp_samples" not in test], alert


def test_alert_says_how_bad_it_is_and_what_to_do() -> None:
    """An operator who gets the alert finds what happened, what to do, and where more is written."""
    for alert in ALERTS:
        rule = ALERTS[alert]
        assert rule["labels"]["severity"] in {"critical", "warning"}, alert
        assert {"summary", "description", "runbook"} == set(rule["annotations"]), alert
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{alert.lower()}", alert


def sections() -> dict[str, str]:
    """The sections of the page of alerts, by heading."""
    found = re.split(r"^## (.+)\n", read("docs/alerts.md"), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_page_of_alerts_has_a_section_for_each_alert_and_no_other() -> None:
    """The annotation of an alert leads to its section, in the order of the rules."""
    assert list(sections()) == list(ALERTS)


def test_section_of_an_alert_says_how_bad_it_is_where_to_look_and_what_to_do() -> None:
    """Who is woken by an alert reads three things, and the severity of the rule."""
    for alert in ALERTS:
        text, severity = sections()[alert], ALERTS[alert]["labels"]["severity"].capitalize()
        assert text.strip().startswith(f"**{severity}.** "), alert
        assert re.findall(r"^- \*\*(\w+):\*\* \S", text, re.MULTILINE) == ["Look", "Do"], alert


@pytest.mark.parametrize("alert", SEED)
def test_alert_has_the_threshold_that_was_asked_for(alert: str) -> None:
    """The figures of the design are those of the file."""
    assert re.search(rf"{re.escape(SEED[alert])}(?![\d.])", ALERTS[alert]["expr"])


def samples() -> dict[str, set[str]]:
    """The names of all samples, each with its labels."""
    exposed: dict[str, set[str]] = {}
    for family in FAMILIES:
        endings = ("_sum", "_count", "_bucket") if family.kind is Kind.HISTOGRAM else ("",)
        exposed |= {family.name + ending: {*family.labels, "process"} for ending in endings}
    return exposed


def check_names(expression: str) -> set[str]:
    """The samples that a query names, which exist with all labels that the query selects or groups by."""
    exposed = samples()
    named = re.findall(r"\b(imq_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    for name, chosen in named:
        assert name in exposed
        assert set(re.findall(r"(\w+)(?==|!=|=~)", chosen)) <= exposed[name]
    known = set().union(*(exposed[name] for name, _ in named)) | {"le"}
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(re.split(r",\s*", grouped)) <= known
    return {name for name, _ in named}


def test_expression_speaks_of_figures_and_labels_that_exist() -> None:
    """A rule about a figure that was renamed would be silent for ever."""
    for expression in [*(rule["expr"] for rule in ALERTS.values()), *QUERIES]:
        check_names(expression)


def check_queries(promtool: str, queries: Sequence[str], rules: Path) -> None:
    """Have promtool read the queries, each as a recording rule."""
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    _write(rules, {"groups": [{"name": "queries", "rules": recorded}]})
    code, output = run(promtool, "check", "rules", str(rules))
    assert code == 0, output


@pytest.mark.process
def test_queries_of_the_operators_page_can_be_asked(promtool: str, tmp_path: Path) -> None:
    """Who copies one into Prometheus gets an answer."""
    assert len(QUERIES) >= 4
    check_queries(promtool, QUERIES, tmp_path / "queries.yml")


@pytest.mark.process
async def test_page_is_one_that_prometheus_takes_without_complaint(promtool: str, store: Store) -> None:
    """With several processes on it, and names that follow its customs."""
    clock = ManualClock()
    web, worker = reporter(store, clock, "web", "1a"), reporter(store, clock, "worker", "2b")
    for each in (web, worker):
        each.metrics.count("github_requests", call="GET /repos/{owner}/{repo}", status="200")
        each.metrics.observe("job_delay", 0.5, kind="webhook")
        await each.run_due()
    assert run(promtool, "check", "metrics", text=await web.page()) == (0, "")
