"""Sentences about trains: who is tested with whom, what a bisection does, and what a landing saved."""

from collections.abc import Mapping

from notifications.texts.kinds import KindText
from queue_engine.domain.notice import NoticeKind

KINDS: Mapping[NoticeKind, KindText] = {
    NoticeKind.UPDATING: KindText("⏳ Merging it onto a train's branch for {base}", "Joining a train"),
    NoticeKind.CHECKING: KindText("⏳ Waiting for the checks of its train for {base}", "Waiting for checks of a train"),
    NoticeKind.READY: KindText("⏳ Checks of its train passed, landing on {base}", "Checks of a train passed, landing"),
}
"""Replace the texts of these kinds while a train tests the pull request."""

BUILDING = "IMQ merges it with {numbers} onto one branch, to test them in one CI run."
BUILDING_ALONE = "IMQ merges it onto a branch, to test it there."
TESTED_TOGETHER = "IMQ tests it with {numbers} in one CI run, on the branch {branch}."
TESTED_ALONE = "IMQ tests it alone, on the branch {branch}."
RUN_FAILED = "A CI run of {numbers} failed."
BISECTING = "IMQ tests parts of that run to find the cause; this part has {numbers}."
BISECTING_ALONE = "IMQ tests this pull request alone to find the cause."
BISECTION_WAITS = "IMQ tests other parts of that run first, to find the cause."
NOT_THEIRS = "If another pull request of the run is the cause, this one stays in the queue."
PASSED = "It passed with {numbers} in one CI run, which lands next."
PASSED_ALONE = "It passed alone, and lands next."
QUALIFIED = "It passed in a CI run with others, and lands with the next run that passes on top of {base}."
HELD_BACK = "It conflicts with {number}, so IMQ tries it again when {number} has landed or left."
HELD_BACK_BY_ONE_OF = "It conflicts with one of {numbers}; IMQ tries it again when that has landed or left."
HELD_BACK_UNKNOWN = "It conflicts with a pull request ahead of it; IMQ tries it again when that has landed or left."
OWN_HEAD: Mapping[str, str] = {
    "forks_off": "It comes from a fork, and `trains.forks` is off for {base}.",
    "unreviewed": "It comes from a fork, and no one with write access has approved its present head.",
    "workflows": "It comes from a fork, and changes workflow files or local actions.",
    "unknown": "It comes from a fork, and GitHub does not show whether it changes workflow files or local actions.",
}
OWN_HEAD_HOW = "So IMQ tests it alone, by its own head, after those ahead of it: on a train's branch CI has secrets."
FAILED_ALONE = "The failed CI run tested only this pull request on top of {base}: no other pull request is the cause."
RUN = "CI run: {run}."

CLOSED_UNMERGED = "GitHub did not show it as merged within a day, although {base} contains {commit}. So IMQ closed it."
UNLANDED = (
    "{head} landed. The newer commits, up to {newer}, did not land, so the pull request is still open. To queue them, "
    "comment `/queue` or add the label {label}."
)
LANDED_WITH = "It landed with {numbers}, tested in one CI run."
RUNS_SAVED_ONE = "The train saved 1 CI run."
RUNS_SAVED = "The train saved {count} CI runs."
TIME_SAVED_ONE = "The train saved 1 CI run, about {time} of CI."
TIME_SAVED = "The train saved {count} CI runs, about {time} of CI."

SUSPICION = "A CI run with it failed. The chance that this pull request breaks its run is {chance}."
SUSPICION_FRESH = "The chance that this pull request breaks its run is {chance}: so many earlier ones did."
CERTAIN, HARDLY = "more than 99 %", "less than 1 %"
ABOUT = "about {percent} % ({words})"
ONE_IN, ALL_BUT_ONE = "1 in {count}", "{others} in {count}"
OF_TEN = "{count} in 10"
