"""Sentences of the reply to `/why`."""

from collections.abc import Mapping

from queue_engine.domain.reasons import PullRequestActor

STATES: Mapping[str, str] = {
    "pending": "Queued for {base} by {queued_by} at {enqueued_at}, now at position {place} of {depth}.",
    "updating": "First in the queue for {base}, updating the branch since {status_since}.",
    "checking": "First in the queue for {base}, waiting for checks since {status_since}.",
    "ready": "First in the queue for {base}: checks passed, merging since {status_since}.",
    "held": "The queue for {base} is full, with {depth} pull requests. This one waits for room, with {ahead} ahead.",
    "not_ready": "Not in the queue for {base} yet: {unmet}",
    "not_queued": "Not queued. To queue it, comment `/queue` or add the label {label}.",
}
TRAIN_STATES: Mapping[str, str] = {
    "updating": "IMQ merges it onto a train's branch for {base} since {status_since}.",
    "checking": "A train for {base} tests it since {status_since}.",
    "ready": "The checks of its train passed, and it lands on {base} since {status_since}.",
}
"""Replace these states while a train tests the pull request."""
AHEAD = "Ahead of it: {numbers}."
AHEAD_AND_MORE = "Ahead of it: {numbers} and {count} more."
AWAITED = "Not reported yet: {checks}."
SHARED = "Bots and agents share one place in this queue, so others come between."
SHARE = "{author} has {count} pull requests in this queue, so others come between."
PRIORITY = "Priority: {priority}."
HOTFIX = "It is a hotfix, ahead of all other pull requests."
OUTAGE = "GitHub requests have failed since {time}; IMQ keeps retrying."
BLOCKED = "The queue continues without it: {sentence}"
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
DETAIL = "Details: {detail}"
