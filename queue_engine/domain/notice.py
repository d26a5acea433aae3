"""The notice about one pull request at present: plain data, stored in the outbox, rendered later."""

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import Field

from queue_engine.core.read_model import ReadModel
from queue_engine.domain.culprit import CulpritRecord
from queue_engine.domain.departure import Cause, FailingCheckFacts, NewCommits
from queue_engine.domain.facts import CheckReport, FailingCheck
from queue_engine.domain.reasons import Reason


class ReplyKind(StrEnum):
    """The code of an answer, with its facts.

    `position` counts from 0, `depth` is the number of entries, `base_branch` names the queue. Instants are ISO 8601 in
    UTC, durations are seconds; `reason` is a `Reason`'s value.
    """

    QUEUED = "queued"
    """The pull request joined: `position`, `depth`, `base_branch`."""
    ALREADY_QUEUED = "already_queued"
    """The pull request was queued before: `position`, `depth`, `base_branch`."""
    REQUEUED = "requeued"
    """The pull request moved to the end with its present head: `position`, `depth`, `base_branch`."""
    HELD = "held"
    """The entry waits for room in a full queue: `ahead` (how many get room before), `base_branch`, and `priority` if
    the command set one."""
    NOT_READY = "not_ready"
    """The pull request waits outside the queue for what it lacks: `reason`, `detail` (or empty), `base_branch`,
    `failing` (checks) if there are any, and `priority` if the command set one."""
    REFUSED = "refused"
    """IMQ rejected the pull request: `reason`, `label` (the trigger label here, or empty), `detail` (a label, a method,
    a reviewer; or empty)."""
    LEFT = "left"
    """The pull request left the queue: `base_branch`."""
    DELEGATED = "delegated"
    """The author may queue the pull request once: `author`, `until` when that holds, `base_branch`."""
    UNDELEGATED = "undelegated"
    """The author may not queue the pull request any more, unless they have the right: `author`, `base_branch`."""
    NOT_DELEGATED = "not_delegated"
    """There is nothing to revoke: `author`, `base_branch`."""
    TRYING = "trying"
    """IMQ tests the pull request, which it does not queue: `head`, `on` (what it is merged onto), and the state."""
    TRY_PASSED = "try_passed"
    """The test passed: `head`, `on`."""
    TRY_FAILED = "try_failed"
    """The test failed: `head`, `on`, `detail` (the failed checks)."""
    TRY_ENDED = "try_ended"
    """The test ended without a result: `head`, `detail` (why, the end of a sentence), and `gave_up` if IMQ failed."""
    TRY_REFUSED = "try_refused"
    """IMQ begins no test: `detail` (why, the end of a sentence)."""
    LANDING = "landing"
    """IMQ has requested the merge, so GitHub decides whether the pull request still leaves: `base_branch`."""
    NOT_QUEUED = "not_queued"
    """The pull request is not queued."""
    CLOSED = "closed"
    """The pull request is closed, and the command needs an open one: `merged`, whether GitHub merged it."""
    REVERTED = "reverted"
    """IMQ opened the revert, `revert`, and queued it: `base_branch`."""
    REVERT_OPENED = "revert_opened"
    """IMQ opened the revert, `revert`, but did not queue it: `reason`, `detail` (or empty), `base_branch`."""
    RELANDS = "relands"
    """IMQ opened the same change again as a pull request, `reland`: `base_branch`."""
    NOT_LANDED = "not_landed"
    """The pull request has not landed, so there is nothing to revert."""
    NOT_REVERTED = "not_reverted"
    """No revert by IMQ of this pull request has landed."""
    PRIORITY = "priority"
    """The position by the new priority: `priority`, `position`, `depth`, `base_branch`, `overtakes` (a list of
    `[number, seconds]`: which entries wait longer now, and about how much; seconds are null without history),
    `preempts` (the preempted one of them, or null) and `lost` (how long its run took so far, or null)."""
    PAUSED = "paused"
    """The queue is paused until somebody resumes it: `base_branch`, `depth`, `detail` (why, as typed, or empty),
    and `then`, when it is frozen until an instant, even if somebody resumes it before."""
    FROZEN = "frozen"
    """The queue is frozen until an instant: `base_branch`, `depth`, `until`, `detail`; `paused` if a pause is also
    in force."""
    RESUMED = "resumed"
    """The queue has no pause any more: `base_branch`, `depth`, `reason` (of the most important lifted blocker); if
    others hold, `blockers`: a list of `reason`, `detail` and `until`."""
    NOT_PAUSED = "not_paused"
    """The queue had no pause: `base_branch`, `depth`; if the queue has other blockers, `blockers` as for `RESUMED`."""
    WHY = "why"
    """Why the pull request waits: the dispatcher loads and renders that."""
    STATUS = "status"
    """The queue: the dispatcher loads and renders it."""
    HELP = "help"
    """The commands of `queue_engine.commands.commands`."""
    NOT_ALLOWED = "not_allowed"
    """The sender lacks permission: `needs` and `has` (values of `Permission`), and perhaps `detail` (which teams IMQ
    cannot read)."""
    NOT_UNDERSTOOD = "not_understood"
    """The argument does not fit the command: `name` (of the command), `argument` (as typed, or empty if missing),
    `usage` (the correct form), and perhaps `fault` (the end of a sentence about the argument)."""
    CHANGED_SINCE = "changed_since"
    """The pull request changed after the command, by a push for example, so the command is no consent to its present
    state."""
    TOO_MANY = "too_many"
    """One comment has more commands than IMQ carries out: `limit`."""
    FAILED = "failed"
    """GitHub refused a call: `detail`, GitHub's message."""
    GAVE_UP = "gave_up"
    """The command's job failed for good. IMQ may have done a part of it."""


