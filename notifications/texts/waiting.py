"""Where a pull request stands, what it waits for, and how long things took."""

PLACE = ", position {place} of {depth} {when}"
PLACE_ALONE = ", position {place} {when}"
WHEN_IT_JOINED = "when it joined"
AS_OF = "as of {time}"

WAITS_IN_LINE = "It waits for the pull requests ahead of it."
AHEAD = "Ahead of it {when}: {numbers}."
AHEAD_AND_MORE = "{numbers} and {count} more"
WAITS_AT_FRONT = "It is next."
HELD_BEHIND = {
    0: "When it began to wait, it was the first in line for a place.",
    1: "When it began to wait, one other pull request was before it.",
}
HELD_BEHIND_MANY = "When it began to wait, {count} other pull requests were before it."
WAITS_FOR_UPDATE = "It waits for the commit that brings it up to date with {base}."
WAITS_FOR_CHECKS = "It waits for:"
CHECKS_HAVE_REPORTED = "{done} of {total} checks have reported."
WAITS_FOR_FIRST_CHECK = "It waits for the first check to report."
WAITS_FOR_MERGE = "It waits for GitHub to merge it."
LIKELY_BETWEEN = "It is likely to land in about {low} to {high}, going by what landed here before (as of {time})."
LIKELY_WITHIN = "It is likely to land within about {high}, going by what landed here before (as of {time})."
RUN_AGAIN = "{checks} did not pass and was run again: that happens to sound changes too. It keeps its place."
RUN_AGAIN_MANY = "{checks} did not pass and were run again: that happens to sound changes too. It keeps its place."
RETRYING = "GitHub does not answer as it should. Retrying since {since}, next try {next_try}."
KEEPS_ITS_PLACE = "This pull request keeps its place."
OTHERS_GO_ON = "It keeps its consent and its place in order. The queue goes on without it."
UNTIL = "Until {time}."

CHECKS_TO_LOOK_AT = "Checks to look at:"
CHECK_SINCE = " since {time}"
CHECK_FINISHED = " at {time}"
CHECK_NOT_STARTED = "not reported yet"
AND_MORE = "and {count} more"

DETAIL = "Details: {detail}"
NOT_FOLLOWED = "IMQ does not follow all of the organisation's shared configuration:"
SET_BY = "The label was set by {person}."
HOW_TO_LEAVE = "To leave the queue, comment `/unqueue` or remove the label {label}."

LANDED_AS = " as {commit}"
COMMIT = "Commit: {commit}"
TIME_IN_QUEUE = "Time in the queue: {total}."
TIME_AT_FRONT = "Time in the queue: {total}, of which {front} at the front."
TIME_IN_CI = "Time in the queue: {total}, of which {front} at the front and {checks} in CI."
WAS_FLAKY = (
    "{checks} did not pass at first, and passed when it was run again with nothing changed: "
    "it is the check that is flaky, not this change."
)
WERE_FLAKY = (
    "{checks} did not pass at first, and passed when they were run again with nothing changed: "
    "it is the checks that are flaky, not this change."
)
