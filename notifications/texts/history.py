"""Lines of a pull request's history: a sentence for every timeline event that concerns people."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HistoryText:
    """A sentence without its full stop, with `{base}` alone, and its additions, each with its fact as `{fact}`."""

    sentence: str
    also: Mapping[str, str] = field(default_factory=dict)
    with_reason: bool = True
    """Whether the event is shown with its reason."""
    with_detail: bool = False
    """Whether the reason is shown with the first line of its details."""


SUMMARY = "History"
EARLIER = "Earlier events are not shown"
ASKED_BY = " by {by}"
ASKED_BY_WHOM = " by {dequeued_by}"
_PRECEDENCE = {"delays": ", ahead of {delays}", "delay": " (about {delay} later each)"}

HISTORY: Mapping[str, HistoryText] = {
    "held": HistoryText("Waiting for room in the queue for {base}"),
    "not_ready": HistoryText("Waiting outside the queue for {base}", {"by": ASKED_BY}),
    "queued": HistoryText("Queued for {base}", {"position": " at position {position}", "by": ASKED_BY, **_PRECEDENCE}),
    "refused": HistoryText("Not queued for {base}"),
    "pending": HistoryText("Waiting in the queue again", {"yields_to": ", preempted by {yields_to}"}),
    "blocked": HistoryText("Set aside, while the queue continues"),
    "updating": HistoryText("Updating the branch with {base}"),
    "checking": HistoryText("Waiting for checks", {"head": " on {head}"}),
    "rerun": HistoryText("Failed checks rerun", {"checks": ": {checks}"}),
    "flaky": HistoryText("Passed on rerun of the same commit", {"checks": ": {checks}"}),
    "ready": HistoryText("Checks passed", {"checks": " after {checks}"}),
    "landed": HistoryText("Landed on {base}", {"sha": " as {sha}"}),
    "failed": HistoryText("Removed from the queue for {base}", {"dequeued_by": ASKED_BY_WHOM}),
    "cancelled": HistoryText("Dequeued from {base}", {"dequeued_by": ASKED_BY_WHOM}),
    "delegated": HistoryText("Queueing delegated to the author", {"by": ASKED_BY}),
    "undelegated": HistoryText("Delegation to the author revoked", {"by": ASKED_BY}),
    "auto_merge_disabled": HistoryText("IMQ disabled GitHub's auto-merge, which would merge past the queue"),
    "tried": HistoryText(
        "Tested by /try", {"head": ": {head}", "on": " on {on}", "outcome": ": {outcome}", "detail": ", {detail}"}
    ),
    "rebased": HistoryText("New commit by the bot that opened it", {"head": ": {head}"}),
    "shared_update": HistoryText(
        "IMQ updated the branch, which another pull request shares", {"for": ", for #{for}", "head": ": {head}"}
    ),
    "new_head": HistoryText("New commit while waiting outside the queue", {"head": ": {head}", "by": ASKED_BY}),
    "read_again": HistoryText("Read again after a re-run of IMQ's check", {"by": ASKED_BY}),
    "priority": HistoryText(
        "Priority changed",
        {"priority": " to {priority}", "by": ASKED_BY, "position": ", position {position}", **_PRECEDENCE},
    ),
    "label_renamed": HistoryText(
        "The label that queued it was renamed",
        {
            "by": ASKED_BY,
            "label": " to {label}",
            "unnamed": " to {unnamed}: it queues others only if `trigger_labels` names it",
        },
    ),
    "paused": HistoryText("Queue for {base} paused", {"by": ASKED_BY, "until": " until {until}"}),
    "landed_outside": HistoryText("{base} moved outside the queue", {"sha": " to {sha}", "by": ASKED_BY}),
    "run_started": HistoryText("Joined a train", {"run": ", run {run}", "members": ", with {members}"}),
    "set_ready": HistoryText("All pull requests of its set are ready", {"order": ", and land in this order: {order}"}),
    "set_landed": HistoryText("One of its set landed", {"member": ": {member}", "sha": ", as {sha}"}),
    "set_left": HistoryText("One of its set did not land", {"member": ": {member}", "why": ", {why}"}),
    "held_back": HistoryText("Held back from a train", {"conflicts": ", since it conflicts with {conflicts}"}),
    "run_passed": HistoryText("Checks of the train passed", {"run": ", run {run}", "members": ", with {members}"}),
    "run_ended": HistoryText("End of the train", {"run": ", run {run}", "outcome": ": {outcome}"}),
    "trains_off": HistoryText("IMQ tests one pull request after the other for {base}", with_detail=True),
    "culprit": HistoryText("Named as what broke {base}", {"check": ": {check}"}),
    "reverted": HistoryText("A pull request reverts it", {"revert": ": #{revert}", "by": ASKED_BY}),
    "resumed": HistoryText("Queue for {base} resumed", {"by": ASKED_BY}, with_reason=False),
}

CULPRIT_OUTCOMES: Mapping[str, str] = {
    "": "{base} fails a check that had passed for its landing. IMQ tests landed commits to find out why.",
    "named": "Since this pull request landed, {base} fails a check that had passed for it.",
    "pushed": "{base} fails a check since a commit that somebody pushed around the queue.",
    "environment": "A check fails on {base}, and on a commit that had passed before the last landings, too. "
    "So no change is to blame.",
    "flake": "A check failed on {base}, and passed when IMQ tested the same commit again. So no change is to blame.",
    "fixed": "{base} passes again, so IMQ ended its search for what broke it.",
    "uncertain": "A check fails on {base}. The results prove no cause, so IMQ names none.",
    "no_trigger": "A check fails on {base}. IMQ cannot search for the cause: nothing is proven to start this check on "
    "a branch that points at a landed commit.",
}
"""What a search for the culprit found, by its outcome; empty until it ends."""

ONE_OF = "one of {numbers}"

RUN_OUTCOMES: Mapping[str, str] = {
    "failed": "its checks failed",
    "failed_before": "the same tree failed before",
    "landed": "it landed",
    "landed_elsewhere": "one of its pull requests landed outside",
    "left": "one of its pull requests left",
    "outdated": "one of its pull requests changed",
    "conflict": "one of its pull requests conflicts",
    "base_moved": "the base branch moved",
    "branch_changed": "somebody changed its branch",
    "checks_cancelled": "its checks were cancelled",
    "checks_changed": "a check was run again, and did not pass",
    "untested": "its checks did not test it",
    "cancelled": "IMQ cancelled it for another run",
    "unplanned": "the plan has no use for it",
    "empty": "the base branch contains it already",
    "commits_gone": "GitHub dropped its commits",
    "commit_untested": "the base branch moved to a commit that no run tested",
    "method_changed": "the merge method changed",
    "permission_missing": "IMQ lacks a permission",
    "tree_mismatch": "another tree landed than the tested one",
    "stopped": "IMQ stopped its landing",
    "passed": "its checks passed",
    "ended": "no result",
    "trains_off": "IMQ tests one pull request after the other",
}
"""Why a run of a train ended; of a test by `/try`, its result."""
