"""Auto-merge: a person asks GitHub to merge a pull request by itself as soon as all requirements are met.

Sources: "Automatically merging a pull request" in GitHub's documentation; the words of the refusals from
peter-evans/enable-pull-request-automerge #343 and #355, those of the reasons from microsoft/winget-pkgs #96183. A
closed pull request, and a draft, lose it (AlexanderMattTurner/agent-glovebox #3531).
"""

from functools import partial

from github_emulator.core.errors import ApiError, Invalid
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.merging.mergeability import Mergeability
from github_emulator.domain.merging.merging import Merging
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.rules.merge_rules import MergeRules
from github_emulator.events.context import Context
from github_emulator.events.events import (
    BaseChanged,
    HeadMoved,
    PullRequestChanged,
    PullRequestClosed,
    PullRequestDrafted,
    RepositoryEvent,
)
from github_emulator.state import Actor, AutoMerge, PullRequest

PUSHED = "Head branch was pushed to by a user without write access"
RETARGETED = "Base branch was changed by a user without write access"
CLOSED = "Pull request was closed"
DRAFTED = "Pull request was converted to draft"
BY_HAND = "Auto-merge was disabled manually"


class AutoMerges:
    """Enables and disables auto-merge, and merges when the requirements are met."""

    def __init__(
        self,
        context: Context,
        *,
        accounts: Accounts,
        pulls: Pulls,
        merge_rules: MergeRules,
        mergeability: Mergeability,
        merging: Merging,
    ) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._pulls = pulls
        self._merge_rules = merge_rules
        self._mergeability = mergeability
        self._merging = merging
        self._enabled: list[PullRequest] = []
        self._planned: set[int] = set()

    def enable(self, pull: PullRequest, *, actor: Actor, method: str = "merge", title: str | None = None) -> None:
        """Merge it as soon as it may be. Raises Invalid where nothing is to be waited for, or nothing may be."""
        self._accounts.require_role(actor, pull.repository, "write")
        if not pull.repository.allow_auto_merge:
            raise Invalid("Auto merge is not allowed for this repository")
        if pull.state != "open" or pull.draft:
            raise Invalid("Pull request is in draft state" if pull.draft else "Pull request is closed")
        state = self._mergeability.mergeable_state(pull)
        if state in ("clean", "unstable"):
            raise Invalid(f"Pull request is in {state} status")
        pull.auto_merge = AutoMerge(actor, method, title)
        self._enabled.append(pull)
        self._pulls.record(pull, "auto_merge_enabled", actor)
        self._events.publish(PullRequestChanged(pull, "auto_merge_enabled", actor))

    def disable(self, pull: PullRequest, reason: str = BY_HAND, *, actor: Actor) -> None:
        """Wait no longer; nothing happens where it is not enabled."""
        if pull not in self._enabled:
            return
        pull.auto_merge = None
        self._enabled.remove(pull)
        self._pulls.record(pull, "auto_merge_disabled", actor)
        self._events.publish(PullRequestChanged(pull, "auto_merge_disabled", actor, details={"reason": reason}))

    def on_change(self, event: RepositoryEvent) -> None:
        """Look soon whether the requirements are met: something changed in a repository."""
        for pull in self._enabled:
            if pull.repository is event.scope and pull.id not in self._planned:
                self._planned.add(pull.id)
                delay = self._context.timings.auto_merge
                self._context.schedule.after(delay, partial(self._try, pull), name="auto-merge")

    def on_head_moved(self, event: HeadMoved) -> None:
        """Disable it when somebody who may not write pushed."""
        self._changed_by(event.actor, event.pull, PUSHED)

    def on_base_changed(self, event: BaseChanged) -> None:
        """Disable it when somebody who may not write chose another base."""
        self._changed_by(event.actor, event.pull, RETARGETED)

    def on_closed(self, event: PullRequestClosed) -> None:
        """Disable it."""
        self.disable(event.pull, CLOSED, actor=event.actor)

    def on_drafted(self, event: PullRequestDrafted) -> None:
        """Disable it."""
        self.disable(event.pull, DRAFTED, actor=event.actor)

    def _changed_by(self, actor: Actor, pull: PullRequest, reason: str) -> None:
        may = actor.may("contents") if actor.app else self._accounts.has_role(actor.user, pull.repository, "write")
        if not may:
            self.disable(pull, reason, actor=actor)

    def _try(self, pull: PullRequest) -> None:
        self._planned.discard(pull.id)
        wanted = pull.auto_merge
        if pull not in self._enabled or wanted is None:
            return
        if pull.merged:
            self._enabled.remove(pull)
            return
        # The person who enabled it bypasses nothing (github/docs #45265, projectbluefin/dakota #820).
        if self._merge_rules.merge_violations(pull, method=wanted.method):
            return
        try:
            self._merging.merge(pull, actor=wanted.actor, method=wanted.method, title=wanted.title)
        except ApiError:
            return
        self._enabled.remove(pull)