QUESTIONS = frozenset({ReplyKind.WHY, ReplyKind.STATUS})
"""Replies of which IMQ stores the question alone."""


class TrainProgress(StrEnum):
    """What a train does with one of its members now."""

    BUILDING = "building"
    """IMQ merges the members onto a branch."""
    TESTING = "testing"
    """The CI run is active."""
    BISECTING = "bisecting"
    """A run with it failed, and IMQ tests parts of that run to find the cause."""
    ALONE = "alone"
    """A run with it failed, and IMQ tests this pull request alone."""
    PASSED = "passed"
    """The CI run passed, and IMQ lands its members."""
    QUALIFIED = "qualified"
    """It passed in a run that cannot land, and waits for one that can."""
    HELD_BACK = "held_back"
    """It conflicts with another member; IMQ tries again when that one has landed or left."""
    OWN_HEAD = "own_head"
    """IMQ tests it by its own head, with no other pull request and on no branch of IMQ's."""
    FILLING = "filling"
    """It waits until more pull requests wait for a run, or until its limit."""
    FAILED_ALONE = "failed_alone"
    """The run that failed, with its members."""


class TrainNotice(ReadModel, frozen=True):
    """The state of one member, for people."""

    progress: TrainProgress
    members: tuple[int, ...] = ()
    """The numbers of all members of its run, in order; itself among them."""
    run: int | None = None
    """The id of the run."""
    branch: str | None = None
    """The branch that CI tests."""
    candidate: str | None = None
    """The commit that CI tests, once IMQ has built it."""
    url: str | None = None
    """The page of one of its checks, on GitHub or at the CI provider. None: the candidate's page."""
    failed: tuple[int, ...] = ()
    """The members of the failed run that is bisected, in order."""
    conflict: int | None = None
    """The member with which it conflicts, while held back."""
    conflicts: tuple[int, ...] = ()
    """The members ahead of it of which it conflicts with one, while held back, where that one is not known."""
    own_head: str | None = None
    """Why IMQ tests it by its own head: `forks_off`, `unreviewed`, `workflows` or `unknown`."""
    suspicion: float | None = None
    """The chance that this pull request makes its run fail, from 0 to 1."""


class TrainLanding(ReadModel, frozen=True):
    """What a landing with others saved."""

    members: tuple[int, ...]
    """The numbers of all that landed by this run, in order; itself among them."""
    runs_saved: int = 0
    """How many CI runs fewer the train took than one per pull request; negative where it took more."""
    ci_saved: timedelta | None = None
    """The CI time of these runs, by the usual run of this branch; None without a history."""


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


class Reply(ReadModel, frozen=True):
    """The result of one command."""

    command: str
    """The command as typed, without the slash; not trusted."""
    accepted: bool
    code: ReplyKind
    facts: dict[str, Any] = Field(default_factory=dict)
    """The variable parts of the sentence; `ReplyKind` lists those of each code. Texts from users are not trusted."""


class CommandReply(ReadModel, frozen=True):
    """The results of the commands in the last comment that had any."""

    at: datetime
    by: str
    replies: tuple[Reply, ...]
    """In the order of the commands; without those that wait."""


class BlockerFacts(ReadModel, frozen=True):
    """A further blocker of the queue, or unmet requirement, beside the most important one, as facts of a notice."""

    reason: Reason
    detail: str | None = None
    until: datetime | None = None
    since: datetime | None = None
    by: str | None = None


class Notice(ReadModel, frozen=True):
    """All facts of the comment and the check run.

    `position` is zero-based, as of `at`: in the queue, or, while held, among the entries that wait for room. `people`
    are mentioned if they have to act: the author first, then the assignees. `checks` are the pending checks while
    checking, and the failed ones after a failure. `detail` is GitHub's message or another fact for people. It is not
    trusted, and escaped when rendered.
    """

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
    failure: FailingCheckFacts | None = None
    """For failed checks: what else is known of them."""
    new_commits: NewCommits | None = None
    """For a departure by a push."""
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
    later: tuple[int, ...] = ()
    """Numbers of the pull requests that land after this one, as their descriptions say; as of the last write."""
    eta: tuple[datetime, datetime] | None = None
    """When the entry is likely to land, by this repository's history; None while the history is too short."""
    retrying_since: datetime | None = None
    """Since when GitHub has failed, if for long; `next_try` is the instant of the next request."""
    next_try: datetime | None = None
    until: datetime | None = None
    """For a pause: when the blocker ends by itself, if that is known."""
    since: datetime | None = None
    """For a pause: when it began, and `by` the person who asked for it."""
    by: str | None = None
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
    unlanded_base: str | None = None
    """For such a landing: the base branch that the open pull request has now, because somebody changed it."""
    culprit: CulpritRecord | None = None
    """For a landing that broke the base: the search that named it."""
    text: str | None = None
    """The repository's own text in place of headline and explanation; written by its maintainers."""
