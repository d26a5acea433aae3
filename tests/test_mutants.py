"""The report of `make mutants`, and what `make breaks` breaks."""

import json
import tomllib
from pathlib import Path

from tests.support.breaks import BREAKS, ROOT
from tests.support.mutants import outcomes, report


def test_report_of_mutants_names_survivors_and_scores_what_was_tried(tmp_path: Path) -> None:
    """A failure or a hang is noticed; passing everywhere or being run by no test is not; untried ones do not count."""
    codes = {
        "queue_engine/decide": {"a": 1, "b": -24, "c": 0, "d": 33},
        "queue_engine/store/order": {"e": 1, "f": None},
        "queue_engine/consent": {"g": None},
    }
    for module, found in codes.items():
        stored = tmp_path / f"{module}.py.meta"
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps({"exit_code_by_key": found}))
    by_module = outcomes(tmp_path)
    assert {module: list(tried.values()) for module, tried in by_module.items()} == {
        "decide": [True, True, False, False],
        "store.order": [True],
    }
    lines = report(by_module).splitlines()
    assert lines[:3] == ["c", "d", ""]
    assert [line.split() for line in lines[3:6]] == [
        ["decide", "2", "of", "4", "noticed", "50.0%"],
        ["store.order", "1", "of", "1", "noticed", "100.0%"],
        ["all", "3", "of", "5", "noticed", "60.0%"],
    ]


def test_modules_and_tests_of_mutants_exist() -> None:
    """A renamed file would silently be left out."""
    chosen = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    named = [*chosen["only_mutate"], *chosen["also_copy"], *chosen["pytest_add_cli_args_test_selection"]]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_line_that_breaks_a_promise_and_its_test_exist() -> None:
    """A break whose line changed would break nothing."""
    assert list(BREAKS) == [f"P{number}" for number in range(1, 8)]
    for promise, broken in BREAKS.items():
        lines = (ROOT / broken.module).read_text(encoding="utf-8").splitlines()
        path, _, test = broken.test.partition("::")
        assert lines.count(broken.line) == 1, promise
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8") or not test, promise
