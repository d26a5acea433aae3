"""Sentences of the reply to `/why`."""

from collections.abc import Mapping

STATES: Mapping[str, str] = {
    "pending": "Queued for {base} by {queued_by} at {joined}, now at position {place} of {depth}.",
    "updating": "First in the queue for {base}, updating the branch since {since}.",
    "checking": "First in the queue for {base}, waiting for checks since {since}.",
    "ready": "First in the queue for {base}: checks passed, merging since {since}.",
    "held": "The queue for {base} is full, with {depth} pull requests. This one waits for room, with {ahead} ahead.",
    "not_queued": "Not queued. To queue it, comment `/queue` or add the label {label}.",
}
AHEAD = "Ahead of it: {numbers}."
AHEAD_AND_MORE = "Ahead of it: {numbers} and {count} more."
AWAITED = "Not reported yet: {checks}."
PRIORITY = "Priority: {priority}."
HOTFIX = "It is a hotfix, ahead of all other pull requests."
OUTAGE = "GitHub requests have failed since {time}; IMQ keeps retrying."
BLOCKED = "The queue continues without it: {sentence}"
QUEUE_BLOCKED = "The queue is blocked: {sentence}"
LAST_TIME = "Last result, {time}: {sentence}"
LANDED = "Landed, {time}."
UNTIL = "Until {time}."
DETAIL = "Details: {detail}"
