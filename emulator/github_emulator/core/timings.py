"""How long GitHub takes for what it does behind the scenes."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(slots=True)
class Timings:
    """Durations of the emulator's clock, and what happens meanwhile; change them any time."""

    mergeable: timedelta = timedelta(seconds=0.1)
    """From asking for `mergeable` to knowing it."""
    update_branch: timedelta = timedelta(seconds=0.2)
    """From 202 to the new head."""
    auto_merge: timedelta = timedelta(seconds=1)
    """From what met the last requirement to the merge that a person asked GitHub to make by itself."""
    merge_async: timedelta = timedelta(seconds=1)
    """From 202 for an asynchronous merge to the merge."""
    webhook: timedelta = timedelta(0)
    """From what happened to the webhook's departure."""
    workflow_run: timedelta = timedelta(0)
    """From an event to its workflow runs."""
    job_start: timedelta = timedelta(0)
    """How long a job of Actions stays queued for want of a runner; up to a day on GitHub (docs: "Usage limits")."""
    base_settles: timedelta = timedelta(0)
    """How long after a push a merge of a pull request whose `mergeable` is older answers "Base branch was modified"."""
    merged_by_push: timedelta = timedelta(0)
    """From a push that brings a pull request's head into its base to the pull request being marked as merged.

    Usually a second, now and then hours. (bors-ng #1605, Mergify #4535.)
    """
    branch_gone: timedelta = timedelta(0)
    """From a branch's deletion to the closing of the pull requests of it and on it. (spr #105, Mergify #4422.)"""
    retarget: timedelta = timedelta(0)
    """From a merge to the deletion of its head branch where the repository asks for it, and to what that entails."""
    moved_head_closes: bool = False
    """Whether a pull request whose head moves before its merge is noticed is closed unmerged. (Mergify #4718.)"""
    unnoticed_conflicts: bool = False
    """Whether one whose merge is not noticed yet shows as conflicting. (bors-ng #1605, Mergify #4535.)"""

    def notice_after(self, delay: timedelta) -> None:
        """What branches entail for pull requests is noticed so much later."""
        self.merged_by_push = self.branch_gone = self.retarget = delay
