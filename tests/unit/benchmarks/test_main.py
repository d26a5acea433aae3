"""The command `make bench`: what fails or is interrupted does not take with it what was measured before."""

import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result

from benchmarks.__main__ import MEASURES, main
from benchmarks.sizes import Size
from benchmarks.table import Row

FAULT = "no such column: day"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """The command keeps the bot's logs to errors, in a process of its own."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    logging.disable(logging.NOTSET)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three measures, of which the second may be made to fail; the file that their rows are written to."""
    for name in tuple(MEASURES):
        monkeypatch.delitem(MEASURES, name)
    for name in ("first", "second", "third"):
        _takes(monkeypatch, name)
    return tmp_path / "rows.json"


def _takes(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    error: BaseException | None = None,
    met: bool = True,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Make a measure that has one row, or raises an error; it calls `meanwhile`."""

    def measure(_size: Size, _seed: int) -> Coroutine[None, None, list[Row]]:
        async def take() -> list[Row]:
            meanwhile()
            if error is not None:
                raise error
            return [Row(name, f"what {name} is", "2 s", 2.0, "< 3 s", met)]

        return take()

    monkeypatch.setitem(MEASURES, name, measure)


def _bench(file: Path, *more: str) -> tuple[Result, dict[str, Any]]:
    result = CliRunner().invoke(main, ["--json", str(file), *more])
    return result, json.loads(file.read_text())


def _outcomes(written: dict[str, Any]) -> dict[str, str | None]:
    return {row["name"]: row["fault"] for row in written["rows"]}


def test_all_measures_are_shown_and_written(file: Path) -> None:
    """Nothing is left, and nothing failed."""
    result, written = _bench(file)
    assert result.exit_code == 0
    assert _outcomes(written) == {"first": None, "second": None, "third": None}
    assert written["left"] == []


def test_missed_goal_is_exit_code_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before."""
    _takes(monkeypatch, "third", met=False)
    result, _ = _bench(file)
    assert result.exit_code == 1
    assert "MISSED" in result.stdout


@pytest.mark.parametrize(
    "error", [ValueError(f"{FAULT}\nSELECT day"), SystemExit(FAULT), ExceptionGroup(FAULT, [OSError()])]
)
def test_failed_measure_is_a_row_beside_the_others(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The row has the fault's words, standard error the traceback; the exit code is that of a missed goal."""
    _takes(monkeypatch, "second", error=error)
    result, written = _bench(file)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert FAULT in result.stdout
    assert "SELECT day" not in result.stdout
    assert "Traceback" in result.stderr
    assert "Traceback" not in result.stdout
    failed = _outcomes(written)
    assert f"{type(error).__name__}: {FAULT}" in str(failed.pop("second"))
    assert failed == {"first": None, "third": None}


def test_interrupted_run_shows_and_writes_what_was_measured(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the run at once, with the exit code of a command that was interrupted."""
    _takes(monkeypatch, "second", error=KeyboardInterrupt())
    result, written = _bench(file)
    assert result.exit_code == 130
    assert "what first is" in result.stdout
    assert "INTERRUPTED" in result.stdout
    assert "not measured: second, third" in result.stderr
    assert _outcomes(written) == {"first": None}
    assert written["left"] == ["second", "third"]


def test_file_has_what_was_measured_while_the_next_measure_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run loses the measure under way and no other."""
    left: list[list[str]] = []

    def note() -> None:
        written = json.loads(file.read_text())
        left.append([*_outcomes(written), *written["left"]])

    _takes(monkeypatch, "second", meanwhile=note)
    _bench(file)
    assert left == [["first", "second", "third"]]


def test_file_that_cannot_be_written_is_refused_before_any_measure(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is reported at once, and not after minutes of measuring."""
    _takes(monkeypatch, "first", error=AssertionError("measured"))
    result = CliRunner().invoke(main, ["--json", str(file / "rows.json")])
    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr
