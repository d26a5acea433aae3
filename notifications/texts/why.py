"""The answer to the question why a pull request does not land now."""

from collections.abc import Mapping

STATES: Mapping[str, str] = {
    "pending": "It stands in the queue for {base}, position {place} of {depth}, since {joined}; {queued_by} queued it.",
    "updating": "It is first in line for {base}. Since {since} it waits for the commit that brings it up to date.",
    "checking": "It is first in line for {base}. Since {since} it waits for its checks.",
    "ready": "It is first in line for {base}, and its checks have passed. Since {since} it is being merged.",
    "held": "The queue for {base} is full, with {depth} in it. It waits for a place, and {ahead} wait longer.",
    "not_queued": "It is not queued. To queue it, set the label {label}.",
}
AHEAD = "Ahead of it: {numbers}."
AHEAD_AND_MORE = "Ahead of it: {numbers} and {count} more."
AWAITED = "Not reported yet: {checks}."
PRIORITY = "Its priority is {priority}."
FIRST = "It is a hotfix, and goes before all that are not."
TROUBLE = "GitHub has not answered properly since {time}; IMQ goes on asking."
BLOCKED = "Its queue goes on without it: {sentence}"
STANDS_STILL = "Its queue stands still: {sentence}"
LAST_TIME = "Last time, {time}: {sentence}"
LANDED = "It landed, {time}."
UNTIL = "Until {time}."
DETAIL = "Details: {detail}"
