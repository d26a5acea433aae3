"""How quickly deliveries are answered in a burst, and whether each that was answered is stored."""

import asyncio
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.reaction import DEFAULTS
from benchmarks.sizes import Size
from benchmarks.table import Row, percentile, seconds_text
from tests.acceptance.template import ROOT
from tests.process.processes import Theatre, a_theatre

_RATE = 500
"""Deliveries a second."""
_GOAL_SECONDS = 0.1
_GITHUB_GIVES_UP = 10.0
_SETTLE_SECONDS = 60.0
_STORED = {
    ("check_run", "completed"),
    ("check_suite", "completed"),
    ("pull_request", "synchronize"),
    ("pull_request", "closed"),
    ("push", None),
}
"""Deliveries that mean something to a queue, so that each must be stored before it is answered."""


async def burst_row(size: Size, seed: int) -> list[Row]:
    """The row: a bot on one core and SQLite, a sender on another."""
    rate, seconds, pulls = size.of((_RATE, 6.0, 40), (_RATE, 1.0, 40), (10**9, 10 / 10**9, 2))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        database = directory / "imq.db"
        async with a_theatre(f"sqlite:///{database}", directory) as theatre:
            theatre.environment |= DEFAULTS
            bodies = await _bodies(theatre, pulls)
            cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
            with _only_on(cores[:1]):
                await theatre.start()
            answers = await _send(theatre, bodies, rate, seconds, cores[-1:])
            worked_off = await _worked_off(theatre, database)
            stored = _column(database, "SELECT key FROM idempotency_keys")
    return [_row(answers, set(stored), rate, seconds, worked_off, len(cores))]


def _row(
    answers: dict[str, Any], stored: set[str], rate: int, seconds: float, worked_off: float | None, cores: int
) -> Row:
    times, sent = answers["times"], round(rate * seconds)
    p99 = percentile(times, 0.99)
    lost = len(set(answers["stored"]) - stored)
    unanswered = sent - sum(answers["statuses"].get(word, 0) for word in ("stored", "known", "ignored"))
    after = "not all" if worked_off is None else f"all {worked_off:.1f} s later"
    return Row(
        name="burst",
        what=f"webhook answers, {rate} deliveries/s for {seconds:.0f} s, bot on one core, SQLite",
        measured=f"p99 {seconds_text(p99)}, median {seconds_text(median(times))}, max {seconds_text(max(times))}, "
        f"{lost} lost, {unanswered} not taken (n={len(times)})",
        value=p99,
        goal=f"p99 < {_GOAL_SECONDS * 1000:.0f} ms, none lost",
        met=p99 < _GOAL_SECONDS and lost == unanswered == 0,
        reference=f"GitHub gives up at {_GITHUB_GIVES_UP:.0f} s",
        reference_value=_GITHUB_GIVES_UP,
        note=f"{cores} cores: the bot on the first, the sender on the last; open loop, timed from the instant each was "
        f"due; the sender was late by at most {seconds_text(answers['lag'])}; answers {answers['statuses']}; "
        f"their jobs were done: {after}",
    )


async def _bodies(theatre: Theatre, pulls: int) -> list[tuple[str, str]]:
    """What an emulator with some life in it sends: real payloads of the events that are stored."""
    theatre.repository.push("main", {"more.py": "more\n"}, "More", by="rhea")
    for number in range(pulls):
        pull = theatre.repository.open_pull_request(
            f"Add {number}", head=f"add-{number}", by="mona", files={f"new{number}.py": f"{number}\n"}
        )
        pull.push({f"more{number}.py": "more\n"}, by="mona")
        if number % 8 == 0:
            pull.close(by="mona")
    deliveries = theatre.github.state.deliveries
    await theatre.until(lambda: any(each.event == "check_suite" for each in deliveries))
    return [(each.event, each.payload) for each in deliveries if (each.event, each.action) in _STORED]


async def _send(
    theatre: Theatre, bodies: list[tuple[str, str]], rate: int, seconds: float, cores: list[int]
) -> dict[str, Any]:
    order = {
        "url": f"http://127.0.0.1:{theatre.port}/webhook",
        "secret": theatre.environment["IMQ_GITHUB_WEBHOOK_SECRET"],
        "rate": rate,
        "seconds": seconds,
        "bodies": bodies,
    }
    return await _sent(order, cores)


async def _sent(order: dict[str, Any], cores: list[int]) -> dict[str, Any]:
    """Send by a process of its own on these cores."""
    with _only_on(cores):
        sender = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.sender",
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    out, _ = await sender.communicate(json.dumps(order).encode())
    answers: dict[str, Any] = json.loads(out)
    return answers


async def _worked_off(theatre: Theatre, database: Path) -> float | None:
    """Seconds until every hint has been followed; None when that takes too long."""
    start, open_jobs = time.perf_counter(), "SELECT id FROM jobs WHERE kind = 'webhook' AND status != 'FAILED' LIMIT 1"
    try:
        async with asyncio.timeout(_SETTLE_SECONDS):
            await theatre.until(lambda: not _column(database, open_jobs))
    except TimeoutError:
        return None
    return time.perf_counter() - start


def _column(database: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [row[0] for row in connection.execute(query)]


@contextmanager
def _only_on(cores: list[int]) -> Iterator[None]:
    """Processes started meanwhile stay on these cores; all of them where the system has no affinity."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
