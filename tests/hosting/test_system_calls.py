"""The system calls that the systemd unit permits are all that IMQ makes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosting.platform_files import unit
from tests.process.processes import a_theatre

pytestmark = [pytest.mark.long]

AS_ROOT = {"fchown"}
"""What SQLite calls only for root, as whom this test may run; the unit's account is another."""


def members(group: str) -> set[str]:
    """The system calls of one of systemd's groups, those of the groups within it included."""
    lines = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], check=True, capture_output=True, text=True
    ).stdout.split("\n")[1:]
    found: set[str] = set()
    for name in (line.strip() for line in lines):
        if name and not name.startswith("#"):
            found |= members(name) if name.startswith("@") else {name}
    return found


def permitted() -> set[str]:
    """What the unit's filter lets pass."""
    (kept, left_out) = unit()["SystemCallFilter"]
    removed = [members(group) for group in left_out.removeprefix("~").split()]
    return members(kept).difference(*removed)


async def test_system_calls_up_to_a_merge_are_permitted_by_the_unit(tmp_path: Path) -> None:
    """A library that needs another one would fail there, with an error that names no cause."""
    for name in ("strace", "systemd-analyze"):
        if shutil.which(name) is None:
            pytest.skip(f"no {name}: install Debian's package")
    calls = tmp_path / "calls"
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.python = ("strace", "-D", "-f", "-qq", "-e", "signal=none", "-o", str(calls), sys.executable)
        await theatre.start()
        files = {"b.md": "b\n"}
        pull = theatre.repository.open_pull_request("A change", head="change", files=files, by="mona")
        pull.label("merge-queue", by="mona")
        await theatre.until(lambda: pull.merged)
        assert await theatre.stop() == 0
    made = set(re.findall(r"^\d+ +(\w+)\(", calls.read_text(), re.MULTILINE))
    assert {"execve", "accept4", "clone3"} <= made
    assert made - permitted() - AS_ROOT == set()
