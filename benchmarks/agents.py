"""People's time in queue beside fifty agents with ten pull requests each, through the whole bot (virtual time).

The agents use the tools of `/mcp`, each with a token of its own; people set labels. An agent queues a pull request,
twice at times, and calls `wait`, for an hour each time, until it has left; then it queues the next one. Some of its
pull requests fail, a person dequeues others, and it changes its mind about some. Time moves only while all calls of
agents wait.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from benchmarks.fair_share import GOAL, LANDING, LOW_LOAD, arrivals, likely, p95, seconds, waits
from benchmarks.sizes import Size
from benchmarks.table import Row
from bot.api.waits import LONGEST_WAIT
from github_emulator import PullRequestHandle
from queue_engine.config.model import Policy
from queue_engine.domain.departure import ENDS
from tests.acceptance.callers import caller
from tests.acceptance.test_mcp import Agent
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.real_time import LIMIT

_PEOPLE = 20
_SETTINGS = {"IMQ_MAX_QUEUE_DEPTH": "0", "IMQ_INTERVAL_SECONDS": "600", "IMQ_SWEEP_SECONDS": "7200"}
_WITHIN = timedelta(days=9)
_WITHIN_SHARE = 0.05
_BLOCK = 10
"""So many pull requests of people in a row are drawn together for the interval: one that waits delays the next."""
_SOON = timedelta(seconds=1)
"""How late an agent may learn that its pull request has left."""
_RETRY = timedelta(seconds=2)
"""When an agent sends a call again to which IMQ said so."""
_ROUNDS_OF_WAKING = 10
"""Rounds of the event loop after which a sleep that has ended has woken the call that it belongs to."""
_FAILS, _DEQUEUED, _CHANGES_MIND, _ASKS_TWICE = 9, 13, 17, 4
"""One in so many pull requests fails, is dequeued by a person, is queued twice after a change of mind, is asked for
twice at once."""

_LANDED = "Merge pull request "
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
"""A call waits for an hour of virtual time, which may take many real minutes."""

Arrivals = Sequence[tuple[int, str]]


@dataclass
class Found:
    """What the people and the agents of one world found."""

    people: list[timedelta] = field(default_factory=list)
    """From label to merge."""
    outcomes: Counter[str] = field(default_factory=Counter)
    waits: int = 0
    """Calls of `wait`."""
    polls: int = 0
    """How often such a call looked again, woken or not."""
    faults: list[str] = field(default_factory=list)
    """Pull requests that landed or were queued twice, untrue answers, and calls that waited for what had left."""


class Calls:
    """The waiting calls of a bot, of which it knows those that wait for a change and nothing else."""

    def __init__(self, world: World, found: Found) -> None:
        self._world, self._bot, self._found = world, world.bot, found
        self._next_poll, self._parked = self._bot.waits._next_poll, set[asyncio.Event]()
        self.agents: list[asyncio.Task[None]] = []
        self._bot.waits._next_poll = self._wait  # type: ignore[method-assign]

    async def _wait(self, woken: asyncio.Event, pause: timedelta, *ends: asyncio.Task[Any]) -> None:
        self._parked.add(woken)
        try:
            await self._next_poll(woken, pause, *ends)
            self._found.polls += 1
        finally:
            self._parked.discard(woken)

    async def pause(self) -> None:
        """Let time pass before an agent sends a call again."""
        over = asyncio.Event()
        self._world.github.schedule.after(_RETRY, over.set, name="an agent tries again")
        self._parked.add(over)
        await over.wait()
        self._parked.discard(over)

    async def rest(self) -> None:
        """Return when each agent has ended, or its call waits for a change. Raises what an agent raised."""
        async with asyncio.timeout(LIMIT):
            while True:
                for _ in range(_ROUNDS_OF_WAKING):
                    await asyncio.sleep(0)
                while len(self._parked) < self._working():  # noqa: ASYNC110 - a call of a client is no event here
                    await asyncio.sleep(0)
                await self._bot.feed.run_due()
                if not any(woken.is_set() for woken in self._parked):
                    return

    def _working(self) -> int:
        for each in self.agents:
            if each.done():
                each.result()
        return sum(not each.done() for each in self.agents)


async def agents_row(size: Size, seed: int) -> list[Row]:
    """By how much the agents raise people's p95, one by one and in trains; what they did twice or waited for in vain.

    So few pull requests say little about the ratio itself, which is 1.0 to 1.3 by the seed. `benchmarks.fair_share`
    and `benchmarks.train_share` judge it, by thousands. One by one this row says whether the bot lands as the
    simulation does. In trains it is missed only if the whole interval is above the goal.
    """
    modes = size.of((False, True), (False, True), (True,))
    return [await _row(size, seed, trains=trains) for trains in modes]


async def _row(size: Size, seed: int, *, trains: bool) -> Row:
    people, agents, each = size.of((200, 50, 10), (12, 8, 3), (2, 1, 1))
    by_people = arrivals(Random(seed), people=_PEOPLE, landings=people, load=LOW_LOAD)
    alone, beside = [await through_bot(by_people, agents=count, each=each, trains=trains) for count in (0, agents)]
    ratio = p95(beside.people) / p95(alone.people)
    policy = Policy()
    simulated = p95(waits(by_people, agents=agents, policy=policy)) / p95(waits(by_people, agents=0, policy=policy))
    landed = beside.outcomes["landed"]
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(beside.outcomes.items()))
    blocks = [slice(at, at + _BLOCK) for at in range(0, people, _BLOCK)]
    pairs = [(seconds(alone.people[each]), seconds(beside.people[each])) for each in blocks]
    low, high = likely(pairs, Random(seed))
    within = low <= GOAL if trains else abs(ratio / simulated - 1) <= _WITHIN_SHARE
    return Row(
        f"agents{' in trains' * trains}, load {LOW_LOAD:.0%}",
        f"people's p95 beside {agents} agents with {each} pull requests each, to that without, in IMQ itself",
        f"{ratio:.2f} x, with 95 % from {low:.2f} to {high:.2f} ({people} pull requests of people, virtual time); "
        f"{len(beside.faults)} done twice, untrue or waited for in vain; "
        f"{beside.waits / landed:.1f} calls of `wait` and {beside.polls / landed:.1f} polls for each of {landed} "
        "landings of agents",
        ratio,
        f"not above {GOAL} x for certain; none"
        if trains
        else f"as in the simulation, within {_WITHIN_SHARE:.0%}; none",
        within and not beside.faults,
        f"simulation, one by one, of the same people beside agents without end: {simulated:.2f} x",
        simulated,
        f"p95 {p95(beside.people) / 60:.1f} min beside agents, {p95(alone.people) / 60:.1f} min without; CI "
        f"{CI_TIME}; agents' calls ended with {outcomes}" + "".join(f"; {fault}" for fault in beside.faults[:9]),
    )


async def through_bot(by_people: Arrivals, *, agents: int, each: int, trains: bool = False) -> Found:
    """Land the pull requests of people, beside so many agents with `each` of their own."""
    found = Found()
    begun: Callable[..., AbstractAsyncContextManager[World]] = a_train_world if trains else a_world
    with tempfile.TemporaryDirectory() as directory:
        async with (
            begun(Path(directory), settings=_SETTINGS) as world,
            aiohttp.ClientSession(timeout=_NO_TIMEOUT) as session,
        ):
            _create_users(world, by_people, agents)
            calls, start = Calls(world, found), world.clock.now()
            world.rest = calls.rest
            people: list[PullRequestHandle] = []

            def join(number: int, author: str) -> None:
                people.append(_open(world, f"change-{number}", author))
                people[-1].label(LABEL, by=author)

            begins = [start + timedelta(milliseconds=at) * (CI_TIME / LANDING) for at, _ in by_people]
            for number, (at, (_, author)) in enumerate(zip(begins, by_people, strict=True)):
                world.github.schedule.at(at, partial(join, number, author), name="a person queues")
            for number in range(agents):
                worker = Worker(world, calls, Agent(await caller(world, session, _agent(number))), number, found)
                calls.agents.append(asyncio.create_task(worker.work(each)))
            await world.until(
                lambda: (
                    len(people) == len(by_people)
                    and all(each.merged for each in people)
                    and all(each.done() for each in calls.agents)
                ),
                within=_WITHIN,
            )
            for pull, at in zip(people, begins, strict=True):
                assert pull.record.merged_at is not None
                found.people.append(pull.record.merged_at - at)
            titles = [each.title for each in world.repository.log() if each.title.startswith(_LANDED)]
            landed = Counter(title.removeprefix(_LANDED).split()[0].lstrip("#") for title in titles)
            found.faults += [f"#{number} landed {count} times" for number, count in landed.items() if count > 1]
            await world.settle()
    return found


@dataclass
class Worker:
    """An agent at work: it knows what the tools answer, and nothing else."""

    world: World
    calls: Calls
    agent: Agent
    number: int
    found: Found

    async def work(self, count: int) -> None:
        """Queue its pull requests, one after the other, each until it has landed or must not be queued again."""
        for index in range(count):
            nth = self.number * count + index + 1
            size = {"files": {f"agent-{nth}.txt": "11\n"}} if nth % _FAILS == 0 else {}
            pull = _open(self.world, f"agent-{nth}", _agent(self.number), **size)
            await self._queue(pull)
            if nth % _ASKS_TWICE == 0:
                await self._queue(pull)
            if nth % _CHANGES_MIND == 0:
                await self.agent.call("dequeue", number=pull.number)
                self._check(pull, (await self.agent.call("why", number=pull.number))["structuredContent"], "cancelled")
                await self._queue(pull)
            if nth % _DEQUEUED == 0:
                later = partial(pull.unlabel, LABEL, by="mona")
                self.world.github.schedule.after(CI_TIME, later, name="a person takes the label off")
            await self._wait(pull)
            await self._count_events(pull)

    async def _queue(self, pull: PullRequestHandle) -> None:
        arguments = {"number": pull.number, "head_sha": pull.head_sha}
        while (answer := await self.agent.call("queue", **arguments))["isError"]:
            assert answer["structuredContent"]["retry_safe"], answer
            await self.calls.pause()

    async def _wait(self, pull: PullRequestHandle) -> None:
        """Wait for the outcome, and do what it calls for."""
        answer = await self._outcome(pull)
        while not pull.merged and (answer["retry_safe"] or answer["whose_move"] == "author"):
            self.found.outcomes[answer["outcome"]] += 1
            if not answer["retry_safe"]:
                pull.push({f"{pull.record.title}.txt": "0\n"}, by=_agent(self.number))
            await self._queue(pull)
            answer = await self._outcome(pull)
        self.found.outcomes[answer["outcome"]] += 1

    async def _outcome(self, pull: PullRequestHandle) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = {"state": ""}
        while answer["state"] != "not_queued":
            self.found.waits += 1
            answer = (await self.agent.call("wait", number=pull.number, seconds=LONGEST_WAIT))["structuredContent"]
        left = [at for event, at in await self._events(pull) if event in ENDS]
        late = self.world.clock.now() - left[-1]
        if late > _SOON:
            self.found.faults.append(f"#{pull.number} waited {late} for what had left")
        self._check(pull, answer, "landed" if self._has_landed(pull) else "")
        return answer

    def _check(self, pull: PullRequestHandle, answer: Mapping[str, Any], outcome: str) -> None:
        """Compare an answer with what happened on GitHub."""
        agrees = (answer["outcome"] == "landed") == self._has_landed(pull) and outcome in {"", answer["outcome"]}
        if not agrees or not answer["next"]["sentence"]:
            self.found.faults.append(f"#{pull.number} answered {answer['outcome']}")

    def _has_landed(self, pull: PullRequestHandle) -> bool:
        """Whether the base has its head: GitHub shows a member of a train as merged later."""
        return bool(self.world.repository.is_ancestor(pull.head_sha, "main"))

    async def _count_events(self, pull: PullRequestHandle) -> None:
        """Count what happened to a pull request that has left: each end has one beginning."""
        counted = Counter("end" if event in ENDS else event for event, _ in await self._events(pull))
        if counted["queued"] != counted["end"]:
            self.found.faults.append(f"#{pull.number} was queued {counted['queued']} times, and left {counted['end']}")

    async def _events(self, pull: PullRequestHandle) -> Sequence[tuple[str, datetime]]:
        async with self.world.bot.engine.store.reading() as tx:
            events = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
        return [(each.event, each.at) for each in events]


def _create_users(world: World, by_people: Arrivals, agents: int) -> None:
    names = {author for _, author in by_people}
    for login, kind in (*((each, "User") for each in names), *((_agent(number), "Bot") for number in range(agents))):
        world.github.create_user(login, kind=kind)
        world.repository.record.collaborators[login] = "write"


def _open(world: World, name: str, author: str, **more: Any) -> PullRequestHandle:
    pull: PullRequestHandle = world.open(name, by=author, **more)
    return pull


def _agent(number: int) -> str:
    return f"agent-{number}[bot]"
