"""What people do to a repository: push, branch, open pull requests, protect branches, set CI up.

Every action takes `by`, a login (the owner's by default), and `webhook`: False changes the state without a webhook.
"""

from collections.abc import Iterable, Mapping

from github_emulator.ci.single_check import CI, CISettings
from github_emulator.ci.workflow_runner import WorkflowRunner
from github_emulator.ci.workflows import Job, Trigger
from github_emulator.core.errors import NotFound
from github_emulator.core.git import Commit, Signature
from github_emulator.domain.checks.progress import page
from github_emulator.domain.pulls.pulls import PullRequestOptions
from github_emulator.facade.pull_request_handle import PullRequestHandle
from github_emulator.facade.rules_handle import RulesHandle
from github_emulator.state import CheckRun, Stack, WorkflowRun

_USUAL_CI = CISettings()
_USUAL_OPTIONS = PullRequestOptions()


class RepositoryHandle(RulesHandle):
    """A repository in people's hands. `record` is its state."""

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
        author = Signature(user.login, user.email, self.domain.context.clock.now())
        return git.write_commit(git.write_tree(parent, files), (parent,), message, author)

    def push_commit(
        self, branch: str, sha: str, *, by: str | None = None, force: bool = False, webhook: bool = True
    ) -> None:
        """Push a commit that exists, to a new branch or an old one. Raises Invalid as GitHub refuses pushes."""
        actor = self._actor(by)
        with self.domain.context.events.muted(not webhook):
            if self.record.git.branch(branch) is None:
                self.domain.refs.create(self.record, branch, sha, actor=actor)
            else:
                self.domain.refs.update(self.record, branch, sha, actor=actor, force=force)

    def create_branch(self, name: str, from_: str = "", *, by: str | None = None, webhook: bool = True) -> str:
        """A new branch where `from_` is; returns its tip."""
        sha = self.sha(from_)
        with self.domain.context.events.muted(not webhook):
            self.domain.refs.create(self.record, name, sha, actor=self._actor(by))
        return sha

    def delete_branch(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete a branch; its open pull requests close, and those based on it."""
        with self.domain.context.events.muted(not webhook):
            self.domain.refs.delete(self.record, name, actor=self._actor(by))

    def rename_branch(self, name: str, new_name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Rename a branch, the default branch too; its protection and its open pull requests follow."""
        with self.domain.context.events.muted(not webhook):
            self.domain.refs.rename(self.record, name, new_name, actor=self._actor(by))

    # Pull requests, labels, CI

    def pull(self, number: int) -> PullRequestHandle:
        """A pull request by its number. Raises KeyError."""
        return PullRequestHandle(self.domain, self.record.pulls[number])

    def stack(self, *pulls: PullRequestHandle) -> Stack:
        """Put open pull requests into a stack, the bottom first. Raises Invalid when one is not based on the last."""
        return self.domain.stacks.form(self.record, [pull.record for pull in pulls])

    def open_pull_request(
        self,
        title: str,
        *,
        head: str,
        base: str = "",
        by: str | None = None,
        files: Mapping[str, str | None] | None = None,
        options: PullRequestOptions = _USUAL_OPTIONS,
        fork_of: str | None = None,
        webhook: bool = True,
    ) -> PullRequestHandle:
        """Open a pull request. `files` are pushed first, on a head branch that starts at the base when it is new.

        With `fork_of` the head branch lives in that person's fork.
        """
        base = base or self.record.default_branch
        home = (
            self
            if fork_of is None
            else RepositoryHandle(self.domain, self.domain.repositories.fork(self.record, fork_of))
        )
        by = by or fork_of
        pusher = fork_of or by
        with self.domain.context.events.muted(not webhook):
            if files is not None:
                tip = home.record.git.branch(head) or self.sha(base)
                home.push_commit(head, home.commit(files, tip, title, by=pusher), by=pusher)
            pull = self.domain.pulls.open(
                self.record,
                title=title,
                head=(home.record, head),
                base=base,
                actor=self._actor(by),
                options=options,
            )
        return PullRequestHandle(self.domain, pull)

    def page(self, run: WorkflowRun) -> str:
        """The address of the page of a run of Actions."""
        return page(self.domain.context.addresses, run)

    def rerun(self, run: CheckRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Re-run" on a check: its app is asked, or the failed jobs of its workflow run start again."""
        actor = self._actor(by)
        with self.domain.context.events.muted(not webhook):
            if run.workflow_run is None:
                self.domain.checks.rerequest(run, actor=actor)
            else:
                self.domain.actions.rerun(run.workflow_run, actor=actor, failed_only=True)

    def rerun_suite(self, run: CheckRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Re-run all checks" on the suite of a check."""
        with self.domain.context.events.muted(not webhook):
            self.domain.checks.rerequest_suite(run.suite, actor=self._actor(by))

    def push_tag(
        self, name: str, ref: str = "", *, message: str | None = None, by: str | None = None, webhook: bool = True
    ) -> str:
        """Push a new tag on a commit, annotated if it has a message; returns what the tag names."""
        sha, actor = self.sha(ref), self._actor(by)
        if message is not None:
            tagger = Signature(actor.user.login, actor.user.email, self.domain.context.clock.now())
            sha = self.record.git.write_tag(name, sha, message, tagger)
        with self.domain.context.events.muted(not webhook):
            self.domain.tags.create(self.record, name, sha, actor=actor)
        return sha

    def cancel(self, run: WorkflowRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Cancel workflow" on a run of Actions."""
        with self.domain.context.events.muted(not webhook):
            self.domain.actions.cancel(run, actor=self._actor(by))

    def approve(self, run: WorkflowRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Approve and run" on a run of Actions that waits for it."""
        with self.domain.context.events.muted(not webhook):
            self.domain.actions.approve(run, actor=self._actor(by))

    def create_label(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Create a label of the repository, unless it has one of this name."""
        with self.domain.context.events.muted(not webhook):
            self.domain.conversation.create_label(self.record, name, actor=self._actor(by))

    def edit_label(self, name: str, new_name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Rename a label of the repository; it stays on its pull requests."""
        with self.domain.context.events.muted(not webhook):
            self.domain.conversation.edit_label(self.record, name, new_name, actor=self._actor(by))

    def rename(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Give the repository another name; its old path leads to it."""
        with self.domain.context.events.muted(not webhook):
            self.domain.repository_changes.rename(self.record, name, actor=self._actor(by))

    def transfer(self, owner: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Give the repository to another owner; it leaves installations, and may come to others."""
        with self.domain.context.events.muted(not webhook):
            self.domain.repository_changes.transfer(self.record, owner, actor=self._actor(by))

    def archive(self, archived: bool = True, *, by: str | None = None, webhook: bool = True) -> None:
        """Make the repository read-only, or end that."""
        with self.domain.context.events.muted(not webhook):
            self.domain.repository_changes.archive(self.record, actor=self._actor(by), archived=archived)

    def set_private(self, private: bool, *, by: str | None = None, webhook: bool = True) -> None:
        """Hide the repository, or show it to everybody."""
        with self.domain.context.events.muted(not webhook):
            self.domain.repository_changes.set_private(self.record, private, actor=self._actor(by))

    def delete_label(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete a label from the repository and all its pull requests."""
        with self.domain.context.events.muted(not webhook):
            self.domain.conversation.delete_label(self.record, name, actor=self._actor(by))

    def add_ci(self, name: str = "ci/test", settings: CISettings = _USUAL_CI) -> CI:
        """Set a CI up that reports as `name`."""
        return CI(self.domain, self.record, name, settings)

    def add_workflow(
        self,
        name: str = "CI",
        *,
        jobs: Iterable[Job] = (Job("test"),),
        on: Iterable[Trigger | str] = ("push", "pull_request"),
        path: str | None = None,
        cancels_older: bool = False,
        group: str | None = None,
    ) -> WorkflowRunner:
        """Add a workflow of GitHub Actions; see `WorkflowRunner`. An event's name has no filters."""
        return WorkflowRunner(
            self.domain,
            self.record,
            self.domain.actions.workflow(self.record, name, path),
            triggers=[Trigger(one) if isinstance(one, str) else one for one in on],
            jobs=tuple(jobs),
            cancels_older=cancels_older,
            group=group,
        )
