"""Chromium writes to a file: nothing blocks it, and a start that fails shows them."""

import time
from pathlib import Path

import pytest

from tests.support.chromium import chromium_process
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


def _program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o755)
    return str(path)


def test_chromium_that_says_much_is_not_blocked(tmp_path: Path) -> None:
    """A pipe holds 64 kB."""
    written = tmp_path / "written"
    lines = (
        "echo DevTools listening on ws://here >&2",
        "head -c 300000 /dev/zero >&2",
        f"touch {written}",
        "exec sleep 60",
    )
    with chromium_process(_program(tmp_path / "chromium", *lines), tmp_path / "profile") as address:
        assert address == "ws://here"
        end = time.monotonic() + LIMIT
        while not written.exists():
            assert time.monotonic() < end
            time.sleep(0.01)  # no-sleep-ok: a real process lives in real time


def test_chromium_that_ends_at_its_start_says_why(tmp_path: Path) -> None:
    executable = _program(tmp_path / "chromium", "echo no such display >&2", "exit 1")
    with (
        pytest.raises(AssertionError, match="no such display"),
        chromium_process(executable, tmp_path / "profile"),
    ):
        pass
