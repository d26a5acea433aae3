"""What happened, as lines of a pull request's history: a sentence for every timeline event that concerns people."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoryText:
    """A sentence without its full stop, and what is added to it if the event has that fact.

    The addition has the fact as `{fact}`; the sentence has only `{base}`, the base branch.
    """

    sentence: str
    also: Mapping[str, str] = field(default_factory=dict)
    says_why: bool = True
    """Whether the event is shown with its reason."""


SUMMARY = "History"
EARLIER = "Earlier events are not shown"
ASKED_BY = " by {by}"
_PRECEDENCE = {"delays": ", ahead of {delays}", "delay": " (about {delay} later each)"}

STORY: Mapping[str, StoryText] = {
    "held": StoryText("Waiting to join the queue for {base}"),
    "queued": StoryText("Queued for {base}", {"position": " at position {position}", "by": ASKED_BY, **_PRECEDENCE}),
    "refused": StoryText("Not queued for {base}"),
    "pending": StoryText("Preempted by a hotfix", {"yields_to": ", {yields_to}"}),
    "blocked": StoryText("Waiting for a permission, while the queue continues"),
    "updating": StoryText("Updating the branch with {base}"),
    "checking": StoryText("Waiting for checks", {"head": " on {head}"}),
    "rerun": StoryText("Failed checks rerun", {"checks": ": {checks}"}),
    "flaky": StoryText("Passed on rerun of the same commit", {"checks": ": {checks}"}),
    "ready": StoryText("Checks passed", {"checks": " after {checks}"}),
    "landed": StoryText("Landed on {base}", {"sha": " as {sha}"}),
    "failed": StoryText("Removed from the queue for {base}"),
    "cancelled": StoryText("Dequeued from {base}"),
    "priority": StoryText(
        "Priority changed",
        {"priority": " to {priority}", "by": ASKED_BY, "position": ", position {position}", **_PRECEDENCE},
    ),
    "paused": StoryText("Queue for {base} paused", {"by": ASKED_BY, "until": " until {until}"}),
    "resumed": StoryText("Queue for {base} resumed", {"by": ASKED_BY}, says_why=False),
}
