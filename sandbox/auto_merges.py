"""Auto-merge: a person asks GitHub to merge a pull request by itself as soon as all requirements are met.

Sources: "Automatically merging a pull request" in GitHub's documentation; the words of the refusals from
peter-evans/enable-pull-request-automerge #343 and #355, those of the reasons from microsoft/winget-pkgs #96183. A
closed pull request, and a draft, lose it (AlexanderMattTurner/agent-glovebox #3531).
"""

from functools import partial
from typing import TYPE_CHECKING

from sandbox.errors import ApiError, Invalid
from sandbox.state import Actor, AutoMerge, PullRequest, Repository

if TYPE_CHECKING:
    from sandbox.github import GitHub

PUSHED = "Head branch was pushed to by a user without write access"
RETARGETED = "Base branch was changed by a user without write access"
CLOSED = "Pull request was closed"
DRAFTED = "Pull request was converted to draft"
BY_HAND = "Auto-merge was disabled manually"


class AutoMerges:
    """Enables and disables auto-merge, and merges when the requirements are met."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github
        self._enabled: list[PullRequest] = []
        self._planned: set[int] = set()

    def enable(self, pull: PullRequest, *, actor: Actor, method: str = "merge", title: str | None = None) -> None:
        """Merge it as soon as it may be. Raises Invalid where nothing is to be waited for, or nothing may be."""
        self._github.require_role(actor, pull.repository, "write")
        if not pull.repository.allow_auto_merge:
            raise Invalid("Auto merge is not allowed for this repository")
        if pull.state != "open" or pull.draft:
            raise Invalid("Pull request is in draft state" if pull.draft else "Pull request is closed")
        state = self._github.merging.mergeable_state(pull)
        if state in ("clean", "unstable"):
            raise Invalid(f"Pull request is in {state} status")
        pull.auto_merge = AutoMerge(actor, method, title)
        self._enabled.append(pull)
        self._github.pulls.record(pull, "auto_merge_enabled", actor)
        self._github.happenings.pull_request(pull, "auto_merge_enabled", actor)

    def disable(self, pull: PullRequest, reason: str = BY_HAND, *, actor: Actor) -> None:
        """Wait no longer; nothing happens where it is not enabled."""
        if pull not in self._enabled:
            return
        pull.auto_merge = None
        self._enabled.remove(pull)
        self._github.pulls.record(pull, "auto_merge_disabled", actor)
        self._github.happenings.pull_request(pull, "auto_merge_disabled", actor, reason=reason)

    def changed_by(self, actor: Actor, pull: PullRequest, reason: str) -> None:
        """Disable it when somebody who may not write changed what would be merged."""
        may = actor.may("contents") if actor.app else self._github.has_role(actor.user, pull.repository, "write")
        if not may:
            self.disable(pull, reason, actor=actor)

    def look(self, repository: Repository) -> None:
        """Something happened in a repository: look soon whether requirements are met by now."""
        for pull in self._enabled:
            if pull.repository is repository and pull.id not in self._planned:
                self._planned.add(pull.id)
                delay = self._github.timings.auto_merge
                self._github.schedule.after(delay, partial(self._try, pull), name="auto-merge")

    def _try(self, pull: PullRequest) -> None:
        self._planned.discard(pull.id)
        wanted = pull.auto_merge
        if pull not in self._enabled or wanted is None:
            return
        if pull.merged:
            self._enabled.remove(pull)
            return
        # The person who enabled it bypasses nothing: it waits for all requirements.
        if self._github.rules.merge_violations(pull, method=wanted.method):
            return
        try:
            self._github.merging.merge(pull, actor=wanted.actor, method=wanted.method, title=wanted.title)
        except ApiError:
            return
        self._enabled.remove(pull)
