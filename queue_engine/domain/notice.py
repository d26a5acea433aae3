"""The notice about one pull request at present: plain data, stored in the outbox, rendered later."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, Field

from queue_engine.core.read_model import ReadModel
from queue_engine.domain.dequeue_reason import Cause
from queue_engine.domain.facts import CheckReport
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind
from queue_engine.domain.train_notice import TrainLanding, TrainNotice


class NoticeKind(StrEnum):
    """The state that comment and check run show: four waiting statuses, the outcomes, and two of admission."""

    QUEUED = "queued"
    UPDATING = "updating"
    CHECKING = "checking"
    READY = "ready"
    LANDED = "landed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    HELD = "held"
    NOT_READY = "not_ready"
    """The pull request waits outside the queue for what it lacks."""
    BLOCKED = "blocked"
    """The entry keeps its position, and its queue continues without it."""
    PAUSED = "paused"
    ANSWERED = "answered"
    """The pull request is in no queue: the comment only answers a command."""


WAITING = frozenset(
    {
        NoticeKind.QUEUED,
        NoticeKind.UPDATING,
        NoticeKind.CHECKING,
        NoticeKind.READY,
        NoticeKind.HELD,
        NoticeKind.NOT_READY,
        NoticeKind.BLOCKED,
        NoticeKind.PAUSED,
    }
)
"""Kinds of notice of a pull request that is queued, or waits for room or until it is ready."""

MARKER = "<!-- imq:comment"
"""The hidden beginning of IMQ's comment, which finds a comment whose id was lost. The notice's kind follows."""

FIRST_LINE = re.compile(re.escape(MARKER) + r"(?: (?P<kind>[a-z_]+))? -->\s*")


def kind_of(body: str) -> str | None:
    """Read the kind of notice from the body of IMQ's comment; None where it names none."""
    found = FIRST_LINE.match(body)
    return None if found is None else found["kind"]


class Reply(ReadModel):
    """The result of one command."""

    model_config = ConfigDict(frozen=True)

    command: str
    """The command as typed, without the slash; not trusted."""
    accepted: bool
    code: ReplyKind
    facts: dict[str, Any] = Field(default_factory=dict)
    """The variable parts of the sentence; `ReplyKind` lists those of each code. Texts from users are not trusted."""


class CommandReply(ReadModel):
    """The results of the commands in the last comment that had any."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    by: str
    replies: tuple[Reply, ...]
    """In the order of the commands; without those that wait."""


class BlockerFacts(ReadModel):
    """A further blocker of the queue, or unmet requirement, beside the most important one, as facts of a notice."""

    model_config = ConfigDict(frozen=True)

    reason: Reason
    detail: str | None = None
    until: datetime | None = None


class Notice(ReadModel):
    """All facts of the comment and the check run.

    `position` is zero-based, as of `at`: in the queue, or, while held, among the entries that wait for room. `people`
    are mentioned if they have to act: the author first, then the assignees. `checks` are the pending checks while
    checking, and the failed ones after a failure. `detail` is GitHub's message or another fact for people. It is not
    trusted, and escaped when rendered.
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
    cause: Cause | None = None
    """Who caused the departure, if that is known."""
    checks: tuple[CheckReport, ...] = ()
    failing: tuple[FailingCheck, ...] = ()
    """For what is not ready: the required checks that fail on the head."""
    progress: tuple[int, int] | None = None
    """While checking: how many of the pending checks have reported, of how many."""
    landed_sha: str | None = None
    enqueued_at: datetime | None = None
    started_at: datetime | None = None
    queued_by: str | None = None
    trigger_label: str = "merge-queue"
    fix_labels: tuple[str, ...] = ("merge-queue-fix",)
    """The labels of changes that fix a red base."""
    ahead: tuple[int, ...] = ()
    """Numbers of the next pull requests before this one, the front first, as of `at`."""
    eta: tuple[datetime, datetime] | None = None
    """When the entry is likely to land, by this repository's history; None while the history is too short."""
    retrying_since: datetime | None = None
    """Since when GitHub has failed, if for long; `next_try` is the instant of the next request."""
    next_try: datetime | None = None
    until: datetime | None = None
    """For a pause: when the blocker ends by itself, if that is known."""
    other_blockers: tuple[BlockerFacts, ...] = ()
    """For a pause: the other blockers, the most important first. For what is not ready: what else it lacks."""
    not_followed: tuple[str, ...] = ()
    """For a refusal: the parts of the organisation's shared configuration that do not count here, in sentences."""
    own_check_required: bool = False
    """Whether the base branch requires IMQ's check run: then the check run passes for IMQ's own merge alone."""
    merges_now: bool = False
    """Whether the check run passes, because IMQ is about to merge this head."""
    untested_paths: tuple[str, ...] = ()
    """For a landing: files that changed on the base after the test and need none; not trusted."""
    more_paths: int = 0
    """How many more of these there are."""
    train: TrainNotice | None = None
    """While a train has the pull request as a member."""
    landed_with: TrainLanding | None = None
    """For a landing by a train."""
    closed_unmerged: bool = False
    """For such a landing: whether IMQ closed the pull request, which GitHub did not show as merged."""
    unlanded_head: str | None = None
    """For such a landing: the newer head of the pull request, which is open, because somebody pushed as it landed."""
    text: str | None = None
    """The repository's own text in place of headline and explanation; written by its maintainers."""
