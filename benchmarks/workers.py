"""How many pull requests one, two and four worker processes land in a second, on one PostgreSQL."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.footprint import owned, queued
from benchmarks.reaction import DEFAULTS
from benchmarks.sizes import Size, postgres_url
from benchmarks.table import Row
from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate
from tests.acceptance.template import Forked, Template
from tests.acceptance.world import LABEL
from tests.process.processes import Theatre, a_theatre

_COUNTS = (1, 2, 4)
_LATENCY = timedelta(milliseconds=200)
_PATIENCE_SECONDS = 600.0
_MOST_CPU = 1.15
_BASES = ("main", "release", "legacy")


@dataclass(frozen=True, slots=True)
class Throughput:
    """What so many workers did."""

    workers: int
    merges: int
    seconds: float
    used: dict[str, float]
    """Seconds of processor time, by kind of process; those of PostgreSQL are not counted."""

    @property
    def rate(self) -> float:
        """Merges in a second."""
        return self.merges / self.seconds

    @property
    def cpu(self) -> float:
        """Seconds of processor time for a merge, of the workers and of the web."""
        return (self.used["workers"] + self.used["web"]) / self.merges


async def workers_rows(size: Size, seed: int) -> list[Row]:
    """A row for each number of workers, with its rate beside that of one worker in the same run."""
    owners, each, counts = size.of((8, 2, _COUNTS), (2, 1, _COUNTS), (1, 1, _COUNTS[:1]))
    latency = size.of(_LATENCY, _LATENCY, timedelta(0))
    measured = []
    for count in counts:
        # A database and a GitHub of its own for each, since what landed stays in both.
        with tempfile.TemporaryDirectory() as name, postgres_url(size, Path(name)) as url:
            if url is None:
                return [Row("workers", "throughput of workers", "not measured: no PostgreSQL here", None, "", None)]
            measured.append(await throughput(url, Path(name), count, owners, each, latency))
    return [_row(one, measured[0]) for one in measured]


def _row(one: Throughput, alone: Throughput) -> Row:
    used = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in one.used.items())
    ratio, cpu = one.rate / alone.rate, one.cpu / alone.cpu
    return Row(
        name=f"workers {one.workers}",
        what=f"merges with {one.workers} worker(s) and one web on PostgreSQL, GitHub answers in "
        f"{_LATENCY / timedelta(milliseconds=1):.0f} ms",
        measured=f"{one.rate:.2f}/s ({one.merges} merges in {one.seconds:.1f} s), {ratio:.2f} x one worker; "
        f"{one.cpu:.2f} s of processor time for a merge, {cpu:.2f} x one worker",
        value=cpu,
        goal=f"processor time at most {_MOST_CPU} x one worker's",
        met=cpu <= _MOST_CPU,
        note=f"processor time: {used}; the emulator has one process, which shares {os.cpu_count()} processors with all "
        "others, so that more workers gain only what one waits for GitHub",
    )


async def throughput(url: str, directory: Path, count: int, owners: int, each: int, latency: timedelta) -> Throughput:
    """Land `each` pull requests in each of three queues of so many owners; measure after a first one."""
    database = Database(url)
    await migrate(database)
    await database.close()
    async with a_theatre(url, directory) as theatre:
        theatre.environment |= DEFAULTS | {"IMQ_MAX_QUEUE_DEPTH": "0"}
        repositories = [owned(theatre, f"owner-{number}", bases=_BASES) for number in range(owners)]
        theatre.server.latency = latency
        async with _processes(theatre, count) as (web, workers):

            async def land(numbers: range) -> list[Any]:
                pulls = [
                    queued(repository, _BASES.index(base) * (1 + each) + number, base=base)
                    for number in numbers
                    for base in _BASES
                    for repository in repositories
                ]
                # One worker sends its words after its merges: without them it would seem to do less.
                await theatre.until(lambda: all(map(_is_reported, pulls)))
                return pulls

            await land(range(1))  # The first merge of a process costs it about a second, once.
            before = [_used(pid) for pid in (web, *workers)]
            begun, ran = time.perf_counter(), time.process_time()
            pulls = await land(range(1, 1 + each))
            seconds, emulator = time.perf_counter() - begun, time.process_time() - ran
            web_used, *workers_used = [_used(pid) - since for pid, since in zip((web, *workers), before, strict=True)]
    used = {"workers": sum(workers_used), "web": web_used, "github_emulator": emulator}
    return Throughput(count, len(pulls), seconds, used)


@asynccontextmanager
async def _processes(theatre: Theatre, workers: int) -> AsyncIterator[tuple[int, list[int]]]:
    """A web and its workers, ready; their process ids."""
    template = Template()
    made: list[Forked] = []
    try:
        for command in ("web", *["worker"] * workers):
            made += [await template.fork(theatre.environment, theatre.log, command)]
        await _ready(theatre)
        yield made[0].pid, [each.pid for each in made[1:]]
    finally:
        for each in made:
            each.send_signal(signal.SIGKILL)
        await template.close()


async def _ready(theatre: Theatre) -> None:
    """Return when the web answers, and by then the workers, which start in less time, wait for work."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{theatre.port}/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)


def _is_reported(pull: Any) -> bool:
    """Whether a pull request landed, its label is off, and its comment says so."""
    return pull.merged and LABEL not in pull.labels and any("Landed on" in each.body for each in pull.comments)


def _used(pid: int) -> float:
    """Seconds for which a process ran."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
