"""What every test may use, and the rule that with `IMQ_TEST_NO_SKIPS` set a skip is a failure."""

import gc
import os
import shutil
from collections.abc import Generator

import pytest
import structlog
from aiohttp import web_app
from hypothesis import HealthCheck, settings

MEMORY = "/dev/shm"
"""Where Linux keeps files in memory. The worlds' git writes ten thousand small ones, and SQLite waits for its disk."""

if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 2**31:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# What a test leaves behind is little to a machine that runs tests, and what collecting them makes stays: to look for
# garbage as often as Python does took a tenth of all time.
gc.set_threshold(100_000, 50, 100)

# No test fails because the machine is busy, and whether a change may land does not depend on chance. `make long` looks
# for new examples.
settings.register_profile(
    "same", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fresh" if os.environ.get("IMQ_TEST_FRESH") else "same")

# The traceback that structlog draws where `rich` is there shows every local variable, and takes up to a second each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

pytest_plugins = [
    "tests.support.gates",
    "tests.support.workers",
    "tests.support.databases",
    "tests.support.chromium",
    "tests.support.private_postgres",
    "tests.acceptance.template",
]


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes that tests start find the projects of this clone as the tests do."""
    paths = [str(path) for path in config.getini("pythonpath")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Release the test's web applications.

    Each holds a whole bot with its database. The library aiohttp remembers the handlers of the last 1,024 routes for
    ever: a process that ran a thousand tests grew by a gigabyte.
    """
    web_app._cached_build_middleware.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that was skipped, in its body or by a fixture."""
    report = yield
    if not hasattr(report, "wasxfail"):
        refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that was skipped as a whole."""
    report = yield
    refuse_skip(report)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a skip a failure where skips count."""
    if report.skipped and os.environ.get("IMQ_TEST_NO_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skipped although IMQ_TEST_NO_SKIPS is set: {report.longrepr}"
