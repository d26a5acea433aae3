"""Observe the pull requests at one moment, on GitHub and in the bot's database, read-only."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bot.demo import comments
from queue_engine.domain.notice import NoticeKind
from sandbox.facade.pull_request_handle import PullRequestHandle


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
