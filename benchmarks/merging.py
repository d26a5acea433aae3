"""What a merge costs: requests to GitHub per merged pull request, and time beyond the pure CI time (virtual time).

Sweeps ask at fixed intervals, whatever is merged: what they ask is counted apart, by the hour.
"""

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType

from benchmarks.pollers import Poller
from benchmarks.sizes import Size
from benchmarks.stage import Stage, a_stage
from benchmarks.table import Row
from benchmarks.virtual import VirtualTime, client_of_bot, client_of_poller, virtual_time
from github_emulator import PullRequestHandle
from tests.acceptance.starting import SharedClock, lay_out, start_bot
from tests.support.in_place import statements_in_place

_CI = timedelta(seconds=20)
_LATENCY = timedelta(seconds=0.1)
_OVERHEAD = 1.05
_MOST_REQUESTS = 12
_FIRST_READS = 6
"""Rules and configuration of a repository, which the first merge reads."""
_OWN_CHECKS = "query OwnCheckRuns"
_SWEEPS = frozenset(
    {
        "GET /app/hook/deliveries",
        "GET /app/installations",
        "GET /installation/repositories",
        "GET /repos/{owner}/{repo}/issues",
        "GET /repos/{owner}/{repo}/issues/comments",
        "GET /repos/{owner}/{repo}/pulls",
        "POST /app/installations/{installation_id}/access_tokens",
        _OWN_CHECKS,
    }
)
"""What sweeps ask and no merge does: lost deliveries, installations, repositories, lists of pull requests, comments.
Tokens are renewed each hour, by the App's own limit and not the installation's.
No pull request here has its branch deleted, which would need a list as well."""
_KODIAK = {"ready": 13, "60 s": 66, "180 s": 155, "100 idle": 60}
"""Requests per merge of Kodiak itself, as measured once on a stand of its own."""


@dataclass(slots=True)
class Queue:
    """A merge queue under virtual time: how it is asked, and what it has cost so far."""

    stage: Stage
    clock: SharedClock
    time: VirtualTime
    ask: Callable[[PullRequestHandle], None]
    spent: Callable[[], Counter[str]]
    """Requests so far, by what they are."""


@asynccontextmanager
async def imq(
    directory: Path,
    ci_time: timedelta,
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
    prepare: Callable[[Stage], None] = lambda stage: None,
) -> AsyncIterator[Queue]:
    """IMQ with all its loops, and with these settings besides the stage's; `prepare` acts before its start."""
    clock = SharedClock()
    async with a_stage(directory, clock, ci_time=ci_time) as stage:
        environment = stage.environment(f"sqlite:///{directory / 'imq.db'}") | dict(settings)
        prepare(stage)
        await lay_out(directory / "imq.db")
        with statements_in_place():
            bot, runner = await start_bot(environment, clock)
            stage.app.webhook_url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
            try:
                async with virtual_time(stage, clock, client_of_bot(bot)) as time:
                    yield Queue(stage, clock, time, stage.label, partial(_asked, stage))
            finally:
                await runner.cleanup()
                await bot.close()


@asynccontextmanager
async def kodiak_like(directory: Path, ci_time: timedelta) -> AsyncIterator[Queue]:
    """The poller."""
    clock = SharedClock()
    async with a_stage(directory, clock, ci_time=ci_time) as stage, Poller(stage) as poller:

        def ask(pull: PullRequestHandle) -> None:
            stage.label(pull)
            poller.queue(pull.number, "main")

        async with virtual_time(stage, clock, client_of_poller(poller)) as time:
            yield Queue(stage, clock, time, ask, lambda: Counter({"any": poller.requests}))


def _asked(stage: Stage) -> Counter[str]:
    """Requests so far; the queries of sweeps by their name, others by their route."""
    return Counter(_OWN_CHECKS if _OWN_CHECKS in str(call.body) else call.template for call in stage.server.requests)


Make = Callable[[Path, timedelta], AbstractAsyncContextManager[Queue]]


async def requests_rows(size: Size, seed: int) -> list[Row]:
    """Requests per merged pull request: with CI done, with CI from short to long, queued at once, with idle neighbours.

    "Behind" are one at a time, on a base that has moved; "in a row" are queued at one instant.
    """
    merges, idle = size.of((10, 100), (2, 20), (1, 1))
    minute = timedelta(seconds=60)
    hourly = await sweeps_an_hour(idle)
    behind = partial(_one_by_one, behind=True)
    in_a_row = "ten in a row" if merges == 10 else f"{merges} in a row"
    plays: list[tuple[str, str, str, timedelta, Play, int]] = [
        ("ready", "CI done, up to date", "ready", minute, _one_by_one, 0),
        *[(f"{s} s", f"behind, CI {s} s", f"{s} s", timedelta(seconds=s), behind, 0) for s in (20, 60, 180, 600)],
        (in_a_row, f"{in_a_row}, CI 60 s", in_a_row, minute, _behind, 0),
        ("idle", f"{in_a_row}, CI 60 s, {idle} idle", f"{idle} idle", minute, _behind, idle),
    ]
    rows = [
        await _requests_row(f"requests {name}", what, key, ci_time, merges, play, others)
        for name, what, key, ci_time, play, others in size.of(plays, plays, [plays[1], plays[-1]])
    ]
    sweeps = (hourly - without_sweeps(hourly)).total()
    swept = f"; sweeps add {sweeps} requests an hour, whatever is merged"
    return [replace(row, note=row.note + swept) for row in rows]


