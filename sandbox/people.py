"""What people do to a repository: push, branch, open pull requests, protect branches, set CI up.

Every action takes `by`, a login (the owner's when left out), and `webhook`: False changes the state and tells no app.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from sandbox.ci import CI
from sandbox.errors import NotFound
from sandbox.git import Commit, Signature
from sandbox.people_pulls import PullRequestHandle
from sandbox.people_rules import RulesHandle
from sandbox.runner import WorkflowRunner
from sandbox.state import CheckRun, Stack, WorkflowRun
from sandbox.workflows import Job, Judge, Trigger, all_green


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

    def stack(self, *pulls: PullRequestHandle) -> Stack:
        """Put open pull requests into a stack, the bottom first. Raises Invalid when one is not based on the last."""
        return self.github.stacks.form(self.record, [pull.record for pull in pulls])

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

    def rerun(self, run: CheckRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Re-run" on a check: its app is asked, or the failed jobs of its workflow run start again."""
        actor = self._actor(by)
        with self.github.happenings.muted(not webhook):
            if run.workflow_run is None:
                self.github.checks.rerequest(run, actor=actor)
            else:
                self.github.actions.rerun(run.workflow_run, actor=actor, failed_only=True)

    def rerun_suite(self, run: CheckRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Re-run all checks" on the suite of a check."""
        with self.github.happenings.muted(not webhook):
            self.github.checks.rerequest_suite(run.suite, actor=self._actor(by))

    def push_tag(
        self, name: str, ref: str = "", *, message: str | None = None, by: str | None = None, webhook: bool = True
    ) -> str:
        """Push a new tag on a commit, annotated if it has a message; returns what the tag names."""
        sha, actor = self.sha(ref), self._actor(by)
        if message is not None:
            tagger = Signature(actor.user.login, actor.user.email, self.github.clock.now())
            sha = self.record.git.write_tag(name, sha, message, tagger)
        with self.github.happenings.muted(not webhook):
            self.github.tags.create(self.record, name, sha, actor=actor)
        return sha

    def delete_tag(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete a tag."""
        with self.github.happenings.muted(not webhook):
            self.github.tags.delete(self.record, name, actor=self._actor(by))

    def cancel(self, run: WorkflowRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Cancel workflow" on a run of Actions."""
        with self.github.happenings.muted(not webhook):
            self.github.actions.cancel(run, actor=self._actor(by))

    def approve(self, run: WorkflowRun, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Approve and run" on a run of Actions that waits for it."""
        with self.github.happenings.muted(not webhook):
            self.github.actions.approve(run, actor=self._actor(by))

    def edit_label(self, name: str, new_name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Rename a label of the repository; it stays on its pull requests."""
        with self.github.happenings.muted(not webhook):
            self.github.conversation.edit_label(self.record, name, new_name, actor=self._actor(by))

    def rename(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Give the repository another name; its old path leads to it."""
        with self.github.happenings.muted(not webhook):
            self.github.moves.rename(self.record, name, actor=self._actor(by))

    def transfer(self, owner: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Give the repository to another owner; it leaves installations, and may come to others."""
        with self.github.happenings.muted(not webhook):
            self.github.moves.transfer(self.record, owner, actor=self._actor(by))

    def archive(self, archived: bool = True, *, by: str | None = None, webhook: bool = True) -> None:
        """Make the repository read-only, or end that."""
        with self.github.happenings.muted(not webhook):
            self.github.moves.archive(self.record, actor=self._actor(by), archived=archived)

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
        plan: Sequence[str] = (),
        workflow: str | None = None,
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
            plan=plan,
            workflow=workflow,
            reports=reports,
            finishes=finishes,
            on=frozenset(on),
            branches=branches,
            cancels_older=cancels_older,
        )

    def add_workflow(
        self,
        name: str = "CI",
        *,
        jobs: Iterable[Job] = (Job("test"),),
        on: Iterable[Trigger | str] = ("push", "pull_request"),
        path: str | None = None,
        cancels_older: bool = False,
    ) -> WorkflowRunner:
        """Add a workflow of GitHub Actions; see `sandbox.runner.WorkflowRunner`. An event's name has no filters."""
        return WorkflowRunner(
            self.github,
            self.record,
            self.github.actions.workflow(self.record, name, path),
            triggers=[Trigger(one) if isinstance(one, str) else one for one in on],
            jobs=tuple(jobs),
            cancels_older=cancels_older,
        )
