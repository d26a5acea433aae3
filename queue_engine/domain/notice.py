"""The notice about one pull request at present: plain data, stored in the outbox, rendered later."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind


class NoticeKind(StrEnum):
    """What the comment and the check run show; the four waiting statuses, the outcomes, and two of admission."""

    QUEUED = "queued"
    UPDATING = "updating"
    CHECKING = "checking"
    READY = "ready"
    LANDED = "landed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    HELD = "held"
    BLOCKED = "blocked"
    """It keeps its position, and its queue continues without it."""
    PAUSED = "paused"
    ANSWERED = "answered"
    """Nothing is to be said of its place in a queue: the comment is there for the answer to a command."""


WAITING = frozenset(
    {
        NoticeKind.QUEUED,
        NoticeKind.UPDATING,
        NoticeKind.CHECKING,
        NoticeKind.READY,
        NoticeKind.HELD,
        NoticeKind.BLOCKED,
        NoticeKind.PAUSED,
    }
)
"""Kinds of notice after which the pull request still stands in line, or for a place in it."""

MARKER = "<!-- imq:comment"
"""Begins IMQ's comment, unseen by readers; by it a comment is found whose id was lost. The notice's kind follows."""

FIRST_LINE = re.compile(re.escape(MARKER) + r"(?: (?P<kind>[a-z_]+))? -->\s*")


def kind_of(body: str) -> str | None:
    """The kind of notice that a comment of IMQ's shows; None where an older version did not write it."""
    found = FIRST_LINE.match(body)
    return None if found is None else found["kind"]


class Reply(BaseModel):
    """What became of one command."""

    model_config = ConfigDict(frozen=True)

    command: str
    """As it was typed, without the slash; not trusted."""
    accepted: bool
    code: ReplyKind
    facts: dict[str, Any] = {}
    """What the sentence is made of; `ReplyKind` says which of them each code has. Foreign words are not trusted."""


class CommandReply(BaseModel):
    """What became of the commands in the last comment that had any."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    by: str
    replies: tuple[Reply, ...]
    """In the order of the commands; those not carried out yet are not among them."""


class BlockerFacts(BaseModel):
    """A blocker of the queue beside the most important one, as facts of a notice."""

    model_config = ConfigDict(frozen=True)

    reason: Reason
    detail: str | None = None
    until: datetime | None = None


class Notice(BaseModel):
    """Everything that the sticky comment and the check run are made of.

    `position` is zero-based, as of `at`: in the queue, or, while held, among those that wait for room. `people` are
    those to mention if the reason makes it their move: the author first, then the assignees. `checks` are the awaited
    checks while checking, the failing ones after a failure. `detail` is GitHub's own words or another fact for people;
    it is not trusted and is escaped when rendered.
    """

    model_config = ConfigDict(frozen=True)

    kind: NoticeKind
    number: int
    base_branch: str
    head_sha: str
    at: datetime
    people: tuple[str, ...] = ()
    position: int | None = None
    depth: int | None = None
    reason: Reason | None = None
    detail: str | None = None
    checks: tuple[CheckReport, ...] = ()
    progress: tuple[int, int] | None = None
    """While checking: how many of the awaited checks have reported, of how many."""
    landed_sha: str | None = None
    enqueued_at: datetime | None = None
    started_at: datetime | None = None
    queued_by: str | None = None
    trigger_label: str = "merge-queue"
    fix_labels: tuple[str, ...] = ("merge-queue-fix",)
    """The labels of changes that fix a red base."""
    ahead: tuple[int, ...] = ()
    """Numbers of the first pull requests before it, the front first, as of `at`."""
    eta: tuple[datetime, datetime] | None = None
    """When it is likely to land, from this repository's history; None while there is not enough of it."""
    retrying_since: datetime | None = None
    """Since when GitHub has not answered as it should, if that has lasted a while; `next_try` is when it is asked."""
    next_try: datetime | None = None
    until: datetime | None = None
    """For a pause: when it ends by itself, if that is known."""
    other_blockers: tuple[BlockerFacts, ...] = ()
    """For a pause: what else blocks the queue, the most important first."""
    not_followed: tuple[str, ...] = ()
    """For a refusal: what of the organisation's shared configuration does not count here, in sentences."""
    text: str | None = None
    """The repository's own words in the place of headline and explanation; written by its maintainers."""
