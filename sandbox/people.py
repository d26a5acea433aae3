"""What people do to a repository: push, branch, open pull requests, protect branches, set CI up.

Every action takes `by`, a login (the owner's when left out), and `webhook`: False changes the state and tells no app.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sandbox.ci import CI, Judge, all_green
from sandbox.errors import NotFound
from sandbox.git import Commit, Signature
from sandbox.people_pulls import PullRequestHandle
from sandbox.state import Actor, Protection, Repository, RequiredCheck, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub

Required = str | tuple[str, int | None]
"""A required check: its name, or its name and the id of the app that must report it."""


class RepositoryHandle:
    """A repository in people's hands. `record` is its state."""

    def __init__(self, github: "GitHub", record: Repository) -> None:
        self.github = github
        self.record = record

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return self.record.full_name

    # Git

    def sha(self, ref: str = "") -> str:
        """What a branch, reference or SHA names; the default branch's tip by default. Raises NotFound."""
        sha = self.record.git.resolve(ref or self.record.default_branch)
        if sha is None:
            raise NotFound()
        return sha

    def files(self, ref: str = "") -> dict[str, str]:
        """Path -> text at a reference."""
        return self.record.git.files(self.sha(ref))

    def tree(self, ref: str = "") -> str:
        """The tree's SHA at a reference."""
        return self.record.git.tree(self.sha(ref))

    def log(self, ref: str = "") -> list[Commit]:
        """The history of a reference, newest first."""
        return self.record.git.log(self.sha(ref))

    def is_ancestor(self, ancestor: str, ref: str = "") -> bool:
        """Whether a reference contains another."""
        return self.record.git.is_ancestor(self.sha(ancestor), self.sha(ref))

    def push(
        self,
        branch: str,
        files: Mapping[str, str | None],
        message: str = "Change",
        *,
        by: str | None = None,
        webhook: bool = True,
    ) -> str:
        """Commit on top of a branch (a new one starts at the default branch) and push. None as text deletes a file."""
        tip = self.record.git.branch(branch)
        sha = self.commit(files, tip or self.sha(), message, by=by)
        self.push_commit(branch, sha, by=by, webhook=webhook)
        return sha

    def force_push(
        self,
        branch: str,
        files: Mapping[str, str | None],
        message: str = "Change, amended",
        *,
        onto: str | None = None,
        by: str | None = None,
        webhook: bool = True,
    ) -> str:
        """Replace a branch's last commit, or everything after `onto`, by one new commit."""
        parents = self.record.git.must(self.sha(branch)).parents
        sha = self.commit(files, self.sha(onto) if onto else parents[0], message, by=by)
        self.push_commit(branch, sha, by=by, force=True, webhook=webhook)
        return sha

    def commit(
        self, files: Mapping[str, str | None], parent: str, message: str = "Change", *, by: str | None = None
    ) -> str:
        """Write a commit that no branch has yet."""
        git, user = self.record.git, self._actor(by).user
        author = Signature(user.login, user.email, self.github.clock.now())
        return git.write_commit(git.write_tree(parent, files), (parent,), message, author)

    def push_commit(
        self, branch: str, sha: str, *, by: str | None = None, force: bool = False, webhook: bool = True
    ) -> None:
        """Push a commit that exists, to a new branch or an old one. Raises Invalid as GitHub refuses pushes."""
        actor = self._actor(by)
        with self.github.happenings.muted(not webhook):
            if self.record.git.branch(branch) is None:
                self.github.refs.create(self.record, branch, sha, actor=actor)
            else:
                self.github.refs.update(self.record, branch, sha, actor=actor, force=force)

    def create_branch(self, name: str, from_: str = "", *, by: str | None = None, webhook: bool = True) -> str:
        """A new branch where `from_` is; returns its tip."""
        sha = self.sha(from_)
        with self.github.happenings.muted(not webhook):
            self.github.refs.create(self.record, name, sha, actor=self._actor(by))
        return sha

    def delete_branch(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete a branch; its open pull requests close, and those based on it."""
        with self.github.happenings.muted(not webhook):
            self.github.refs.delete(self.record, name, actor=self._actor(by))

    # Pull requests, labels, CI

    def pull(self, number: int) -> PullRequestHandle:
        """A pull request by its number. Raises KeyError."""
        return PullRequestHandle(self.github, self.record.pulls[number])

    def open_pull_request(
        self,
        title: str,
        *,
        head: str,
        base: str = "",
        by: str | None = None,
        files: Mapping[str, str | None] | None = None,
        body: str = "",
        draft: bool = False,
        fork_of: str | None = None,
        maintainer_can_modify: bool = True,
        webhook: bool = True,
    ) -> PullRequestHandle:
        """Open a pull request. `files` are pushed first, on a head branch that starts at the base when it is new.

        With `fork_of` the head branch lives in that person's fork.
        """
        base = base or self.record.default_branch
        home = self if fork_of is None else RepositoryHandle(self.github, self.github.fork(self.record, fork_of))
        by = by or fork_of
        pusher = fork_of or by
        with self.github.happenings.muted(not webhook):
            if files is not None:
                tip = home.record.git.branch(head) or self.sha(base)
                home.push_commit(head, home.commit(files, tip, title, by=pusher), by=pusher)
            pull = self.github.pulls.open(
                self.record,
                title=title,
                head_repository=home.record,
                head_branch=head,
                base=base,
                actor=self._actor(by),
                body=body,
                draft=draft,
                maintainer_can_modify=maintainer_can_modify,
            )
        return PullRequestHandle(self.github, pull)

    def delete_label(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete a label from the repository and all its pull requests."""
        with self.github.happenings.muted(not webhook):
            self.github.conversation.delete_label(self.record, name, actor=self._actor(by))

    def add_ci(
        self,
        name: str = "ci/test",
        *,
        app: str = "ci",
        status: bool = False,
        duration: timedelta = timedelta(seconds=20),
        waits: timedelta = timedelta(0),
        jitter: timedelta = timedelta(0),
        judge: Judge = all_green,
        flaky: float = 0.0,
        reports: bool = True,
        finishes: bool = True,
        on: Iterable[str] = ("push", "pull_request"),
        branches: Sequence[str] | None = None,
        cancels_older: bool = False,
    ) -> CI:
        """Set a CI up that reports as `name`; see `sandbox.ci.CI`."""
        return CI(
            self.github,
            self.record,
            name,
            app=app,
            as_status=status,
            duration=duration,
            waits=waits,
            jitter=jitter,
            judge=judge,
            flaky=flaky,
            reports=reports,
            finishes=finishes,
            on=frozenset(on),
            branches=branches,
            cancels_older=cancels_older,
        )

    # Rules

    def protect(
        self,
        branch: str,
        *,
        required_checks: Iterable[Required] = (),
        strict: bool = False,
        required_approvals: int = 0,
        enforce_admins: bool = False,
        required_linear_history: bool = False,
        required_conversation_resolution: bool = False,
        restrict_pushes: Sequence[str] | None = None,
        lock: bool = False,
        allow_force_pushes: bool = False,
        allow_deletions: bool = False,
        by: str | None = None,
        webhook: bool = True,
    ) -> Protection:
        """Classic protection of a branch or pattern, replacing what was there."""
        now = self.github.clock.now()
        protection = Protection(
            id=self.github.state.next_id("protection"),
            pattern=branch,
            created_at=now,
            updated_at=now,
            required_checks=_required(required_checks),
            strict=strict,
            required_approvals=required_approvals,
            enforce_admins=enforce_admins,
            required_linear_history=required_linear_history,
            required_conversation_resolution=required_conversation_resolution,
            restrict_pushes=None if restrict_pushes is None else list(restrict_pushes),
            lock=lock,
            allow_force_pushes=allow_force_pushes,
            allow_deletions=allow_deletions,
        )
        self._ruling(lambda actor: self.github.rules.protect(self.record, protection, actor=actor), by, webhook)
        return protection

    def unprotect(self, branch: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove the protection of a branch or pattern. Raises KeyError when there is none."""
        self._ruling(lambda actor: self.github.rules.unprotect(self.record, branch, actor=actor), by, webhook)

    def add_ruleset(
        self,
        name: str,
        *,
        branches: Sequence[str] = ("~DEFAULT_BRANCH",),
        required_checks: Iterable[Required] = (),
        strict: bool = False,
        required_approvals: int = 0,
        linear_history: bool = False,
        merge_queue: bool = False,
        non_fast_forward: bool = False,
        enforcement: str = "active",
        by: str | None = None,
        webhook: bool = True,
    ) -> Ruleset:
        """A ruleset for branches named by patterns, `~DEFAULT_BRANCH` or `~ALL`."""
        now = self.github.clock.now()
        ruleset = Ruleset(
            id=self.github.state.next_id("ruleset"),
            name=name,
            branches=list(branches),
            created_at=now,
            updated_at=now,
            enforcement=enforcement,
            required_checks=_required(required_checks),
            strict=strict,
            required_approvals=required_approvals,
            linear_history=linear_history,
            merge_queue=merge_queue,
            non_fast_forward=non_fast_forward,
        )
        self._ruling(lambda actor: self.github.rules.add_ruleset(self.record, ruleset, actor=actor), by, webhook)
        return ruleset

    def remove_ruleset(self, ruleset: Ruleset, *, by: str | None = None, webhook: bool = True) -> None:
        """Remove a ruleset."""
        self._ruling(lambda actor: self.github.rules.remove_ruleset(self.record, ruleset, actor=actor), by, webhook)

    def _ruling(self, change: Callable[[Actor], None], by: str | None, webhook: bool) -> None:
        actor = self._actor(by)
        self.github.require_role(actor, self.record, "admin")
        with self.github.happenings.muted(not webhook):
            change(actor)

    def _actor(self, by: str | None) -> Actor:
        return self.github.actor(by or self.record.owner.login)


def _required(checks: Iterable[Required]) -> list[RequiredCheck]:
    return [RequiredCheck(check) if isinstance(check, str) else RequiredCheck(*check) for check in checks]
