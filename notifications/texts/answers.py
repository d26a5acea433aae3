"""What became of a command, for each code. The facts that stand in braces are those that `ReplyCode` lists."""

from collections.abc import Mapping

from queue_engine.commands.codes import ReplyCode

DONE = "{by} asked for {command} ({time}):"
NOT_DONE = "{by} asked for {command} ({time}), which was not done:"

REPLIES: Mapping[ReplyCode, str] = {
    ReplyCode.QUEUED: "Queued for {base_branch}, position {position} of {depth}.",
    ReplyCode.ALREADY_QUEUED: "It stands in the queue for {base_branch} already, position {position} of {depth}.",
    ReplyCode.REQUEUED: "Queued for {base_branch} anew with its present head, position {position} of {depth}.",
    ReplyCode.HELD: "The queue for {base_branch} is full. It joins by itself as soon as a place frees.",
    ReplyCode.REFUSED: "{sentence} {next_step}",
    ReplyCode.LEFT: "It left the queue for {base_branch}.",
    ReplyCode.LANDING: "Its merge into {base_branch} is under way: only GitHub can tell whether it still leaves.",
    ReplyCode.NOT_QUEUED: "It neither stands in a queue nor waits for a place in one.",
    ReplyCode.PRIORITY: (
        "Its priority is {priority} now, and its position in the queue for {base_branch} {position} of {depth}."
    ),
    ReplyCode.PAUSED: "The queue for {base_branch} stands still until somebody resumes it.",
    ReplyCode.FROZEN: "The queue for {base_branch} stands still until {until}.",
    ReplyCode.RESUMED: "The pause of the queue for {base_branch} is lifted.",
    ReplyCode.NOT_PAUSED: "The queue for {base_branch} was not paused.",
    ReplyCode.STATUS: "The queue for {base_branch}:",
    ReplyCode.HELP: "These commands are understood at the beginning of a line:",
    ReplyCode.NOT_ALLOWED: "That takes the right {needs} on this repository, and {by} has {has}.",
    ReplyCode.NOT_UNDERSTOOD: "{argument} does not fit there. It is written {usage}.",
    ReplyCode.CHANGED_SINCE: "The pull request changed after that was typed. If it still holds, say it once more.",
    ReplyCode.TOO_MANY: "One comment can have {limit} commands at most; this one and what follows was left out.",
    ReplyCode.FAILED: "GitHub did not do what that takes. Details: {detail}",
}

DETAIL = "Details: {detail}."
PAUSED_AS_WELL = "It is paused as well: `/resume` lifts the pause, and the freeze holds from then on."
FROZEN_AFTERWARDS = "Whoever resumes it before {until} finds it frozen until then; `/resume` once more lifts that, too."
WORDS_GIVEN = "Reason given: {detail}."
ARGUMENT_AT_FAULT = "{argument} {fault}. It is written {usage}."
ARGUMENT_MISSING = "Something is missing. It is written {usage}."
JOINS_WITH = "Its priority will be {priority} then."
LONGER_WAITS = "Who waits longer because of that: {others}."
LONGER_WAIT = "{number} (about {delay})"
INTERRUPTS = "It takes the turn of {number}, whose checks begin anew afterwards."
INTERRUPTS_LOSING = "It takes the turn of {number}, whose checks begin anew afterwards: {lost} so far are lost."
NOBODY_WAITS_LONGER = "Nobody waits longer because of that."
MORE = "{count} more stand behind them."
OTHERS_HELD = "{held} more wait for a place."
EMPTY = "Nothing stands in it."
PLACE = "{place}. {number}: {status} since {since}"
STANDS_STILL = "It stands still: {sentence}"
COMMAND = "{usage}: {help} Allowed: {right}."
