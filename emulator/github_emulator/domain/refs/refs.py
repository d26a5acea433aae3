"""Move branches, with the consequences: webhooks of pushes, pull requests synchronised, merged or closed."""

from collections.abc import Iterable
from dataclasses import replace

from pygit2 import GitError

from github_emulator.core.errors import Forbidden, Invalid, NotFound
from github_emulator.core.git import Commit
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.checks.checks import Checks
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.rules.ref_rules import RefRules
from github_emulator.events.check_events import CommitPushed
from github_emulator.events.context import Context
from github_emulator.events.events import RefMoved, RepositoryChanged
from github_emulator.state import Activity, Actor, PullRequest, Repository


class Refs:
    """Creates, moves and deletes branches, as people push and as the REST API does."""

    def __init__(
        self, context: Context, *, accounts: Accounts, checks: Checks, pulls: Pulls, ref_rules: RefRules
    ) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._checks = checks
        self._pulls = pulls
        self._ref_rules = ref_rules

    def create(self, repository: Repository, branch: str, sha: str, *, actor: Actor) -> None:
        """A new branch at a commit. Raises Invalid when it exists, is badly named, the commit does not exist, or the
        rules refuse.
        """
        self.check_access(repository, actor)
        if repository.git.branch(branch) is not None:
            raise Invalid("Reference already exists")
        try:
            self.check(repository, branch, sha, actor=actor, force=False)
        except Invalid as refusal:
            if self._context.behaviour.ruled_refs_named or not refusal.message.startswith("Repository rule"):
                raise
            raise Invalid("Reference update failed") from refusal
        self.move(repository, branch, sha, actor=actor)

    def update(self, repository: Repository, branch: str, sha: str, *, actor: Actor, force: bool = False) -> None:
        """Move a branch. Raises Invalid when it would lose commits without `force`, or the rules refuse."""
        self.check_access(repository, actor)
        before = repository.git.branch(branch)
        if before is None:
            raise Invalid("Reference does not exist")
        self.check(repository, branch, sha, actor=actor, force=force)
        if before != sha:
            self.move(repository, branch, sha, actor=actor)

    def delete(self, repository: Repository, branch: str, *, actor: Actor) -> None:
        """Delete a branch; open pull requests of it and on it are closed. Raises Invalid when the rules refuse."""
        self.check_access(repository, actor)
        if repository.git.branch(branch) is None:
            raise Invalid("Reference does not exist")
        self.check(repository, branch, None, actor=actor, force=False)
        self.move(repository, branch, None, actor=actor)

    def rename(self, repository: Repository, branch: str, name: str, *, actor: Actor) -> None:
        """Give a branch another name; its protection and the open pull requests on it follow.

        Rulesets keep their patterns, and a pull request from the branch is closed. Writers may rename a branch that is
        neither protected nor the default. GitHub's page "Renaming a branch", and its repository github/renaming.
        Sources disagree whether the pull requests' webhooks come (kubernetes/test-infra #20829, kubernetes/community
        #5688): the caller may mute them.
        """
        guarded = branch == repository.default_branch or branch in repository.protections
        self._accounts.require_role(actor, repository, "admin" if guarded else "write")
        sha = repository.git.branch(branch)
        if sha is None or repository.git.branch(name) is not None:
            raise Invalid("Reference does not exist" if sha is None else "Reference already exists")
        self.move(repository, name, sha, actor=actor)
        if branch in repository.protections:
            repository.protections[name] = replace(repository.protections.pop(branch), pattern=name)
        if branch == repository.default_branch:
            repository.default_branch = name
            changes = {"changes": {"default_branch": {"from": branch}}}
            self._events.publish(RepositoryChanged(repository, actor, "edited", details=changes))
        self._pulls.retarget(repository, branch, name, actor, event=self._context.behaviour.renamed_base)
        self.move(repository, branch, None, actor=actor)

    def check(self, repository: Repository, branch: str, sha: str | None, *, actor: Actor, force: bool) -> None:
        """Raise what `create`, `update` or `delete` (without a `sha`) would raise, and change nothing."""
        self.check_access(repository, actor)
        git = repository.git
        before = git.branch(branch)
        if sha is not None and git.commit(sha) is None:
            raise Invalid("Object does not exist")
        if before == sha:
            return
        if sha is None and branch == repository.default_branch:
            raise Invalid("Cannot delete the default branch")
        if before is None and any(_excludes(each, branch) for each in git.branches()):
            # git keeps a branch as a file of its name (microsoft/vscode-remote-repositories-github #122).
            raise Invalid("Reference update failed")
        forced = sha is not None and before is not None and not git.is_ancestor(before, sha)
        if forced and not force:
            raise Invalid("Update is not a fast forward")
        if sha is not None:
            default = git.branch(repository.default_branch) or sha
            # A history of its own has only what its commits add.
            left = before or git.merge_base(default, sha) or git.write_tree(None, {})
            self._check_workflows(repository, left, sha, actor)
        self._ref_rules.check(repository, branch, before, sha, actor=actor, force=forced)

    def move(
        self, repository: Repository, branch: str, after: str | None, *, actor: Actor, landed: PullRequest | None = None
    ) -> None:
        """Set a branch without asking anybody's leave, and let everything follow.

        `landed` is the pull request that this very move merges; the caller has marked it.
        """
        git = repository.git
        before = git.branch(branch)
        if after is None:
            git.delete_ref(f"heads/{branch}")
        else:
            try:
                git.set_ref(f"heads/{branch}", after)
            except (ValueError, GitError) as error:
                raise Invalid(f"refs/heads/{branch} is not a valid ref name.") from error
        forced = bool(before and after and not git.is_ancestor(before, after))
        repository.pushed_at = repository.updated_at = now = self._context.clock.now()
        kind = _kind(before, after, forced, landed)
        activity_id = self._context.state.next_id("activity")
        repository.activities.append(
            Activity(activity_id, kind, f"refs/heads/{branch}", before, after, now, actor.user)
        )
        self._events.publish(RefMoved(repository, actor, f"refs/heads/{branch}", before, after, forced))
        if after is not None:
            self._checks.requested(repository, after, branch, before)
            self._events.publish(CommitPushed(repository, branch, before, after, actor))
        pulls = [pull for pull in self._pulls_touching(repository, branch) if pull is not landed]
        brought = git.log(after, before) if pulls and after and before else []
        by_sha = {commit.sha: commit for commit in brought}
        for pull in pulls:
            if forced and pull.repository is repository and pull.base_branch == branch:
                self._pulls.base_forced(pull, actor)
            if after is None:
                self._pulls.branch_gone(pull, repository, branch, actor)
            elif pull.head_repository is repository and pull.head_branch == branch:
                self._pulls.head_moved(pull, before, after, forced, actor)
            elif pull.head_sha in by_sha:
                self._pulls.brought(pull, _landing_commit(pull, by_sha.values()), actor)

    def _pulls_touching(self, repository: Repository, branch: str) -> list[PullRequest]:
        everywhere = (repository, repository.parent) if repository.parent else (repository,)
        return [
            pull
            for place in everywhere
            for pull in place.pulls.values()
            if pull.state == "open"
            and (
                (pull.repository is repository and pull.base_branch == branch)
                or (pull.head_repository is repository and pull.head_branch == branch)
            )
        ]

    def check_access(self, repository: Repository, actor: Actor) -> None:
        self._accounts.require_role(actor, repository, "write")
        if not actor.may("contents"):
            raise Forbidden()
        if repository.archived:
            raise Forbidden("Repository was archived so is read-only.")

    def _check_workflows(self, repository: Repository, before: str, after: str, actor: Actor) -> None:
        if not actor.may("workflows"):
            check_workflows([change.filename for change in repository.git.diff(before, after)])


