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
class Place:
    """Where a pull request stands in its queue; `position` counts from 0."""

    position: int
    status: str
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the bot's timeline."""

    id: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class QueueSight:
    """The queue as the bot has stored it. `unsent` counts what people are still to be told."""

    places: Mapping[int, Place] = field(default_factory=dict)
    events: Sequence[Event] = ()
    unsent: int = 0


@dataclass(frozen=True, slots=True)
class PullSight:
    """A pull request as people see it. `said` are IMQ's comments on it."""

    number: int
    title: str
    state: str
    merged: bool
    labelled: bool
    said: tuple[str, ...] = ()

    @property
    def told(self) -> NoticeKind | None:
        """What IMQ's comment says; None while there is none."""
        return comments.kind(self.said[-1]) if self.said else None

    @property
    def settled(self) -> bool:
        """Whether IMQ is done with it: the label is off, and the comment says how it ended."""
        return not self.labelled and self.told in comments.FINAL


def see_pull(pull: PullRequestHandle, *, bot: str, label: str) -> PullSight:
    """This pull request now. `bot` is IMQ's login."""
    said = tuple(comment.body for comment in pull.comments if comment.user.login == bot)
    return PullSight(pull.number, pull.record.title, pull.state, pull.merged, label in pull.labels, said)


def see_queue(database: Path, *, after: int = 0) -> QueueSight:
    """The queue now, and the timeline's rows after this one.

    Each call opens the file again, for reading only: the bot alone holds it.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as connection:
        entries = connection.execute(
            "SELECT number, status, pending_checks FROM entries ORDER BY queue_id, priority DESC, seq"
        ).fetchall()
        rows = connection.execute(
            "SELECT id, number, event, reason FROM timeline WHERE id > ? ORDER BY id", (after,)
        ).fetchall()
        unsent = connection.execute("SELECT count(*) FROM outbox WHERE due_at IS NOT NULL AND NOT dead").fetchone()[0]
    places = {
        number: Place(position, status, tuple(json.loads(awaited)))
        for position, (number, status, awaited) in enumerate(entries)
    }
    events = [
        Event(row, number, f"{event}: {reason.replace('_', ' ')}" if reason else event)
        for row, number, event, reason in rows
    ]
    return QueueSight(places, events, unsent)
