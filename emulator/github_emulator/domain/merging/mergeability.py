"""Whether a pull request can be merged: conflicts, which GitHub computes when asked, and the state that follows."""

from functools import partial

from github_emulator.domain.checks.checks import Checks
from github_emulator.domain.merging.signing import signature, web_flow
from github_emulator.domain.merging.squash import rebased
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.rules.merge_rules import MergeRules
from github_emulator.domain.rules.rules import Rules
from github_emulator.events.context import Context
from github_emulator.events.history import History
from github_emulator.state import PullRequest


class Mergeability:
    """Computes test merges, as GitHub does: only when asked, and not at once."""

    def __init__(
        self,
        context: Context,
        *,
        history: History,
        checks: Checks,
        pulls: Pulls,
        rules: Rules,
        merge_rules: MergeRules,
    ) -> None:
        self._context = context
        self._history = history
        self._checks = checks
        self._pulls = pulls
        self._rules = rules
        self._merge_rules = merge_rules
        self._computing: set[tuple[int, str, str]] = set()

    def mergeable(self, pull: PullRequest, *, ask: bool = True) -> bool | None:
        """Whether it merges without conflict; None while GitHub has not computed it. Asking makes it compute."""
        tip = pull.repository.git.branch(pull.base_branch)
        if pull.state != "open" or tip is None:
            return None
        key = (tip, pull.head_sha)
        if pull.mergeable_for == key:
            return pull.mergeable
        if ask and (pull.id, *key) not in self._computing:
            self._computing.add((pull.id, *key))
            delay = self._context.timings.mergeable
            self._context.schedule.after(delay, partial(self._computed, pull, key), name=f"mergeable #{pull.number}")
        return None

    def test_merge(self, pull: PullRequest, head: str) -> str | None:
        """The merge commit of a head and the base as it is now, at once; None on a conflict or a closed pull request.

        For the current head GitHub knows `mergeable` from then on, and `refs/pull/N/merge` moves.
        """
        git = pull.repository.git
        tip = git.branch(pull.base_branch)
        if pull.state != "open" or tip is None:
            return None
        if head == pull.head_sha:
            if pull.mergeable_for != (tip, head):
                self._computed(pull, (tip, head))
            return pull.merge_commit_sha if pull.mergeable else None
        tree = git.merge_trees(tip, head)
        return None if tree is None else self._test_commit(pull, tree, tip, head)

    def mergeable_state(self, pull: PullRequest) -> str:
        """GitHub's word: unknown, dirty, draft, blocked, behind, unstable or clean."""
        mergeable = self.mergeable(pull, ask=False)
        if mergeable is None:
            return "unknown"
        if not mergeable:
            return "dirty"
        if pull.draft:
            return "draft"
        if self._rules.is_behind(pull) and not self._merge_rules.missing_approvals(pull):
            return "behind"
        if self._merge_rules.merge_violations(pull):
            return "blocked"
        runs = self._checks.latest_runs(pull.repository, pull.head_sha)
        statuses = self._checks.latest_statuses(pull.repository, pull.head_sha)
        green = all(run.conclusion in {"success", "neutral", "skipped"} for run in runs)
        return "clean" if green and all(status.state == "success" for status in statuses) else "unstable"

    def _computed(self, pull: PullRequest, key: tuple[str, str]) -> None:
        self._computing.discard((pull.id, *key))
        tip, head = key
        git = pull.repository.git
        if pull.state != "open" or (git.branch(pull.base_branch), pull.head_sha) != key:
            return
        tree = git.merge_trees(tip, head)
        if self._context.timings.unnoticed_conflicts and git.is_ancestor(head, tip):
            tree = None
        pull.mergeable_for, pull.mergeable = key, tree is not None
        self._history.changed()
        if tree is None:
            pull.rebaseable = False
            return
        pull.rebaseable = bool(rebased(git, tip, self._pulls.commits(pull), web_flow(self._context.clock)))
        pull.merge_commit_sha = self._test_commit(pull, tree, tip, head)
        git.set_ref(f"pull/{pull.number}/merge", pull.merge_commit_sha)

    def _test_commit(self, pull: PullRequest, tree: str, tip: str, head: str) -> str:
        text, author = f"Merge {head} into {tip}", signature(self._context.clock, pull.author)
        return pull.repository.git.write_commit(tree, (tip, head), text, author, web_flow(self._context.clock))
