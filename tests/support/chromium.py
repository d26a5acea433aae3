"""A real browser for tests of pages: Chromium, started once a session."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.gates import Gate

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
"""Chromium as root, in a machine without a screen and without the internet."""

_ADDRESS = re.compile(r"DevTools listening on (ws://\S+)\n")
_RUNNING = "IMQ_TEST_CHROMIUM"
"""The address of the session's Chromium, for worker processes."""
_KEPT = pytest.StashKey[ExitStack]()


def chromium() -> str | None:
    """Where Chromium is, as Debian and others install it; None if it is missing."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium_process(executable: str, profile: Path) -> Iterator[str]:
    """Start Chromium without a window; yield the address at which playwright drives it."""
    words = profile.with_name(f"{profile.name}.log")  # A pipe that nobody reads would fill up, and block Chromium.
    with words.open("wb") as log:
        process = subprocess.Popen(
            [executable, "--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}", *OPTIONS],
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield _address(process, words)
    finally:
        process.kill()
        process.wait()
        words.unlink()


def _address(process: "subprocess.Popen[bytes]", words: Path) -> str:
    """Return where Chromium listens, once its log says that."""
    ended = False
    while (found := _ADDRESS.search(words.read_text(errors="replace"))) is None:
        assert not ended, f"Chromium ended before it listened: {words.read_text(errors='replace')}"
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            ended = True
    return found[1]


def pytest_before_workers(config: pytest.Config) -> None:
    """Start one Chromium for all worker processes of the processes gate."""
    executable = chromium()
    if config.option.gate is Gate.PROCESSES and executable is not None:
        stack = config.stash[_KEPT] = ExitStack()
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        os.environ[_RUNNING] = stack.enter_context(chromium_process(executable, Path(profile)))
        stack.callback(os.environ.pop, _RUNNING)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop it after the last worker."""
    if _KEPT in config.stash:
        config.stash[_KEPT].close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running Chromium."""
    executable = chromium()
    if executable is None:
        pytest.skip("there is no Chromium: install Debian's package chromium")
    if _RUNNING in os.environ:
        yield os.environ[_RUNNING]
    else:
        with chromium_process(executable, tmp_path_factory.mktemp("chromium")) as address:
            yield address
