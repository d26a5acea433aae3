"""Sentences about why a pull request waits, and the headings that lists have before them."""

from collections.abc import Mapping

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import PullRequestActor

STATE, AHEAD_OF_IT, ORDER, CHECKS, GITHUB = "State", "Ahead of it", "Order", "Checks", "GitHub"
TRAIN, SET_ASIDE, BLOCKED, LAST, NEXT = "Train", "Set aside", "Blocked", "Last result", "Next"

STATES: Mapping[EntryStatus, str] = {
    EntryStatus.PENDING: "Queued for {base} by {queued_by} at {enqueued_at}, now at position {position} of {depth}.",
    EntryStatus.UPDATING: "First in the queue for {base}, updating the branch since {status_since}.",
    EntryStatus.CHECKING: "First in the queue for {base}, waiting for checks since {status_since}.",
    EntryStatus.READY: "First in the queue for {base}: checks passed, merging since {status_since}.",
}
TRAIN_STATES: Mapping[EntryStatus, str] = {
    EntryStatus.UPDATING: "IMQ merges it onto a train's branch for {base} since {status_since}.",
    EntryStatus.CHECKING: "A train for {base} tests it since {status_since}.",
    EntryStatus.READY: "The checks of its train passed, and it lands on {base} since {status_since}.",
}
"""Replace these states while a train tests the pull request."""
HELD = "The queue for {base} is full, with {depth} pull requests. This one waits for room, with {ahead} ahead."
OUTSIDE = "Not in the queue for {base} yet: {unmet}"
NOT_QUEUED = "Not queued."
AHEAD = "Ahead of it: {numbers}."
AHEAD_AND_MORE = "Ahead of it: {numbers} and {count} more."
PENDING_CHECKS = "Not reported yet: {checks}."
SHARED = "Bots and agents share one place in this queue, so others come between."
SHARE = "{author} has {count} pull requests in this queue, so others come between."
PRIORITY = "Priority: {priority}."
HOTFIX = "It is a hotfix, ahead of all other pull requests."
OUTAGE = "GitHub requests have failed since {time}; IMQ keeps retrying."
CONTINUES = "The queue continues without it: {sentence}"
QUEUE_BLOCKED = "The queue is blocked: {sentence}"
LAST_TIME = "Last result, {time}: {sentence}"
LANDED = "Landed, {time}."
ACTORS: Mapping[PullRequestActor, str] = {
    PullRequestActor.AUTHOR: "the author",
    PullRequestActor.MAINTAINER: "a maintainer",
    PullRequestActor.OPERATOR: "the operator of IMQ",
    PullRequestActor.CI: "the CI",
    PullRequestActor.GITHUB: "GitHub",
    PullRequestActor.IMQ: "IMQ",
    PullRequestActor.NONE: "no one",
}
WHOSE_MOVE = "Whose move: {actor}. Next: {step}"
UNTIL = "Until {time}."
DETAIL = "Details: {detail}."
