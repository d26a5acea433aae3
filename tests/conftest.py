"""What every test may use, and the rule that with `IMQ_TEST_NO_SKIPS` set a skip is a failure."""

import gc
import os
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
import structlog
from aiohttp import web_app
from hypothesis import HealthCheck, settings

UNIT = Path(__file__).with_name("unit")
ACCEPTANCE = Path(__file__).with_name("acceptance")

PROMISES = "test_promises.py"
"""The module of tests/acceptance that is never sampled: a test for each promise."""

FIRST_TESTS = 3
"""How many tests of each other module `make test` runs; CI runs all."""

MEMORY = "/dev/shm"
"""Where Linux keeps files in memory. The worlds' git writes ten thousand small ones, and SQLite waits for its disk."""

if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 2**31:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# What a test leaves behind is little to a machine that runs tests, and what collecting them makes stays: to look for
# garbage as often as Python does took a tenth of all time.
gc.set_threshold(100_000, 50, 100)

# No test fails because the machine is busy. And whether a change may land must not depend on chance; at everybody's
# desk Hypothesis looks for new examples each time.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# The traceback that structlog draws where `rich` is there shows every local variable, and takes up to a second each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

pytest_plugins = ["tests.support.databases", "tests.support.private_postgres"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--thorough`, which CI sets."""
    parser.addoption("--thorough", action="store_true", help="run all tests, as CI does: a quarter of an hour more")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out thorough tests where they were not asked for, and put those that take long first.

    So none is left over at the end while other processes have nothing to do. What is loaded by now stays: the collector
    need not look through all of it again and again.
    """
    if not config.option.thorough:
        chosen = [item for item in items if not is_thorough(item)]
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            chosen = sample(chosen)
        left_out = set(items) - set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = chosen
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    gc.collect()
    gc.freeze()


def is_thorough(item: pytest.Item) -> bool:
    """Whether a test is marked `thorough`, for all of its parameters or for those that the mark names.

    The second database of a unit test counts as well. Every table has its tests in tests/store, on both databases.
    """
    parameters = item.callspec.id.split("-") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else []
    if "postgres" in parameters and item.path.is_relative_to(UNIT):
        return True
    return any(not mark.args or set(mark.args) & set(parameters) for mark in item.iter_markers("thorough"))


def sample(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Choose among the tests in tests/acceptance: each takes half a second of a processor, and there are 1,400.

    The first ones of a module tell what it is about. Of a test with several variants, the first and the last count.
    """
    modules: dict[Path, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if item.path.is_relative_to(ACCEPTANCE) and item.path.name != PROMISES:
            modules.setdefault(item.path, {}).setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = set[pytest.Item]()
    for of_module in modules.values():
        for place, variants in enumerate(of_module.values()):
            left_out.update(variants[1:-1] if place < FIRST_TESTS else variants)
    return [item for item in items if item not in left_out]


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
