"""A company's size, in virtual time: a thousand pull requests labelled at once, and a first sweep over as many
repositories.
"""

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.merging import imq
from benchmarks.sizes import Size
from benchmarks.stage import Stage
from benchmarks.table import Row
from github_emulator import Limits, PullRequestHandle
from queue_engine.domain.facts import OWN_CHECK
from queue_engine.handlers.reconciler import FEW
from tests.acceptance.project import FILES
from tests.acceptance.starting import SharedClock

_CI = timedelta(minutes=3)
_LATENCY = timedelta(seconds=0.15)
_WORDS_GOAL = timedelta(minutes=5)
_SWEEP_GOAL = timedelta(minutes=3)
_ANSWER_GOAL = timedelta(seconds=2)
_REQUESTS_EACH = 1.5
_LISTS = 20
"""Requests of a sweep beside those for each repository: installations, repositories, deliveries, a person's label."""
_WITH_LABELS = 6
"""Further requests for each of the few repositories whose labels a sweep creates."""
_ONE_IN = 50
"""Of so many repositories one has a pull request with the trigger label, of which no webhook came."""
_QUEUED = 16
"""Requests for such a pull request, from the read of its consent to its comment."""
_CROWD = 50
"""Pull requests opened in one instant: of thousands of deliveries at once many would be lost."""
_APART = timedelta(milliseconds=10)
"""Between two labels of a crowd: GitHub sends a thousand deliveries within ten seconds, and not in one instant."""
_AFTER = timedelta(seconds=20)
"""When a person sets a label after the sweep began."""
_ORDINARY = "dependencies"
"""A label that each repository has on a pull request, as bots for updates set it, and that asks nothing of IMQ."""
_LIST = "GET /repos/{owner}/{repo}/pulls"


def has_word(pull: PullRequestHandle) -> bool:
    """Whether people can see anything of IMQ's on a pull request."""
    return any("<!-- imq:" in comment.body for comment in pull.comments) or any(
        run.name == OWN_CHECK for run in pull.check_runs
    )


def strict(limits: Limits) -> None:
    """Read GitHub's limits in the strictest way: all endpoints share the points of a minute."""
    limits.points_together = True


async def words_row(size: Size, seed: int) -> list[Row]:
    """From the labels to the last first word."""
    count = size.of(1_000, 100, 4)
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI, settings={"IMQ_MAX_QUEUE_DEPTH": "0"}) as queue:
            pulls: list[PullRequestHandle] = []
            while len(pulls) < count:
                pulls += [queue.stage.open(f"add-{len(pulls) + number}") for number in range(min(_CROWD, count))]
                await queue.time.settle()
            await queue.time.until(lambda: all(run.conclusion for pull in pulls for run in pull.check_runs))
            await queue.time.settle()
            strict(queue.stage.server.limits)
            queue.stage.server.latency = _LATENCY
            start = queue.clock.now()
            for number, pull in enumerate(pulls):
                queue.stage.github.schedule.after(number * _APART, partial(queue.ask, pull))
            await queue.time.until(lambda: all(map(has_word, pulls)))
            value = queue.clock.now() - start
            await queue.time.until(lambda: sum(pull.merged for pull in pulls) >= 2)
            second, refused = queue.clock.now() - start, len(queue.stage.server.limits.violations)
    return [
        Row(
            name="words",
            what=f"a visible word on each of {count} pull requests labelled at once",
            measured=f"{value.total_seconds():.0f} s; the second merge after {second.total_seconds():.0f} s; "
            f"{refused} requests refused",
            value=value.total_seconds(),
            goal=f"at most {_WORDS_GOAL.total_seconds():.0f} s, none refused",
            met=value <= _WORDS_GOAL and not refused,
            note="exact in virtual time, API 0.15 s, CI 180 s",
        )
    ]


async def sweep_row(size: Size, seed: int) -> list[Row]:
    """From the start of IMQ to the last repository's list, and a label that somebody sets meanwhile."""
    count, each = size.of((1_000, 10), (200, 2), (3, 1))
    pulls: list[PullRequestHandle] = []
    labeled: list[PullRequestHandle] = []

    def prepare(stage: Stage) -> None:
        for number in range(count):
            repository = stage.github.create_repository(
                f"acme/part-{number}", files=FILES, collaborators={"mona": "write"}, private=True
            )
            names = [f"add-{pull}" for pull in range(each)]
            pulls.extend(
                repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": "new\n"})
                for name in names
            )
            pulls[-1].label(_ORDINARY, by="mona")
            if number % _ONE_IN == 0:
                labeled.append(pulls[-1])
        # A label set in the instant of the push would be no proof of consent.
        clock = cast(SharedClock, stage.github.schedule.clock)
        clock.set(clock.now() + timedelta(minutes=1))
        for pull in labeled:
            stage.label(pull)
        strict(stage.server.limits)
        stage.server.latency = _LATENCY

    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI, prepare=prepare) as queue:
            start, pull = queue.clock.now(), queue.stage.open("mine")
            queue.stage.github.schedule.after(_AFTER, lambda: queue.ask(pull))
            await queue.time.until(lambda: has_word(pull))
            answer = max(queue.clock.now() - start - _AFTER, timedelta(0))
            await queue.time.until(lambda: _listed(queue.stage, pulls) == count and all(map(has_word, labeled)))
            value, requests = queue.clock.now() - start, len(queue.stage.server.requests)
            refused = len(queue.stage.server.limits.violations)
    return [
        Row(
            name="first-sweep",
            what=f"the first sweep over {count} repositories with {each} open pull requests each",
            measured=f"{value.total_seconds():.0f} s, {requests} requests, a label answered in "
            f"{answer.total_seconds():.1f} s; {refused} requests refused",
            value=value.total_seconds(),
            goal=f"at most {_SWEEP_GOAL.total_seconds():.0f} s, {_REQUESTS_EACH} requests each, an answer in "
            f"{_ANSWER_GOAL.total_seconds():.0f} s",
            met=value <= _SWEEP_GOAL
            and requests <= max(_REQUESTS_EACH * count, count + _WITH_LABELS * FEW + _LISTS + _QUEUED * len(labeled))
            and answer <= _ANSWER_GOAL
            and not refused,
            note="exact in virtual time, API 0.15 s",
        )
    ]


def _listed(stage: Stage, pulls: Sequence[PullRequestHandle]) -> int:
    """Return how many of the repositories with these pull requests were listed."""
    asked = {request.path for request in stage.server.requests if request.template == _LIST}
    repositories = {pull.record.repository.full_name for pull in pulls}
    return sum(f"/repos/{name}/pulls" in asked for name in repositories)


async def company_rows(size: Size, seed: int) -> list[Row]:
    """Both."""
    return [*await words_row(size, seed), *await sweep_row(size, seed)]
