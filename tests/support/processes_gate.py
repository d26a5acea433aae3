"""`python -m tests.support.processes_gate`: the tests of processes, and a second run of each that failed, alone.

Real processes share their machine with others, and a test of them may fail for that. To find out, a failed test runs a
second time with nothing beside it. Both outcomes are printed with their logs, and the last lines name what ran again:
such a test has a fault. The gate fails if a test fails twice, or if more than `MOST_RERUNS` failed.
"""

import subprocess
import sys
from collections.abc import Sequence

import pytest

MOST_RERUNS = 3


class Failures:
    """A plugin of pytest that keeps the names of failed tests, each once, in their order."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.passed = 0
        self.uncollected = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, its setup or its teardown ended."""
        if report.failed:
            self.names.setdefault(report.nodeid)
        self.passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module was read, or could not be."""
        self.uncollected |= report.failed


def verdict(failures: Failures, code: int, again: Sequence[int]) -> tuple[int, list[str]]:
    """The exit code of the gate, and its last lines.

    `code` is pytest's for the whole gate; `again` has its code for each failed test that ran again.
    """
    count = len(failures.names)
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or failures.uncollected:
        return max(code, 1), [f"The processes gate failed: pytest ended with code {int(code)}."]
    if count > MOST_RERUNS:
        return 1, [f"The processes gate failed: {count} tests failed, and at most {MOST_RERUNS} run again."]
    outcomes = [
        f"  {name}: failed, then {'passed alone' if second == 0 else 'failed again alone'}"
        for name, second in zip(failures.names, again, strict=True)
    ]
    if any(again):
        return 1, ["The processes gate failed. These tests ran again:", *outcomes]
    if outcomes:
        return 0, ["The processes gate passed. These tests ran again, and have a fault to be found:", *outcomes]
    return int(code), [f"The processes gate {'failed' if code else 'passed'}: {failures.passed} tests, none ran again."]


def main(arguments: Sequence[str]) -> int:
    """Run the gate with more arguments for pytest; returns its exit code."""
    failures = Failures()
    code = pytest.main(["--gate=processes", "--thorough", *arguments], plugins=[failures])
    again = []
    if 0 < len(failures.names) <= MOST_RERUNS and not failures.uncollected:
        for name in failures.names:
            print(f"\nRunning again, alone: {name}", flush=True)
            again.append(subprocess.run([sys.executable, "-m", "pytest", "--thorough", name]).returncode)
    ended, lines = verdict(failures, code, again)
    print("", *lines, sep="\n", flush=True)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
