"""Replies to commands, by code. The facts in braces are those that `ReplyKind` lists."""

from collections.abc import Mapping

from queue_engine.domain.notice import ReplyKind

DONE = "{command} by {by} ({time}):"
NOT_DONE = "{command} by {by} ({time}) was not executed:"

REPLIES: Mapping[ReplyKind, str] = {
    ReplyKind.QUEUED: "Queued for {base_branch} at position {position} of {depth}.",
    ReplyKind.ALREADY_QUEUED: "Already queued for {base_branch} at position {position} of {depth}.",
    ReplyKind.REQUEUED: "Requeued for {base_branch} with its current head at position {position} of {depth}.",
    ReplyKind.HELD: "The queue for {base_branch} is full. The pull request waits for room.",
    ReplyKind.NOT_READY: "{sentence} IMQ queues the pull request for {base_branch} as soon as it is ready. {next_step}",
    ReplyKind.REFUSED: "{sentence} {next_step}",
    ReplyKind.LEFT: "Dequeued from {base_branch}.",
    ReplyKind.LANDING: "The merge into {base_branch} has started. If GitHub refuses it, IMQ dequeues the pull request.",
    ReplyKind.NOT_QUEUED: "The pull request is not queued.",
    ReplyKind.PRIORITY: "Priority {priority}: position {position} of {depth} in the queue for {base_branch}.",
    ReplyKind.PAUSED: "Paused the queue for {base_branch}. To resume it, comment `/resume`.",
    ReplyKind.FROZEN: "Froze the queue for {base_branch} until {until}. To end the freeze, comment `/resume`.",
    ReplyKind.RESUMED: "Resumed the queue for {base_branch}.",
    ReplyKind.NOT_PAUSED: "No one has paused the queue for {base_branch}.",
    ReplyKind.STATUS: "Queue for {base_branch}:",
    ReplyKind.HELP: "Begin a line of a comment with one of these commands:",
    ReplyKind.NOT_ALLOWED: "This needs the role {needs} on the repository; {by} has {has}.",
    ReplyKind.NOT_UNDERSTOOD: "{argument} is not valid. Usage: {usage}.",
    ReplyKind.CHANGED_SINCE: "The pull request changed after this comment. Review it, and comment again.",
    ReplyKind.TOO_MANY: "A comment can have at most {limit} commands. IMQ ignored this one and those after it.",
    ReplyKind.FAILED: "GitHub refused the request. Details: {detail}",
}

PAUSED_AS_WELL = "It is also paused: the first `/resume` ends the pause, the second the freeze."
FROZEN_AFTERWARDS = "If you resume it before {until}, it stays frozen until then; a second `/resume` ends the freeze."
REASON_GIVEN = "Reason: {detail}."
ARGUMENT_AT_FAULT = "{argument} {fault}. Usage: {usage}."
ARGUMENT_MISSING = "An argument is missing. Usage: {usage}."
JOINS_WITH = "Its priority will be {priority}."
DELAYS = "This delays {others}."
DELAYED = "{number} (about {delay})"
PREEMPTS = "It preempts {number}, whose checks start over."
PREEMPTS_LOSING = "It preempts {number}, whose checks start over after {lost}."
DELAYS_NONE = "This delays no other pull request."
MORE = "{count} more follow."
OTHERS_HELD = "{held} more wait for room."
OTHERS_NOT_READY = "{not_ready} more wait outside the queue until they are ready."
EMPTY = "The queue is empty."
QUEUE_LINE = "{place}. {number}: {status} since {since}"
QUEUE_BLOCKED = "The queue is blocked: {sentence}"
COMMAND = "{usage}: {help} Allowed: {right}."
