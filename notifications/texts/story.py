"""What happened, as lines of a pull request's story: a sentence for every word of the timeline that concerns people."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoryText:
    """A sentence without its full stop, and what is added to it if the event has that fact.

    The fact stands in its addition as `{fact}`, in the sentence only `{base}`, the base branch.
    """

    sentence: str
    also: Mapping[str, str] = field(default_factory=dict)
    says_why: bool = True
    """Whether the event's reason is told with it."""


SUMMARY = "What happened so far"
EARLIER = "Earlier: not shown"
ASKED_BY = " (asked for by {by})"
_PRECEDENCE = {"delays": ", before {delays}", "delay": ": about {delay} longer for each"}

STORY: Mapping[str, StoryText] = {
    "held": StoryText("Began to wait for a place in the queue for {base}"),
    "queued": StoryText(
        "Joined the queue for {base}", {"position": " at position {position}", "by": ASKED_BY, **_PRECEDENCE}
    ),
    "refused": StoryText("Was not queued for {base}"),
    "pending": StoryText("Gave its turn to a hotfix", {"yields_to": ", {yields_to}"}),
    "blocked": StoryText("Waits until IMQ may land it, while its queue goes on"),
    "updating": StoryText("First in line: an update with {base} was asked for"),
    "checking": StoryText("Began to wait for its checks", {"head": " on {head}"}),
    "rerun": StoryText("Checks that did not pass were run again", {"checks": ": {checks}"}),
    "flaky": StoryText("Passed when run again, with nothing changed", {"checks": ": {checks}"}),
    "ready": StoryText("Its checks have passed", {"checks": " after {checks}"}),
    "landed": StoryText("Landed on {base}", {"sha": " as {sha}"}),
    "failed": StoryText("Left the queue for {base} without landing"),
    "cancelled": StoryText("Was taken out of the queue for {base}"),
    "priority": StoryText(
        "Its priority changed",
        {"priority": " to {priority}", "position": ": position {position} now", "by": ASKED_BY, **_PRECEDENCE},
    ),
    "paused": StoryText("The queue for {base} was paused", {"until": " until {until}", "by": ASKED_BY}),
    "resumed": StoryText("The queue for {base} went on", {"by": ASKED_BY}, says_why=False),
}
