"""Observe the pull requests at one moment, on GitHub and in the bot's database, read-only."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from github_emulator import App, GitHub, PullRequest, PullRequestHandle
from imq_demo import comments
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.notice import MARKER, WAITING, Notice, NoticeKind, kind_of
from queue_engine.domain.policy import Mode
from queue_engine.domain.run import CandidateTrigger, Run, RunState
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position and status of an entry; `position` counts from 0."""

    position: int
    status: str
    pending_checks: tuple[str, ...] = ()


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
            "SELECT number, state, trigger, pending_checks FROM entries LEFT JOIN runs ON runs.id = run_id"
            " WHERE unmet IS NULL ORDER BY entries.queue_id, priority DESC, seq"
        ).fetchall()
        rows = connection.execute(
            "SELECT id, number, event, reason FROM timeline WHERE id > ? ORDER BY id", (after,)
        ).fetchall()
        unsent = connection.execute("SELECT count(*) FROM outbox WHERE due_at IS NOT NULL AND NOT dead").fetchone()[0]
    places = {
        number: QueuePosition(position, _status(state, trigger), tuple(json.loads(pending_checks or "[]")))
        for position, (number, state, trigger, pending_checks) in enumerate(entries)
    }
    events = [
        Event(row, number, f"{event}: {reason.replace('_', ' ')}" if reason else event)
        for row, number, event, reason in rows
    ]
    return ObservedQueue(places, events, unsent)


def _status(state: str | None, trigger: str | None) -> str:
    run = Run(state=RunState(state) if state else None, trigger=CandidateTrigger(trigger) if trigger else None)
    return EntryStatus.of(run).value


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
            comment = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, pull.number)
            check_run = await tx.outbox.wanted(OutboxKind.CHECK_RUN, repository.id, pull.number)
            own = [each.body for each in pull.comments.values() if MARKER in each.body]
            kind = kind_of(own[-1]) if own else None
            state = "merged" if pull.merged else pull.state
            name = f"#{pull.number} ({entry.status if entry else 'not queued'}, {state}, {kind})"
            wrong = [*_of_comment(pull, kind, entry, comment), *_of_check_runs(pull, app, entry, check_run)]
            found += [f"{name} has {each}" for each in wrong]
    return found


def _of_comment(pull: PullRequest, kind: str | None, entry: Entry | None, wanted: Notice | None) -> Iterator[str]:
    on = Policy().has_trigger_label(label.name for label in pull.labels)
    if pull.state == "open" and on and entry is None and (kind is None or kind in WAITING):
        yield "the label, which IMQ neither knows nor explains"
    elif entry is None and kind in WAITING:
        yield "a comment that says it is queued"
    if entry is not None and entry.is_ready and kind is not None and kind not in WAITING:
        yield "a comment that says it has left"
    # IMQ closes what GitHub does not mark as merged, and says so; so it does of commits that were pushed too late, and
    # of a base branch that somebody changed.
    explained = wanted is not None and (
        wanted.closed_unmerged or wanted.unlanded_head is not None or wanted.unlanded_base == pull.base_branch
    )
    # A pull request that a person closed before GitHub showed its landing stays closed, although its commits landed.
    landed = pull.state == "closed" and _is_in_base(pull)
    if kind == NoticeKind.LANDED and not pull.merged and not explained and not landed:
        yield "a comment that says it has landed"


def _is_in_base(pull: PullRequest) -> bool:
    tip = pull.repository.git.branch(pull.base_branch)
    return tip is not None and pull.repository.git.is_ancestor(pull.head_sha, tip)


def _of_check_runs(pull: PullRequest, app: App, entry: Entry | None, wanted: Notice | None) -> Iterator[str]:
    suites = [each for some in pull.repository.suites_by_sha.values() for each in some if each.app is app]
    identity = f"imq:{pull.repository.id}:{pull.number}:"
    runs = [run for suite in suites for run in suite.runs if (run.external_id or "").startswith(identity)]
    newest = max(runs, key=lambda run: run.id, default=None)
    for run in runs:
        at_rest = entry is not None and run is newest and run.head_sha == entry.head_sha
        if run.status != "completed" and not at_rest:
            yield f"a check run on {run.head_sha[:7]} that has not ended"
    if newest is None or entry is None or not entry.is_ready:
        return
    merges_now = wanted is not None and wanted.merges_now
    if newest.status == "completed" and newest.head_sha == entry.head_sha and not merges_now:
        yield f"a check run that has ended: {newest.conclusion}"


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