def _excludes(branch: str, other: str) -> bool:
    """Whether git cannot have both branches: the name of one is a folder of the other's."""
    return branch.startswith(f"{other}/") or other.startswith(f"{branch}/")


def _kind(before: str | None, after: str | None, forced: bool, landed: PullRequest | None) -> str:
    """GitHub's name for a move of a branch."""
    if before is None:
        return "branch_creation"
    if after is None:
        return "branch_deletion"
    if landed is not None:
        return "pr_merge"
    return "force_push" if forced else "push"


def _landing_commit(pull: PullRequest, brought: Iterable[Commit]) -> str:
    """The merge commit that brought the head into the base; the head itself after a fast-forward."""
    return next((commit.sha for commit in brought if pull.head_sha in commit.parents[1:]), pull.head_sha)


def check_workflows(paths: list[str]) -> None:
    """Raise Forbidden when one of these paths is a workflow: the actor's app lacks the `workflows` permission."""
    for path in paths:
        if path.startswith(".github/workflows/"):
            raise Forbidden(
                f"refusing to allow a GitHub App to create or update workflow `{path}` without `workflows` permission"
            )


def require_branch(repository: Repository, branch: str) -> str:
    """A branch's tip. Raises NotFound when there is no such branch."""
    tip = repository.git.branch(branch)
    if tip is None:
        raise NotFound("Branch not found")
    return tip
