"""A database of a busy year: its timeline, its departures and its queues, for measures of the pages."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import psycopg
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.jobs.job import failed_jobs
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus, Repository, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run, RunState
from queue_engine.store import Store
from queue_engine.store.departures import ADD_DAYS, ADD_FLAKY, day_of, day_sums, departure_row, flaky_sums
from queue_engine.store.request_records import KEPT, RequestKind
from queue_engine.store.tables import departures, repositories, requests, timeline
from queue_engine.store.timeline import event_row

EVENTS = ("queued", "updating", "checking", "pending", "updating", "checking", "rerun", "ready", "flaky")
"""The events of each pull request before the last one."""
CHECKS = ("ci/build", "ci/unit", "ci/browser")
REASONS = (Reason.CHECKS_FAILED, Reason.CONFLICT, Reason.CHECKS_TIMED_OUT, Reason.LABEL_REMOVED, Reason.HEAD_CHANGED)
_ROWS = 500
_LETTERS = 100


@dataclass(frozen=True, slots=True)
class BusyYear:
    """How large the database is: by default 100,000 departures with a million events."""

    now: datetime
    pulls: int = 100_000
    repositories: int = 100
    branches: int = 2
    queued: int = 20
    """Entries in the queue of each first branch, of which the front is tested."""
    longest: int = 500
    """Entries in the first queue of all."""
    seed: int = 1
    requests: int = 20_000
    """Requests of the last three days, of which the oldest hundred are dead letters."""

    def repository(self, index: int) -> Repository:
        """Return one of the repositories."""
        return Repository(1000 + index, "acme", f"service-{index}", 70)

    def branch(self, index: int) -> str:
        """Return one of the base branches."""
        return "main" if index == 0 else f"release/{index}"


async def fill(store: Store, year: BusyYear) -> None:
    """Fill an empty, migrated database. Half of all pull requests are of the first repository's first branch."""
    async with store.transaction() as tx:
        names = [asdict(year.repository(index)) for index in range(year.repositories)]
        await tx.connection.execute(insert(repositories), names)
        for repository in range(year.repositories):
            for branch in range(year.branches):
                queue = await tx.queues.find_or_create(year.repository(repository), year.branch(branch), year.now)
                queued = year.longest if repository == 0 else year.queued
                for number in range(queued if branch == 0 else 0):
                    entry = await tx.entries.add(
                        queue_id=queue.id,
                        number=year.pulls + number + 1,
                        title=f"Waiting change {number}",
                        author="ada",
                        queued_by="max",
                        queued_head=f"{number:040x}",
                        enqueued_at=year.now - timedelta(minutes=5 * (queued - number)),
                    )
                    if number == 0:
                        begun = year.now - timedelta(minutes=3)
                        run = Run(state=RunState.TESTING, started_at=begun, pending_checks=CHECKS)
                        await tx.entries.save(replace(entry, run=run))
    made = _departures(year)
    while part := list(islice(made, _ROWS)):
        async with store.transaction() as tx:
            await store_events(tx.connection, [event for each in part for event in _events(each)])
            await store_departures(tx.connection, part)
    async with store.transaction() as tx:
        await tx.connection.execute(insert(requests), [_request(year, number) for number in range(year.requests)])
        await tx.connection.execute(insert(failed_jobs), [_letter(year, number) for number in range(_LETTERS)])
    if store.database.dialect == "postgresql":
        # As its autovacuum does within minutes, which would run in the middle of the measure.
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **store.database.connect_args)
        async with connection:
            await connection.execute("VACUUM ANALYZE")


async def store_events(connection: AsyncConnection, events: Sequence[TimelineEvent]) -> None:
    """Store many events at once, as `Timeline.append` stores each."""
    await connection.execute(insert(timeline), list(map(event_row, events)))


async def store_departures(connection: AsyncConnection, these: Sequence[Departure]) -> None:
    """Store the only departures of many pull requests at once, as `Departures.put` stores each."""
    await connection.execute(insert(departures), [departure_row(each, is_last=True) for each in these])
    await connection.execute(ADD_DAYS.on(connection), [day_sums(each, pulls=1) for each in these])
    if flaky := [row for each in these for row in flaky_sums(each, day_of(each.left_at))]:
        await connection.execute(ADD_FLAKY.on(connection), flaky)


def _departures(year: BusyYear) -> Iterator[Departure]:
    """Make the departures of a year, oldest first."""
    chance = random.Random(year.seed)
    step = timedelta(days=365) / year.pulls
    for index in range(year.pulls):
        spot = 0 if index % 2 else chance.randrange(year.repositories * year.branches)
        waited = chance.lognormvariate(7.0, 1.0)
        shares = [chance.random() for _ in range(5)]
        capacity, checks, paused, base_red, other = (waited * share / sum(shares) for share in shares)
        landed = chance.random() < 0.9
        left = year.now - timedelta(days=365) + index * step
        rerun = RerunCheck(chance.choice(CHECKS), ("unit (3.12)",), 1, 300.0, 400.0)
        flaky = (rerun,) if chance.random() < 0.05 else ()
        yield Departure(
            id=(index + 1) * (len(EVENTS) + 1),
            entry_id=f"{index:032x}",
            repository_id=year.repository(spot // year.branches).id,
            base_branch=year.branch(spot % year.branches),
            number=index + 1,
            title=f"Change {index}",
            author=chance.choice(("ada", "linus", "grace")),
            enqueued_at=left - timedelta(seconds=waited),
            left_at=left,
            outcome=EntryStatus.LANDED if landed else EntryStatus.FAILED,
            reason=None if landed else chance.choice(REASONS),
            waited=waited,
            capacity=capacity,
            checks=checks,
            paused=paused,
            base_red=base_red,
            other=other,
            ci_seconds=3 * checks,
            reruns=len(flaky),
            flaky=flaky,
        )


def _request(year: BusyYear, number: int) -> dict[str, Any]:
    """Make a request of the last three days, oldest first."""
    return {
        "id": f"{number:032x}",
        "repository_id": year.repository(number % year.repositories).id,
        "number": number + 1,
        "kind": RequestKind.LABEL,
        "asked": "merge-queue",
        "asked_by": "ada",
        "asked_at": year.now - KEPT + number * KEPT / year.requests,
    }


def _letter(year: BusyYear, number: int) -> dict[str, Any]:
    """Make the dead letter of a request."""
    asked = _request(year, number)
    return {
        "id": asked["id"],
        "process_id": "bench",
        "job_type": "inbox",
        "error_message": "GitHub answered 500 ten times",
        "payload": {"repository_id": asked["repository_id"]},
        "failed_at": asked["asked_at"],
        "retryable": True,
        "attempts": 10,
        "priority": 0,
        "created_at": asked["asked_at"],
    }


def _events(departure: Departure) -> Iterator[TimelineEvent]:
    """Make the events of a departure, evenly over its wait."""
    names = (*EVENTS, departure.outcome.value)
    for index, name in enumerate(names):
        step = timedelta(seconds=departure.waited * index / (len(names) - 1))
        data: dict[str, Any] = {"head": f"{departure.number:040x}", "checks": list(CHECKS)}
        yield TimelineEvent(
            at=departure.enqueued_at + step,
            event=name,
            repository_id=departure.repository_id,
            base_branch=departure.base_branch,
            number=departure.number,
            entry_id=departure.entry_id,
            reason=departure.reason if index == len(names) - 1 else None,
            data=data | ({"queue": departure.waited, "front": departure.checks} if name == "landed" else {}),
        )
