"""`--workers`: one process collects the tests and forks the workers that run them.

A worker takes one test after the other from those that no worker has begun, and sends its reports to the process that
collected. Nothing is collected twice, and what is imported lies in memory once.
"""

import os
from collections.abc import Mapping, Sequence
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

import pytest

_FORKS = get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of workers."""
    parser.addoption(
        "--workers",
        type=lambda number: (os.cpu_count() or 1) if number == "auto" else int(number),
        default=0,
        help="how many processes run the tests, 'auto' for one on each processor; this one alone, if none is named",
    )


class Before:
    """A hook of the harness."""

    @pytest.hookspec
    def pytest_before_workers(self, config: pytest.Config) -> None:
        """Start what all workers share, which learn of it by their environment."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook for what workers share."""
    pluginmanager.add_hookspecs(Before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers, if several were asked for."""
    config = session.config
    count = min(config.option.workers, len(session.items))
    if count == 0 or session.testsfailed or config.option.collectonly:
        return None
    config.hook.pytest_before_workers(config=config)
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.showfspath = False
    home = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    begun, workers = _FORKS.Value("i"), {}
    try:
        for number in range(count):
            sent, its = _FORKS.Pipe(duplex=False)
            workers[sent] = _FORKS.Process(target=_work, args=(session, home / f"worker{number}", begun, its))
            workers[sent].start()
            its.close()
        _report(session, workers, begun)
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.join()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


class _Sender:
    """A plugin of a worker that sends what happens to the process that collected."""

    def __init__(self, config: pytest.Config, to: connection.Connection) -> None:
        self._config, self._to = config, to

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        """A test begins, which a worker's death would leave without a report."""
        self._to.send((nodeid, location, None))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, its setup or its teardown ended."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._to.send((report.nodeid, report.location, data))


def _work(session: pytest.Session, home: Path, begun: Any, to: connection.Connection) -> None:
    """Run tests until each is begun. `begun` counts them, and all workers share it."""
    _separate(session.config, home)
    session.config.pluginmanager.register(_Sender(session.config, to))
    item = _next(session.items, begun)
    while item is not None:
        # The fixtures that the next test uses too stay.
        following = _next(session.items, begun)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    to.send(None)


def _next(items: Sequence[pytest.Item], begun: Any) -> pytest.Item | None:
    with begun.get_lock():
        begun.value += 1
        return items[begun.value - 1] if begun.value <= len(items) else None


def _separate(config: pytest.Config, home: Path) -> None:
    """Give a worker its own directory and its own files for what tests print; the terminal is the other process's."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    home.mkdir()
    config._tmp_path_factory._basetemp = home  # type: ignore[attr-defined]


def _report(session: pytest.Session, workers: Mapping[connection.Connection, Any], begun: Any) -> None:
    """Report what workers send until each has ended. The test in which a worker dies has failed, and so has the next.

    No other worker takes that one: the worker that died had begun it, too.
    """
    hook, working = session.config.hook, dict(workers)
    running: dict[connection.Connection, tuple[str, Any]] = {}
    unreported = {item.nodeid: item.location for item in session.items}
    while working:
        if session.shouldfail or session.shouldstop:
            begun.value = len(session.items)
        for sender in connection.wait(list(working)):
            assert isinstance(sender, connection.Connection)
            try:
                message = sender.recv()
            except EOFError:
                worker = working.pop(sender)
                worker.join()
                name, location = running.get(sender, ("a worker before its first test", ("", None, "")))
                _fail(session, name, location, f"The worker of this test ended with code {worker.exitcode}.")
                continue
            if message is None:
                working.pop(sender).join()
                continue
            name, location, data = message
            running[sender] = name, location
            unreported.pop(name, None)
            if data is not None:
                report = hook.pytest_report_from_serializable(config=session.config, data=data)
                hook.pytest_runtest_logreport(report=report)
    if not (session.shouldfail or session.shouldstop):
        for name, location in unreported.items():
            _fail(session, name, location, "No worker ran this test.")


def _fail(session: pytest.Session, name: str, location: Any, why: str) -> None:
    report = pytest.TestReport(name, location, {}, "failed", why, "call")
    session.config.hook.pytest_runtest_logreport(report=report)
