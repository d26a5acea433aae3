"""A dependency bot that rebases all of its queued pull requests after each landing (virtual time).

The bot leaves alone what somebody else pushed to, as Dependabot and Renovate do: IMQ's update of the front is such a
push. People's pull requests come meanwhile. The same is measured with a bot that rebases nothing.
"""

import re
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.merging import Queue, imq, without_sweeps
from benchmarks.sizes import Size
from benchmarks.table import Row
from github_emulator import PullRequestHandle, RecordedCall

BOT = "dependabot[bot]"
_CI = timedelta(seconds=60)
_REBASED_AFTER = timedelta(seconds=20)
_MOST_REQUESTS = 15
_REPORTED_WITHIN = timedelta(seconds=10)
"""In this time after a landing all of it is reported, and the bot has not begun."""
_NAMED = re.compile(r"/(?:pulls|issues)/(\d+)(?:/|$)")
_FILE = f'on_push: {{requeue_for: ["{BOT}"]}}\n'


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took to land the pull requests of a bot, and those of people among them."""

    landed: int
    requests: int
    most: int
    """Requests for the pull request that cost most."""
    rebases: int
    waited: tuple[int, ...]
    """By each pull request of a person, how many others landed while it was queued."""


async def rebases_row(size: Size, seed: int) -> list[Row]:
    """Requests for each merge, and whether people wait for more landings than without rebases."""
    count, every = size.of((50, 5), (6, 5), (3, 1))
    rebased, alone = [await landed_all(count, every, rebasing=each) for each in (True, False)]
    each, without = rebased.requests / rebased.landed, alone.requests / alone.landed
    longest, usual = max(rebased.waited), max(alone.waited)
    return [
        Row(
            "rebases",
            f"requests per merged pull request: {count} of a bot that rebases them all after each landing",
            f"{rebased.most} at most, {each:.1f} in the mean of {rebased.landed} merges (virtual time)",
            float(rebased.most),
            f"at most {_MOST_REQUESTS} for each",
            rebased.most <= _MOST_REQUESTS,
            f"without rebases {alone.most} at most, {without:.1f} in the mean",
            float(alone.most),
            f"{rebased.rebases} rebases; all landed, CI {_CI.total_seconds():.0f} s",
        ),
        Row(
            "rebases people",
            "landings that a person's pull request waits for beside that bot, the longest wait",
            f"{longest} ({len(rebased.waited)} pull requests of people)",
            float(longest),
            "no more than without rebases",
            longest <= usual,
            f"without rebases {usual}",
            float(usual),
            "fair share gives each of them its place when it joins",
        ),
    ]


async def landed_all(count: int, every: int, *, rebasing: bool) -> Cost:
    """Land so many pull requests of the bot; after `every` so many landings a person queues one."""
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI) as queue:
            handle = queue.stage.repository
            queue.stage.github.create_user(BOT, kind="Bot")
            handle.record.collaborators[BOT] = "write"
            handle.push("main", {".github/imq.yml": _FILE}, "Configure", by="rhea")
            bumps = [_open(queue, f"bump-{number}", by=BOT) for number in range(count)]
            await queue.time.settle()
            calls = queue.stage.server.requests
            before = len(calls)
            for pull in bumps:
                queue.ask(pull)
            people, rebases = await _land(queue, bumps, every, rebasing=rebasing)
            await queue.time.settle()
            spent = [call for call in list(calls)[before:] if call.template in without_sweeps(queue.spent())]
            ordered = sorted((*bumps, *people), key=lambda each: str(each.record.merged_at))
            waited = tuple(ordered.index(pull) - (number + 1) * every for number, pull in enumerate(people))
            return Cost(len(ordered), len(spent), _most(spent, ordered), rebases, waited)


def _most(calls: Sequence[RecordedCall], landed: Sequence[PullRequestHandle]) -> int:
    """How many requests the pull request took for which IMQ sent most; `landed` are in the order of their landings.

    A request that names no pull request counts for the one that lands next, or that landed last: its check run is
    completed, and its comment written, in the seconds after.
    """
    ends = [pull.record.merged_at + _REPORTED_WITHIN for pull in landed if pull.record.merged_at is not None]
    spent = Counter(_number(call) or landed[min(bisect(ends, call.at), len(landed) - 1)].number for call in calls)
    return max(spent.values())


def _number(call: RecordedCall) -> int | None:
    """The pull request that a request names, in its path or in its query of GraphQL."""
    named = _NAMED.search(call.path)
    if named is not None:
        return int(named[1])
    variables = call.body.get("variables") if isinstance(call.body, dict) else None
    return variables.get("number") if isinstance(variables, dict) else None


async def _land(
    queue: Queue, bumps: Sequence[PullRequestHandle], every: int, *, rebasing: bool
) -> tuple[list[PullRequestHandle], int]:
    """Let all land; returns people's pull requests, and how often the bot rebased."""
    people: list[PullRequestHandle] = []
    landed = rebases = 0
    while landed < len(bumps) + len(people):
        await queue.time.until(lambda at_least=landed: _landed((*bumps, *people)) > at_least)  # type: ignore[misc]
        landed = _landed((*bumps, *people))
        if landed % every == 0 and _landed(bumps) < len(bumps):
            people.append(_open(queue, f"person-{len(people)}", by="mona"))
            queue.ask(people[-1])
        await _pass(queue, _REBASED_AFTER)
        for pull in bumps if rebasing else ():
            if not pull.merged and _is_own(queue, pull):
                name = pull.record.head_branch
                text = f"{name} {landed}\n"
                queue.stage.repository.force_push(name, {f"{name}.py": text}, onto="main", by=BOT)
                rebases += 1
    return people, rebases


def _is_own(queue: Queue, pull: PullRequestHandle) -> bool:
    """Whether the last commit of the branch is the bot's own."""
    return queue.stage.repository.log(pull.head_sha)[0].author.name == BOT


def _open(queue: Queue, name: str, *, by: str) -> PullRequestHandle:
    return queue.stage.repository.open_pull_request(name, head=name, by=by, files={f"{name}.py": f"{name}\n"})


def _landed(pulls: Sequence[PullRequestHandle]) -> int:
    return sum(pull.merged for pull in pulls)


async def _pass(queue: Queue, length: timedelta) -> None:
    end = queue.clock.now() + length
    queue.stage.github.schedule.at(end, lambda: None, name="the bot begins")
    await queue.time.until(lambda: queue.clock.now() >= end)
