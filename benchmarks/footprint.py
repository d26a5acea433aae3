"""What one process takes: memory after a hundred merges, and time from its start until it is ready."""

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.reaction import DEFAULTS
from benchmarks.sizes import Size, database_urls
from benchmarks.table import Row, timed
from github_emulator import CISettings, RepositoryHandle
from tests.acceptance.project import FILES, total_at_most_ten
from tests.acceptance.world import LABEL
from tests.process.processes import CI_TIME, Theatre, a_theatre

_MOST_MEGABYTES = 130.0
_MOST_SECONDS = 2.0
_IN_FLIGHT = 2
"""Pull requests of an owner that wait at once."""


async def footprint_rows(size: Size, seed: int) -> list[Row]:
    """Memory on SQLite, and the start on each database."""
    memory = await memory_row(*size.of((5, 20), (2, 1), (1, 1)))
    with tempfile.TemporaryDirectory() as name, database_urls(size, Path(name)) as urls:
        return [memory, *[await start_row(url, size.of(7, 2, 1)) for url in urls]]


async def memory_row(owners: int, each: int) -> Row:
    """Memory of a process in which each owner's queue lands so many pull requests."""
    with tempfile.TemporaryDirectory() as name:
        before, after = await _memory(Path(name), owners, each)
    used = None if after is None else after["VmRSS"]
    return Row(
        name="memory",
        what=f"memory of one process after {owners * each} merges, SQLite",
        measured="not measured: no /proc here"
        if after is None or before is None
        else f"{after['VmRSS']:.0f} MB, at most {after['VmHWM']:.0f} MB; {before['VmRSS']:.0f} MB when it was ready",
        value=used,
        goal=f"< {_MOST_MEGABYTES:.0f} MB",
        met=None if used is None else used < _MOST_MEGABYTES,
        note=f"resident memory of `imq run` with default settings; {owners} owners with {each} pull requests each, of "
        f"which about {_IN_FLIGHT} wait at once. Memory follows the largest burst: if all are opened and labeled in "
        "one second, it is some 25 MB more, and stays flat then",
    )


Memory = dict[str, float] | None


async def _memory(directory: Path, owners: int, each: int) -> tuple[Memory, Memory]:
    async with a_theatre(f"sqlite:///{directory / 'imq.db'}", directory) as theatre:
        theatre.environment |= DEFAULTS
        repositories = [theatre.repository, *(owned(theatre, f"owner-{n}") for n in range(1, owners))]
        await theatre.start()  # It makes the tables, and keeps 12 MB more for that.
        await theatre.stop()
        await theatre.start()
        before = memory(theatre)
        pulls: list[Any] = []
        while len(pulls) < owners * each:
            number = len(pulls) // owners
            pulls += [queued(repository, number) for repository in repositories]
            most = _IN_FLIGHT if len(pulls) < owners * each else 0
            await theatre.until(partial(_wait_at_most, pulls, most * owners))
        return before, memory(theatre)


def _wait_at_most(pulls: Sequence[Any], count: int) -> bool:
    return sum(not pull.merged for pull in pulls) <= count


async def start_row(url: str, count: int) -> Row:
    """Time of so many starts on a database, after a first one that makes its tables."""
    kind = url.partition(":")[0]
    with tempfile.TemporaryDirectory() as name:
        async with a_theatre(url, Path(name)) as theatre:
            theatre.environment |= DEFAULTS
            first, *later = [await _start(theatre) for _ in range(count + 1)]
    walls, used = [wall for wall, _ in later], [cpu for _, cpu in later if cpu is not None]
    return Row(
        name=f"start {kind}",
        what=f"start of `imq run` until /readyz says that it is ready, {kind}",
        measured=timed(walls),
        value=median(walls),
        goal=f"< {_MOST_SECONDS:.0f} s",
        met=median(walls) < _MOST_SECONDS,
        note=f"the tables are there; the first start, which makes them, took {first[0]:.2f} s"
        + (f"; processor time of a start: median {median(used):.2f} s" if used else ""),
    )


async def _start(theatre: Theatre) -> tuple[float, float | None]:
    """Seconds until the process is ready, and seconds of processor time until then."""
    before = time.perf_counter()
    await theatre.start()
    took, used = time.perf_counter() - before, processor_seconds(theatre)
    await theatre.stop()
    return took, used


def owned(theatre: Theatre, owner: str, *, bases: tuple[str, ...] = ("main",)) -> RepositoryHandle:
    """A repository of another owner, with a check of its own, on which the App is installed.

    GitHub's limits hold for each installation, so that merges of several owners wait for no share of them.
    """
    handle: RepositoryHandle = theatre.github.create_repository(
        f"{owner}/widgets", files=FILES, collaborators={"mona": "write", "rhea": "admin"}
    )
    ci = handle.add_ci("ci/test", settings=CISettings(workflow="ci", duration=CI_TIME, judge=total_at_most_ten))
    for base in bases:
        if base != "main":
            handle.create_branch(base)
        handle.protect(base, required_checks=[("ci/test", ci.app.id)])
    app = next(each for each in theatre.github.state.apps.values() if each.slug == "imq")
    theatre.github.install(app, owner)
    return handle


def queued(repository: RepositoryHandle, number: int, *, base: str = "main") -> Any:
    """A labeled pull request that adds a file of its own."""
    files: dict[str, str | None] = {f"new{number}.py": f"{number}\n"}
    pull = repository.open_pull_request(f"Add {number}", head=f"add-{number}", base=base, by="mona", files=files)
    pull.label(LABEL, by="mona")
    return pull


def memory(theatre: Theatre) -> Memory:
    """Megabytes that the process has in memory (`VmRSS`), and has had at most (`VmHWM`); None if that is not known."""
    try:
        lines = Path(f"/proc/{_pid(theatre)}/status").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


def processor_seconds(theatre: Theatre) -> float | None:
    """Seconds for which the process ran, in user and system mode; None if that is not known."""
    try:
        fields = Path(f"/proc/{_pid(theatre)}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def _pid(theatre: Theatre) -> int:
    assert theatre.process is not None
    return theatre.process.pid
