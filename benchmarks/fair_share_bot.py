"""People's time in queue beside fifty agents, through the whole bot on the emulator (virtual time).

People queue pull requests at the instants of `benchmarks.fair_share`, and each agent always has one in the queue. Every
landing takes one CI run on top of the landing before. The simulation of the same instants stands beside the result.
"""

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.fair_share import AGENTS, HIGH_LOAD, LANDING, arrivals, p95, waits
from benchmarks.merging import Queue, imq
from benchmarks.sizes import Size
from benchmarks.table import Row
from github_emulator import PullRequestHandle
from queue_engine.config.model import Policy

_PEOPLE = 20
_SETTINGS = {"IMQ_MAX_QUEUE_DEPTH": "0", "IMQ_INTERVAL_SECONDS": "600", "IMQ_SWEEP_SECONDS": "7200"}
_WITHIN = timedelta(days=2)
_WITHIN_SHARE = 0.05

Arrivals = Sequence[tuple[int, str]]


async def fair_share_bot_row(size: Size, seed: int) -> list[Row]:
    """By how much fifty agents raise people's p95 through the whole bot, against the simulation of the same arrivals.

    So few pull requests say little about the ratio itself, which is 1.0 to 1.8 by the seed: `benchmarks.fair_share`
    has thousands. This row says whether the bot lands them as the simulation does.
    """
    landings, agents = size.of((40, AGENTS), (6, 5), (1, 1))
    by_people = arrivals(Random(seed), people=_PEOPLE, landings=landings, load=HIGH_LOAD)
    alone, beside = [p95(await waits_through_bot(by_people, agents=each)) for each in (0, agents)]
    ratio = beside / alone
    alone_simulated, beside_simulated = [p95(waits(by_people, agents=each, policy=Policy())) for each in (0, agents)]
    simulated = beside_simulated / alone_simulated
    return [
        Row(
            f"fair share bot, load {HIGH_LOAD:.0%}",
            f"people's p95 in a queue with {agents} agents, to that without, through the whole bot",
            f"{ratio:.2f} x ({landings} pull requests of people, virtual time)",
            ratio,
            f"as in the simulation, within {_WITHIN_SHARE:.0%}",
            abs(ratio / simulated - 1) <= _WITHIN_SHARE,
            f"simulation of the same arrivals: {simulated:.2f} x",
            simulated,
            f"p95 {beside / 60:.0f} min beside agents, {alone / 60:.0f} min without; landings of {LANDING}",
        )
    ]


async def waits_through_bot(by_people: Arrivals, *, agents: int) -> list[timedelta]:
    """Return the time from label to merge of each pull request of a person."""
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), LANDING, settings=_SETTINGS) as queue:
            _create_users(queue, by_people, agents)
            at_work = [_queued(queue, _agent(number), f"agent-{number}-0") for number in range(agents)]
            await queue.time.settle()
            start = queue.clock.now()
            people: list[PullRequestHandle] = []

            def join(number: int, author: str) -> None:
                people.append(_queued(queue, author, f"change-{number}"))

            for number, (after, author) in enumerate(by_people):
                at = start + timedelta(milliseconds=after)
                queue.stage.github.schedule.at(at, partial(join, number, author), name="a person queues")
            await _land(queue, people, at_work, len(by_people))
            return [
                each.record.merged_at - start - timedelta(milliseconds=after)
                for each, (after, _) in zip(people, by_people, strict=True)
                if each.record.merged_at is not None
            ]


async def _land(queue: Queue, people: list[PullRequestHandle], at_work: list[PullRequestHandle], count: int) -> None:
    """Let time pass until all of people's have landed; an agent whose pull request landed queues the next one."""
    made = 0
    while sum(each.merged for each in people) < count:
        await queue.time.until(
            lambda: any(each.merged for each in at_work) or sum(each.merged for each in people) == count,
            within=_WITHIN,
        )
        for number, pull in enumerate(at_work):
            if pull.merged:
                made += 1
                at_work[number] = _queued(queue, _agent(number), f"agent-{number}-{made}")


def _create_users(queue: Queue, by_people: Arrivals, agents: int) -> None:
    handle = queue.stage.repository
    for number in range(agents):
        queue.stage.github.create_user(_agent(number), kind="Bot")
        handle.record.collaborators[_agent(number)] = "write"
    for author in sorted({author for _, author in by_people}):
        queue.stage.github.create_user(author)
        handle.record.collaborators[author] = "write"


def _queued(queue: Queue, author: str, name: str) -> PullRequestHandle:
    """Open a pull request and queue it at the same instant, so that its landing takes one CI run."""
    pull = queue.stage.repository.open_pull_request(name, head=name, by=author, files={f"{name}.py": f"{name}\n"})
    queue.ask(pull)
    return pull


def _agent(number: int) -> str:
    return f"agent-{number}[bot]"
