"""The benchmark that others run: a file gives load, CI, rules and seeds, and the command judges IMQ."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.scheduling import workload
from benchmarks.scheduling.cells import Cell
from benchmarks.scheduling.goals import FLAKY, runs_needed
from benchmarks.scheduling.policies import ORACLE
from tests.support.documents import read

EVERY_KIND = """
seeds = [3]
[load]
per_day = 200
pull_requests = 60
failures = 0.1
[ci]
minutes = 10
flakes = 0.0
runs = 4
[policies]
IMQ.rules = "imq"
"IMQ, patient" = { rules = "imq", max_size = 4, fill_minutes = 20 }
"Zuul-like" = { rules = "chain", window = 20, adaptive = true }
"Trunk-like" = { rules = "chain", window = 20, group = 4, later_clears = true }
"bors-like" = { rules = "batch", most = 8 }
"Tide-like" = { rules = "tide", most = 15 }
"one by one" = { rules = "chain", window = 1, runs = 1 }
[goals]
innocents_per_100 = 1
"""


def run(tmp_path: Path, text: str, *more: str) -> Result:
    """Run the command on a file."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return CliRunner().invoke(workload.main, [str(path), *more])


def test_file_compares_every_kind_of_rules_and_judges_imq(tmp_path: Path) -> None:
    """Table and object have a row for each policy and the oracle; the same seed gives the same answer."""
    result = run(tmp_path, EVERY_KIND)
    assert result.exit_code == 0, result.output
    shown = json.loads(run(tmp_path, EVERY_KIND, "--json").stdout)
    assert [*shown["policies"]] == [
        ORACLE, "IMQ", "IMQ, patient", "Zuul-like", "Trunk-like", "bors-like", "Tide-like", "one by one",
    ]  # fmt: skip
    for name, figures in shown["policies"].items():
        assert f"| {name} | " in result.stdout
        assert (figures["red_base"], figures["unresolved"], figures["landed"] > 40) == (0, 0, True), name
    patient, ours = shown["policies"]["IMQ, patient"], shown["policies"]["IMQ"]
    assert patient["runs_per_landing"] < ours["runs_per_landing"]
    assert ours["p50_minutes"] < patient["p50_minutes"] < ours["p50_minutes"] + 20
    assert shown["policies"]["one by one"]["p95_minutes"] > shown["policies"]["IMQ"]["p95_minutes"]
    assert [(each["name"], each["missed"]) for each in shown["goals"]] == [("innocents per 100", False)]
    assert run(tmp_path, EVERY_KIND).stdout == result.stdout


def test_missed_goal_is_exit_code_one_with_its_bound(tmp_path: Path) -> None:
    """A team's CI may hold IMQ to its figures."""
    result = run(tmp_path, EVERY_KIND.replace("innocents_per_100 = 1", "runs_per_landing = 0.1"))
    assert result.exit_code == 1
    assert "| runs per landing | 0.1 | " in result.stdout
    assert "MISSED" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("flakes = 0.0", "flakes = 27", "ci.flakes: input should be less than or equal to 0.9; it is 27"),
        ("runs = 4", "runs = 4\nrunners = 4", "ci.runners: is no key here, where these are: minutes, flakes, runs, "),
        ("runs = 4", "runs = true", "ci.runs: input should be a valid integer; it is true"),
        ("per_day = 200", "per_day = inf", "load.per_day: input should be a finite number; it is Infinity"),
        ("failures = 0.1", "", "load.failures: is missing"),
        ("seeds = [3]", "seeds = []", "seeds: needs one at least"),
        (
            '"batch", most',
            '"batch", window',
            "policies.bors-like.window: is no key here, where these are: rules, runs, most",
        ),
        (
            '"tide", most',
            '"Tide", most',
            "policies.Tide-like.rules: has to be 'imq', 'chain', 'batch', 'tide'; it is 'Tide'",
        ),
        ('rules = "tide", ', "", "policies.Tide-like.rules: is missing"),
        ("IMQ.rules", "Ours.rules", "  goals are for the policy IMQ, which is missing: add it"),
        ("IMQ.rules", 'oracle.rules = "imq"\nIMQ.rules', "  oracle is always simulated: name the policy otherwise"),
        ("seeds = [3]", "seeds = [3", "Unclosed array"),
    ],
)
def test_file_that_cannot_be_used_is_named_with_its_fault(tmp_path: Path, old: str, new: str, fault: str) -> None:
    """Nothing is simulated by a misspelt key."""
    result = run(tmp_path, EVERY_KIND.replace(old, new, 1))
    assert result.exit_code == 2
    assert fault in result.output
    assert "docs/scheduling.md has the keys" in result.output


def test_default_file_is_the_team_of_the_design() -> None:
    """The figures of docs/comparison.md and the goals of docs/scheduling.md are about one team."""
    found = workload.read(workload.DEFAULT)
    assert found.cell() == FLAKY
    assert found.goals.model_dump() == {"innocents_per_100": 1, "p95_over_oracle": 2, "runs_per_landing": 0.9}


def test_bound_of_runs_falls_with_the_innocents_that_may_be_ejected() -> None:
    """It is the entropy of what has to be decided, over what a run shows; 0.469 runs decide a pull request of 10 %."""
    assert runs_needed(Cell(10, 30, 0.1, 0.0, 1), 0.0) == pytest.approx(0.469 / 0.9, abs=0.001)
    assert runs_needed(FLAKY, 0.0) == pytest.approx(0.97, abs=0.005)
    assert runs_needed(FLAKY, 0.01) == pytest.approx(0.886, abs=0.005)


@pytest.mark.long
def test_comparison_shows_what_the_command_measures() -> None:
    """Everyone who runs it sees the figures of the page; `make bench-policies ARGS=--write` renews them."""
    result = CliRunner().invoke(workload.main, [])
    assert f"<!-- measured: make bench-policies -->\n\n{result.stdout}\n<!-- end -->" in read("docs/comparison.md")