async def sweeps_an_hour(idle: int) -> Counter[str]:
    """What IMQ asks of GitHub in an hour in which so many open pull requests are left alone; a token among it."""
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI) as queue:
            for number in range(idle):
                queue.stage.open(f"idle-{number}")
            await queue.time.settle()
            before = queue.spent()
            end = queue.clock.now() + timedelta(hours=1)
            while queue.clock.now() < end:
                await queue.time.settle()
            return queue.spent() - before


async def ten_row(size: Size, seed: int) -> list[Row]:
    """Pull requests that are queued behind each other at one instant: from the first label to the last merge."""
    count = size.of(10, 3, 2)
    ours, theirs = [await queued_at_once(make, count) for make in (imq, kodiak_like)]
    pure = _CI * (count - 1)
    value, reference = ours / pure, theirs / pure
    return [
        Row(
            name="ten behind each other",
            what=f"{count} pull requests behind each other, CI 20 s, API 0.1 s: wall / pure CI time",
            measured=f"{value:.3f} x ({ours.total_seconds():.1f} s, n=1, exact in virtual time)",
            value=value,
            goal=f"at most {_OVERHEAD} x",
            met=value <= _OVERHEAD,
            reference=f"poller {reference:.2f} x ({theirs.total_seconds():.0f} s)",
            reference_value=reference,
            note=f"pure CI time {pure.total_seconds():.0f} s (the first one is green already); Kodiak itself 1.5 x",
        )
    ]


async def _requests_row(
    name: str, what: str, key: str, ci_time: timedelta, merges: int, play: "Play", idle: int
) -> Row:
    ours, theirs = [await _cost(make, play, ci_time, merges, idle) for make in (imq, kodiak_like)]
    value, reference = ours.total() / merges, theirs.total() / merges
    goal = _MOST_REQUESTS + (0 if merges >= _FIRST_READS else _FIRST_READS / merges)
    known = f"; Kodiak itself {_KODIAK[key]}" if key in _KODIAK else ""
    return Row(
        name=name,
        what=f"requests per merged pull request: {what}",
        measured=f"{value:.1f} (mean of {merges} merges, virtual time)",
        value=value,
        goal=f"at most {goal:g}",
        met=value <= goal,
        reference=f"poller {reference:.1f}{known}",
        reference_value=reference,
        note=", ".join(f"{count / merges:.3g} {template}" for template, count in ours.most_common()),
    )


async def _cost(make: Make, play: "Play", ci_time: timedelta, merges: int, idle: int) -> Counter[str]:
    """What is sent to GitHub from the first label until the last word after the last merge, but for sweeps."""
    with tempfile.TemporaryDirectory() as directory:
        async with make(Path(directory), ci_time) as queue:
            for number in range(idle):
                queue.stage.open(f"idle-{number}")
            await queue.time.settle()
            return without_sweeps(await play(queue, ci_time, merges))


def without_sweeps(spent: Counter[str]) -> Counter[str]:
    """What of these requests was asked for the sake of a pull request."""
    return Counter({template: count for template, count in spent.items() if template not in _SWEEPS})


async def _one_by_one(queue: Queue, ci_time: timedelta, merges: int, *, behind: bool = False) -> Counter[str]:
    spent: Counter[str] = Counter()
    for number in range(merges):
        pull = queue.stage.open(f"change-{number}")
        await _green(queue, [pull])
        if behind:
            queue.stage.repository.push("main", {f"moved-{number}.py": "moved\n"}, "Move", by="rhea")
            await queue.time.settle()
        before = queue.spent()
        queue.ask(pull)
        await _merged(queue, [pull])
        await queue.time.settle()
        spent += queue.spent() - before
    return spent


async def _behind(queue: Queue, ci_time: timedelta, merges: int) -> Counter[str]:
    pulls = [queue.stage.open(f"change-{number}") for number in range(merges)]
    await _green(queue, pulls)
    queue.stage.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await queue.time.settle()
    before = queue.spent()
    for pull in pulls:
        queue.ask(pull)
    await _merged(queue, pulls)
    await queue.time.settle()
    return queue.spent() - before


Play = Callable[[Queue, timedelta, int], Awaitable[Counter[str]]]


async def queued_at_once(make: Make, count: int) -> timedelta:
    with tempfile.TemporaryDirectory() as directory:
        async with make(Path(directory), _CI) as queue:
            pulls = [queue.stage.open(f"change-{number}") for number in range(count)]
            await _green(queue, pulls)
            await queue.time.settle()
            queue.stage.server.latency = _LATENCY
            start = queue.clock.now()
            for pull in pulls:
                queue.ask(pull)
            await _merged(queue, pulls)
            return queue.clock.now() - start


async def _green(queue: Queue, pulls: Sequence[PullRequestHandle]) -> None:
    await queue.time.until(lambda: all(any(run.conclusion == "success" for run in pull.check_runs) for pull in pulls))


async def _merged(queue: Queue, pulls: Sequence[PullRequestHandle]) -> None:
    await queue.time.until(lambda: all(pull.merged for pull in pulls))
