"""Bringing branches together: what can be merged, merging pull requests, updating their heads, merging branches.

The refusals and their order are those of GitHub's `PUT .../merge` and `PUT .../update-branch`.
"""

from functools import partial
from typing import NoReturn

from github_emulator.core.errors import Conflict, Forbidden, Invalid, NotFound, NotMergeable
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.merging.signing import author_and_committer, signature
from github_emulator.domain.merging.squash import rebased, squash_message
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.refs.refs import Refs, check_workflows, require_branch
from github_emulator.domain.rules.merge_rules import MergeRules
from github_emulator.domain.rules.ref_rules import RefRules
from github_emulator.domain.rules.rules import Rules
from github_emulator.events.context import Context
from github_emulator.events.events import PullRequestChanged
from github_emulator.state import Actor, PullRequest, Repository

_ALLOWED = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
_VIOLATIONS = "Repository rule violations found\n\n"
_METHOD_NAMES = {"merge": "Merge commits are", "squash": "Squash merges are", "rebase": "Rebase merges are"}


class Merging:
    """Real three-way merges, as GitHub makes them."""

    def __init__(
        self,
        context: Context,
        *,
        accounts: Accounts,
        pulls: Pulls,
        rules: Rules,
        merge_rules: MergeRules,
        ref_rules: RefRules,
        refs: Refs,
    ) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._pulls = pulls
        self._rules = rules
        self._merge_rules = merge_rules
        self._ref_rules = ref_rules
        self._refs = refs

    def merge(
        self,
        pull: PullRequest,
        *,
        actor: Actor,
        sha: str | None = None,
        method: str = "merge",
        title: str | None = None,
        message: str | None = None,
    ) -> str:
        """Merge a pull request; returns the landed SHA. Raises Forbidden, NotMergeable, Conflict or Invalid."""
        repository = pull.repository
        self.check_merge(pull, actor, sha, method)
        tip = require_branch(repository, pull.base_branch)
        tree = repository.git.merge_trees(tip, pull.head_sha)
        if tree is None:
            raise NotMergeable("Pull Request is not mergeable")
        if not actor.may("workflows"):
            check_workflows([change.filename for change in repository.git.diff(tip, tree)])
        violations = self._merge_rules.merge_violations(pull, actor=actor, method=method)
        if violations:
            raise NotMergeable(" ".join(violations))
        landed = self.landing(pull, tip, tree, actor, method, title, message)
        self._pulls.mark_merged(pull, landed, actor)
        self._refs.move(repository, pull.base_branch, landed, actor=actor, landed=pull)
        self._events.publish(PullRequestChanged(pull, "closed", actor))
        if repository.delete_branch_on_merge and pull.head_repository is repository:
            delete = partial(self._delete_head, pull, actor)
            self._context.schedule.later(self._context.timings.retarget, delete, name=f"retarget on #{pull.number}")
        return landed

    def update_branch(self, pull: PullRequest, *, actor: Actor, expected_head_sha: str | None = None) -> None:
        """Accept to merge the base into the head; it happens later. Raises Invalid or Forbidden at once."""
        if expected_head_sha is not None and expected_head_sha != pull.head_sha:
            raise Invalid("expected head sha didn\u2019t match current head ref.")
        head = self._head_to_update(pull, actor)
        tip = require_branch(pull.repository, pull.base_branch)
        git = pull.repository.git
        if git.is_ancestor(tip, pull.head_sha):
            raise Invalid("There are no new commits on the base branch.")
        tree = git.merge_trees(pull.head_sha, tip)
        if tree is None:
            raise Invalid("merge conflict between base and head")
        if pull.from_fork and not actor.may("workflows"):
            base = git.merge_base(tip, pull.head_sha) or tip
            check_workflows([change.filename for change in git.diff(base, tip)])
        merged = self._update_commit(pull, head, pull.head_sha, tip, tree, actor)
        self._ref_rules.check(head, pull.head_branch, pull.head_sha, merged, actor=actor, force=False)
        update = partial(self._update, pull, head, pull.head_sha, actor)
        self._context.schedule.after(self._context.timings.update_branch, update, name=f"update-branch #{pull.number}")

    def merge_branch(
        self, repository: Repository, *, base: str, head: str, actor: Actor, message: str | None = None
    ) -> str | None:
        """`POST /merges`: merge a branch or commit into a branch. None when there is nothing to merge (204)."""
        self._accounts.require_role(actor, repository, "write")
        if not actor.may("contents"):
            raise Forbidden()
        git = repository.git
        tip, other = git.branch(base), git.resolve(head)
        if tip is None or other is None:
            raise NotFound("Base does not exist" if tip is None else "Head does not exist")
        if git.is_ancestor(other, tip):
            return None
        tree = git.merge_trees(tip, other)
        if tree is None:
            raise Conflict("Merge conflict")
        text = message or f"Merge {head} into {base}"
        sha = git.write_commit(tree, (tip, other), text, *author_and_committer(self._context.clock, actor.user))
        try:
            if not actor.may("workflows"):
                check_workflows([change.filename for change in git.diff(tip, tree)])
            self._ref_rules.check(repository, base, tip, sha, actor=actor, force=False)
        except (Forbidden, Invalid) as refusal:
            if isinstance(refusal, Forbidden) and not self._context.behaviour.merges_refuse_workflows_with_409:
                raise
            message = refusal.message.removeprefix(_VIOLATIONS)
            raise Conflict(_VIOLATIONS + message) from refusal
        self._refs.move(repository, base, sha, actor=actor)
        return sha

    def _delete_head(self, pull: PullRequest, actor: Actor) -> None:
        """Retarget what is stacked on a merged head branch, and delete it; not if it moved or rules forbid it.

        The merge is answered with 200 all the same (WordPress/WordPress-Coding-Standards #2751).
        """
        repository, branch = pull.repository, pull.head_branch
        if repository.git.branch(branch) != pull.head_sha:
            return
        try:
            self._ref_rules.check(repository, branch, pull.head_sha, None, actor=actor, force=False)
        except Invalid:
            return
        self._pulls.retarget(repository, branch, pull.base_branch, actor)
        self._refs.delete(repository, branch, actor=actor)

    def require_merger(self, pull: PullRequest, actor: Actor) -> None:
        """Raise NotFound or Forbidden when somebody may not merge here, whatever the rules say of the change."""
        repository = pull.repository
        self._accounts.require_role(actor, repository, "write")
        if not actor.may("contents") or repository.archived:
            raise Forbidden("Repository was archived so is read-only." if repository.archived else Forbidden().message)

    def check_merge(self, pull: PullRequest, actor: Actor, sha: str | None, method: str) -> None:
        """Raise what a merge would raise before it looks at conflicts and rules."""
        repository = pull.repository
        self.require_merger(pull, actor)
        if method not in _ALLOWED:
            raise Invalid("Invalid request.\n\nNo merge method of this name.")
        if pull.state != "open":
            raise NotMergeable("Pull Request is not mergeable")
        if pull.draft:
            raise NotMergeable("Pull Request is still a draft")
        if sha is not None and sha != pull.head_sha:
            raise Conflict("Head branch was modified. Review and try the merge again.")
        if not getattr(repository, _ALLOWED[method]) or not self._rules.allows(pull, method, actor=actor):
            raise NotMergeable(f"{_METHOD_NAMES[method]} not allowed on this repository.")
        settled = repository.pushed_at + self._context.timings.base_settles
        tip = repository.git.branch(pull.base_branch)
        if self._context.clock.now() < settled and pull.mergeable_for is not None and pull.mergeable_for[0] != tip:
            self._refuse_moved()
        if self._context.behaviour.outdated_heads_named and self._rules.is_behind(pull):
            self._refuse_moved()

    def _refuse_moved(self) -> NoReturn:
        if self._context.behaviour.outdated_heads_named:
            raise Conflict("Head branch is out of date. Review and try the merge again.")
        raise NotMergeable("Base branch was modified. Review and try the merge again.")

    def landing(
        self, pull: PullRequest, tip: str, tree: str, actor: Actor, method: str, title: str | None, message: str | None
    ) -> str:
        """Write the commit that lands a pull request on a tip. Raises NotMergeable when it cannot be rebased."""
        git, commits = pull.repository.git, self._pulls.commits(pull)
        if method == "rebase":
            landed = rebased(git, tip, commits, signature(self._context.clock, actor.user))
            if not landed:
                raise NotMergeable("This branch can't be rebased")
            return landed
        if method == "squash":
            text = squash_message(pull, commits, title, message)
            return git.write_commit(tree, (tip,), text, *author_and_committer(self._context.clock, pull.author))
        heading = title or f"Merge pull request #{pull.number} from {pull.head_owner}/{pull.head_branch}"
        body = pull.title if message is None else message
        text = f"{heading}\n\n{body}" if body else heading
        return git.write_commit(
            tree, (tip, pull.head_sha), text, *author_and_committer(self._context.clock, actor.user)
        )

    def _head_to_update(self, pull: PullRequest, actor: Actor) -> Repository:
        head = pull.head_repository
        if pull.state != "open" or head is None or head.git.branch(pull.head_branch) is None:
            raise Invalid("head repository or branch does not exist, or the pull request is closed")
        if not actor.may("contents") or not actor.may("pull_requests"):
            raise Forbidden()
        self._accounts.require_role(actor, pull.repository, "write")
        own = actor.app is None and self._accounts.has_role(actor.user, head, "write")
        if pull.from_fork and not pull.maintainer_can_modify and not own:
            raise Forbidden(
                "Resource not accessible by integration"
                if actor.app
                else "Must have push access to the head repository"
            )
        return head

    def _update(self, pull: PullRequest, head: Repository, expected: str, actor: Actor) -> None:
        """The asynchronous half. Whatever changed meanwhile makes it vanish without a word, as on GitHub."""
        tip = pull.repository.git.branch(pull.base_branch)
        if pull.state != "open" or tip is None or head.git.branch(pull.head_branch) != expected:
            return
        tree = pull.repository.git.merge_trees(expected, tip)
        if tree is None or pull.repository.git.is_ancestor(tip, expected):
            return
        sha = self._update_commit(pull, head, expected, tip, tree, actor)
        self._refs.move(head, pull.head_branch, sha, actor=actor)

    def _update_commit(
        self, pull: PullRequest, head: Repository, expected: str, tip: str, tree: str, actor: Actor
    ) -> str:
        text = f"Merge branch '{pull.base_branch}' into {pull.head_branch}"
        return head.git.write_commit(
            tree, (expected, tip), text, *author_and_committer(self._context.clock, actor.user)
        )
