"""Observe the pull requests at one moment, on GitHub and in the bot's database, read-only."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bot.demo import comments
from queue_engine.core.database.database import Database
from queue_engine.domain.notice import WAITING, NoticeKind, kind_of
from queue_engine.domain.own_check import OWN_CHECK
from queue_engine.domain.policy import Mode, Policy
from queue_engine.store import Store
from sandbox.facade.github import GitHub
from sandbox.facade.pull_request_handle import PullRequestHandle
from sandbox.state import App, PullRequest


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position and status of an entry; `position` counts from 0."""

    position: int
    status: str
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the bot's timeline."""

    id: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """The queue as the bot has stored it. `unsent` counts outbox items."""

    places: Mapping[int, QueuePosition] = field(default_factory=dict)
    events: Sequence[Event] = ()
    unsent: int = 0


@dataclass(frozen=True, slots=True)
class ObservedPullRequest:
    """A pull request as GitHub shows it. `comments` are those of IMQ."""

    number: int
    title: str
    state: str
    merged: bool
    labeled: bool
    comments: tuple[str, ...] = ()

    @property
    def notice_kind(self) -> NoticeKind | None:
        """Return the kind of notice in IMQ's comment; None while there is none."""
        return comments.kind(self.comments[-1]) if self.comments else None

    @property
    def settled(self) -> bool:
        """Whether IMQ is done with it: the label is removed, and the comment has the outcome."""
        return not self.labeled and self.notice_kind in comments.FINAL


def observe_pull_request(pull: PullRequestHandle, *, bot: str, label: str) -> ObservedPullRequest:
    """Observe a pull request on GitHub. `bot` is IMQ's login."""
    bodies = tuple(comment.body for comment in pull.comments if comment.user.login == bot)
    return ObservedPullRequest(pull.number, pull.record.title, pull.state, pull.merged, label in pull.labels, bodies)


def observe_queue(database: Path, *, after: int = 0) -> ObservedQueue:
    """Observe the queue in the bot's database, with the timeline's rows after this one.

    Each call opens the file read-only.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as connection:
        entries = connection.execute(
            "SELECT number, status, pending_checks FROM entries LEFT JOIN runs ON runs.id = run_id WHERE unmet IS NULL"
            " ORDER BY queue_id, priority DESC, seq"
        ).fetchall()
        rows = connection.execute(
            "SELECT id, number, event, reason FROM timeline WHERE id > ? ORDER BY id", (after,)
        ).fetchall()
        unsent = connection.execute("SELECT count(*) FROM outbox WHERE due_at IS NOT NULL AND NOT dead").fetchone()[0]
    places = {
        number: QueuePosition(position, status, tuple(json.loads(awaited or "[]")))
        for position, (number, status, awaited) in enumerate(entries)
    }
    events = [
        Event(row, number, f"{event}: {reason.replace('_', ' ')}" if reason else event)
        for row, number, event, reason in rows
    ]
    return ObservedQueue(places, events, unsent)


_APART = 0.2
"""Seconds between two looks."""


async def contradictions(store: Store, github: GitHub, app: App) -> list[str]:
    """What IMQ's records, and its words on GitHub, contradict."""
    found: list[str] = []
    async with store.reading() as tx:
        for pull in _pulls(github, app):
            repository = pull.repository
            if await tx.shadow.mode(repository.id) is Mode.SHADOW:
                continue  # there IMQ writes nothing, and only comments from before shadow mode may be left
            entry = await tx.entries.find(repository.id, pull.number)
            own = [each.body for each in pull.comments.values() if "<!-- imq:comment" in each.body]
            kind = kind_of(own[-1]) if own else None
            on = Policy().has_trigger_label(label.name for label in pull.labels)
            open_now = pull.state == "open"
            of_head = repository.suites_by_sha.get(pull.head_sha, ())
            runs = [run for suite in of_head if suite.app is app for run in suite.runs if run.name == OWN_CHECK]
            newest = max(runs, key=lambda run: run.id, default=None)
            unfinished = newest is not None and newest.status != "completed"
            name = f"#{pull.number} ({'queued' if entry else 'not queued'}, {'open' if open_now else 'closed'}, {kind})"
            if open_now and on and entry is None and (kind is None or kind in WAITING):
                found.append(f"{name} has the label, which IMQ neither knows nor explains")
            elif entry is None and kind in WAITING:
                found.append(f"{name} has a comment that says it is queued")
            if entry is not None and entry.is_ready and kind is not None and kind not in WAITING:
                found.append(f"{name} has a comment that says it has left")
            if entry is None and unfinished:
                found.append(f"{name} has a check run that has not ended")
    return found


async def contradictions_left(url: str, github: GitHub, app: App, *, within: float = 20) -> list[str]:
    """What the processes with the database at this address still contradict after so many seconds, in real time."""
    database, found = Database(url), list[str]()
    try:
        for _ in range(int(within / _APART)):
            if not (found := await contradictions(Store(database), github, app)):
                break
            await asyncio.sleep(_APART)
    finally:
        await database.close()
    return found


def _pulls(github: GitHub, app: App) -> Iterator[PullRequest]:
    for repository in github.state.repositories.values():
        if any(each.app is app for each in github.state.installations_of(repository)):
            yield from repository.pulls.values()
