"""What people do to a pull request, and what they see of it.

Every action takes `by`, a login: the repository's owner when left out, except that by default the author pushes,
closes, reopens and edits. `webhook=False` changes the state and sends no webhook.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from github_emulator.core.git import Signature
from github_emulator.domain.domain import Domain
from github_emulator.events.events import PullRequestChanged
from github_emulator.state import Actor, CheckRun, Comment, IssueEvent, PullRequest, Review, Thread


class PullRequestHandle:
    """A pull request in people's hands. `record` is its state."""

    def __init__(self, domain: Domain, record: PullRequest) -> None:
        self.domain = domain
        self.record = record

    # What people see

    @property
    def number(self) -> int:
        """Its number in the repository."""
        return self.record.number

    @property
    def labels(self) -> list[str]:
        """Names of its labels."""
        return [label.name for label in self.record.labels]

    @property
    def comments(self) -> list[Comment]:
        """Its comments, oldest first."""
        return list(self.record.comments.values())

    @property
    def head_sha(self) -> str:
        """The head."""
        return self.record.head_sha

    @property
    def state(self) -> str:
        """open or closed; merged is closed too."""
        return self.record.state

    @property
    def merged(self) -> bool:
        """Whether it landed."""
        return self.record.merged

    @property
    def merge_sha(self) -> str | None:
        """The commit that landed it; None while it has not landed."""
        return self.record.merge_commit_sha if self.record.merged else None

    @property
    def check_runs(self) -> list[CheckRun]:
        """All check runs on its head, newest first."""
        return self.domain.checks.runs(self.record.repository, self.record.head_sha)

    @property
    def events(self) -> list[IssueEvent]:
        """Its timeline, oldest first."""
        return list(self.record.events)

    # What people do

    def label(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Put a label on."""
        with self._acting(by, webhook) as actor:
            self.domain.conversation.label(self.record, [name], actor=actor)

    def unlabel(self, name: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Take a label off."""
        with self._acting(by, webhook) as actor:
            self.domain.conversation.unlabel(self.record, name, actor=actor)

    def comment(self, body: str, *, by: str | None = None, app: str | None = None, webhook: bool = True) -> Comment:
        """Say something; with `app` that App does, in the person's name.

        GitHub names the App in the comment's `performed_via_github_app`, which is null for what people write. Reviews
        do not have the field ("REST API endpoints for issue comments" and "for pull request reviews").
        """
        with self._acting(by, webhook) as actor:
            apps = self.domain.context.state.apps.values()
            writer = replace(actor, app=next(each for each in apps if each.slug == app)) if app else actor
            return self.domain.conversation.comment(self.record, body, actor=writer)

    def edit_comment(self, comment: Comment, body: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Edit the comment, by default as its author."""
        with self._acting(by or comment.user.login, webhook) as actor:
            self.domain.conversation.edit_comment(self.record, comment, body, actor=actor)

    def delete_comment(self, comment: Comment, *, by: str | None = None, webhook: bool = True) -> None:
        """Delete the comment, by default as its author."""
        with self._acting(by or comment.user.login, webhook) as actor:
            self.domain.conversation.delete_comment(self.record, comment, actor=actor)

    def review(self, state: str, *, by: str | None = None, body: str = "", webhook: bool = True) -> Review:
        """Review it: APPROVED, CHANGES_REQUESTED or COMMENTED."""
        with self._acting(by, webhook) as actor:
            return self.domain.conversation.review(self.record, state, actor=actor, body=body)

    def dismiss_review(self, review: Review, *, by: str | None = None, webhook: bool = True) -> None:
        """Make a verdict count no longer."""
        with self._acting(by, webhook) as actor:
            self.domain.conversation.dismiss_review(self.record, review, actor=actor)

    def open_thread(self, body: str, *, by: str | None = None, path: str = "", webhook: bool = True) -> Thread:
        """Start a conversation on a file that it changes."""
        with self._acting(by, webhook) as actor:
            return self.domain.conversation.open_thread(self.record, body, actor=actor, path=path)

    def resolve_thread(
        self, thread: Thread, *, by: str | None = None, resolved: bool = True, webhook: bool = True
    ) -> None:
        """Mark a conversation as resolved, or as open again; by default as the author."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.conversation.resolve_thread(self.record, thread, actor=actor, resolved=resolved)

    def sign(self) -> None:
        """All its commits carry signatures that GitHub verified."""
        self.domain.context.state.signed.update(commit.sha for commit in self.domain.pulls.commits(self.record))

    def deploy(self, environment: str) -> None:
        """Deploy its head to an environment, with success; there is no webhook."""
        self.record.repository.deployed.setdefault(self.head_sha, set()).add(environment)

    def assign(self, login: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Assign somebody."""
        with self._acting(by, webhook) as actor:
            self.domain.conversation.assign(self.record, [login], actor=actor)

    def request_review(
        self, login: str, *, by: str | None = None, requested: bool = True, webhook: bool = True
    ) -> None:
        """Request somebody's review, or withdraw the request."""
        with self._acting(by, webhook) as actor:
            user = self.domain.accounts.actor(login).user
            self.domain.conversation.request_review(self.record, user, actor=actor, requested=requested)

    def push(
        self,
        files: Mapping[str, str | None],
        message: str = "Another change",
        *,
        by: str | None = None,
        webhook: bool = True,
    ) -> str:
        """Push one more commit to its head branch; returns the new head."""
        return self._push(self.record.head_sha, files, message, by, webhook)

    def force_push(
        self,
        files: Mapping[str, str | None],
        message: str = "Rewritten",
        *,
        onto: str | None = None,
        by: str | None = None,
        webhook: bool = True,
    ) -> str:
        """Replace all its commits by one on the merge base (or on commit `onto`); returns the new head."""
        git = self.record.repository.git
        tip = git.branch(self.record.base_branch) or self.record.base_sha
        start = onto or git.merge_base(tip, self.record.head_sha) or tip
        return self._push(start, files, message, by, webhook)

    def close(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Close it."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.edit(self.record, actor=actor, state="closed")

    def reopen(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Open it again. Raises Invalid when it is merged or a branch is gone."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.edit(self.record, actor=actor, state="open")

    def convert_to_draft(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Make it a draft."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.set_draft(self.record, True, actor=actor)

    def ready_for_review(self, *, by: str | None = None, webhook: bool = True) -> None:
        """It is no draft any more."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.set_draft(self.record, False, actor=actor)

    def edit_base(self, base: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Aim it at another branch."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.edit(self.record, actor=actor, base=base)

    def lock(self, locked: bool = True, *, by: str | None = None, webhook: bool = True) -> None:
        """Lock its conversation, or unlock it."""
        with self._acting(by, webhook) as actor:
            self.domain.conversation.lock(self.record, actor=actor, locked=locked)

    def edit_title(self, title: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Rename it."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.edit(self.record, actor=actor, title=title)

    def edit_body(self, body: str, *, by: str | None = None, webhook: bool = True) -> None:
        """Change the description."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.pulls.edit(self.record, actor=actor, body=body)

    def delete_fork(self, *, by: str | None = None) -> None:
        """Delete the fork of its head. The pull request stays, its repository unknown; there is no webhook."""
        fork = self.record.head_repository
        if fork is None or fork is self.record.repository:
            raise ValueError("the head does not live in a fork")
        self.domain.accounts.require_role(self.domain.accounts.actor(by or fork.owner.login), fork, "admin")
        del self.domain.context.state.repositories[fork.full_name.lower()]
        for pull in self.record.repository.pulls.values():
            if pull.head_repository is fork:
                pull.head_repository = None

    def merge(self, method: str = "merge", *, by: str | None = None, webhook: bool = True) -> str:
        """Merge it by hand; returns the landed SHA. Raises NotMergeable, Conflict or Forbidden as the API does."""
        with self._acting(by, webhook) as actor:
            return self.domain.merging.merge(self.record, actor=actor, method=method)

    def enable_auto_merge(self, method: str = "merge", *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Enable auto-merge". Raises Invalid where GitHub does not offer that."""
        with self._acting(by, webhook) as actor:
            self.domain.auto_merges.enable(self.record, actor=actor, method=method)

    def disable_auto_merge(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Disable auto-merge"."""
        with self._acting(by, webhook) as actor:
            self.domain.auto_merges.disable(self.record, actor=actor)

    def update_branch(self, *, by: str | None = None, webhook: bool = True) -> None:
        """Press "Update branch"; it happens a moment later."""
        with self._acting(by or self._author, webhook) as actor:
            self.domain.merging.update_branch(self.record, actor=actor)

    @property
    def _author(self) -> str:
        return self.record.author.login

    def announce(self, action: str, *, by: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        """Send the webhook `pull_request` with this action again, or late: nothing changes. `details` are its own.

        Such as `before` and `after` of a push (`synchronize`), or `changes` of an edit.
        """
        with self._acting(by, True) as actor:
            event = PullRequestChanged(self.record, action, actor, details=dict(details or {}))
            self.domain.context.events.publish(event)

    @contextmanager
    def _acting(self, by: str | None, webhook: bool) -> Iterator[Actor]:
        with self.domain.context.events.muted(not webhook):
            yield self.domain.accounts.actor(by or self.record.repository.owner.login)

    def _push(self, parent: str, files: Mapping[str, str | None], message: str, by: str | None, webhook: bool) -> str:
        head = self.record.head_repository
        if head is None:
            raise ValueError("the fork is gone")
        with self._acting(by or self._author, webhook) as actor:
            author = Signature(actor.user.login, actor.user.email, self.domain.context.clock.now())
            sha = head.git.write_commit(head.git.write_tree(parent, files), (parent,), message, author)
            self.domain.refs.update(head, self.record.head_branch, sha, actor=actor, force=True)
        return sha
