"""Reply codes: results of commands, with their facts. The sentences are in `notifications`."""

from enum import StrEnum


class ReplyKind(StrEnum):
    """An answer's code.

    Facts that several have: `position` counts from 0, `depth` is how many are queued, `base_branch` names the queue,
    instants are ISO 8601 in UTC, lengths are seconds; `reason` is a `Reason`'s value.
    """

    QUEUED = "queued"
    """It joined: `position`, `depth`, `base_branch`."""
    ALREADY_QUEUED = "already_queued"
    """It stood there: `position`, `depth`, `base_branch`."""
    REQUEUED = "requeued"
    """It left and joined again at the end with its present head: `position`, `depth`, `base_branch`."""
    HELD = "held"
    """It waits for room in a full queue: `ahead` (how many get room before it), `base_branch`, and `priority` if it was
    given one."""
    REFUSED = "refused"
    """Rejected: `reason`, `label` (the one that queues here, or empty), `detail` (what it is about: a label,
    a method, who objects; or empty)."""
    LEFT = "left"
    """It left the queue: `base_branch`."""
    LANDING = "landing"
    """Its merge is under way: whether it still leaves only GitHub can tell. `base_branch`."""
    NOT_QUEUED = "not_queued"
    """It is not queued."""
    PRIORITY = "priority"
    """Its place by the new priority: `priority`, `position`, `depth`, `base_branch`, `overtakes` (a list of
    `[number, seconds]`: who waits longer now, and about how much; seconds are null while there is no history),
    `interrupts` (the one of them that loses its turn, or null) and `lost` (what that turn took so far, or null)."""
    PAUSED = "paused"
    """The queue is paused until somebody resumes it: `base_branch`, `depth`, `detail` (why, as typed, or empty),
    and `then`, when it is frozen until an instant, even if somebody resumes it before."""
    FROZEN = "frozen"
    """The queue is frozen until an instant: `base_branch`, `depth`, `until`, `detail`; `paused` if a pause is also
    in force."""
    RESUMED = "resumed"
    """Its pause was lifted: `base_branch`, `depth`, `reason` (of the most important blocker that was lifted); if others
    hold, `halts`: a list of `reason`, `detail` and `until`."""
    NOT_PAUSED = "not_paused"
    """Nobody had paused it: `base_branch`, `depth`; if the queue has other blockers, `halts` as for `RESUMED`."""
    WHY = "why"
    """Where it stands and what it waits for: `state` is an entry's status, with what `query.entry_facts` adds; or
    `held`, with `ahead` and `depth`; or `not_queued`, with `label` and, of its last stay, `event`, `reason`, `detail`
    and `at`."""
    STATUS = "status"
    """The queue: `base_branch`, `depth`, `entries` (a list of `[number, status, since]`, front first, at most ten),
    `held` (how many wait for room), and if it has blockers, `halts` as for `RESUMED`."""
    HELP = "help"
    """The commands, as `queue_engine.commands.table` has them."""
    NOT_ALLOWED = "not_allowed"
    """The sender lacks permission: `needs` and `has` (values of `Permission`)."""
    NOT_UNDERSTOOD = "not_understood"
    """It is a command with an argument that it does not take: `name` (of the command), `argument` (as typed, or
    empty if one is missing), `usage` (how it is written), and perhaps `fault` (the end of a sentence: what it does)."""
    CHANGED_SINCE = "changed_since"
    """Something about the pull request changed after the command was typed, a push perhaps: nobody has consented to
    what it is now."""
    TOO_MANY = "too_many"
    """One comment has more commands than are carried out: `limit`."""
    FAILED = "failed"
    """GitHub refused what it takes: `detail`, GitHub's words."""
