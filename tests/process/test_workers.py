"""The workers that run our tests: each test runs once, and a worker's death fails the test that it ran."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = """
import os, pathlib, signal
import pytest

HOME = pathlib.Path(__file__).parent

@pytest.fixture(scope="session", autouse=True)
def whole_session():
    yield
    note("ended", str(os.getpid()))

def note(file, text):
    with open(HOME / file, "a") as notes:
        notes.write(text + "\\n")

@pytest.mark.parametrize("number", range(40))
def test_notes(number, tmp_path):
    note("numbers", str(number))
    note("processes", str(os.getpid()))
    # Until another worker has begun, this one takes no further test.
    while len(set((HOME / "processes").read_text().split())) < 2:
        pass
    (tmp_path / "file").touch()

def test_fails():
    print("what it printed")
    assert not "a reason"

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def outcome(directory: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run these tests by two workers."""
    path = directory / "test_some.py"
    path.write_text(tests, encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-p", "tests.support.workers", "--workers", "2", *arguments)
    return subprocess.run(
        (*command, f"--rootdir={directory}", path),
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def lines(directory: Path, file: str) -> list[str]:
    """What tests noted."""
    return (directory / file).read_text(encoding="utf-8").split()


def test_each_test_runs_once_in_one_of_the_workers_and_a_failure_has_what_it_printed(tmp_path: Path) -> None:
    ended = outcome(tmp_path, TESTS)
    assert ended.returncode == 1
    assert "2 failed, 40 passed" in ended.stdout
    assert "what it printed" in ended.stdout
    assert Counter(lines(tmp_path, "numbers")) == {str(number): 1 for number in range(40)}
    assert len(set(lines(tmp_path, "processes"))) == 2
    assert "test_some.py::test_dies" in ended.stdout
    assert "The worker of this test ended with code -9." in ended.stdout
    assert len(lines(tmp_path, "ended")) == 1
    assert set(lines(tmp_path, "ended")) < set(lines(tmp_path, "processes"))


def test_first_failure_ends_the_session_where_that_was_asked_for(tmp_path: Path) -> None:
    tests = "def test_fails():\n    assert False\n" + "".join(f"def test_{n}():\n    pass\n" for n in range(500))
    ended = outcome(tmp_path, tests, "-x")
    assert ended.returncode == 1
    assert "stopping after 1 failures" in ended.stdout


def test_no_test_is_lost_with_a_worker_that_dies(tmp_path: Path) -> None:
    """A gate that runs the failed tests again, alone, would pass without those that no worker ran."""
    dies = "import os, signal\n\ndef test_dies():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    ended = outcome(tmp_path, f"{dies}\ndef test_begun():\n    pass\n\ndef test_last():\n    pass\n", "--workers", "1")
    assert "3 failed" in ended.stdout
    assert ended.stdout.count("\nNo worker ran this test.") == 2
    assert "_ test_begun _" in ended.stdout
    assert "_ test_last _" in ended.stdout
