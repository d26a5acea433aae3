"""Reply codes: results of commands, with their facts. The sentences are in `notifications`."""

from enum import StrEnum


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
    LANDING = "landing"
    """IMQ has requested the merge, so GitHub decides whether the pull request still leaves: `base_branch`."""
    NOT_QUEUED = "not_queued"
    """The pull request is not queued."""
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
    """The commands of `queue_engine.commands.table`."""
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


QUESTIONS = frozenset({ReplyKind.WHY, ReplyKind.STATUS})
"""Replies of which IMQ stores the question alone."""
