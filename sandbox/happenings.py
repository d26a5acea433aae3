"""What happened, told to whom it concerns: the sandbox's own watchers (CI), and apps by webhook.

Each method names one GitHub event and gives its payload; `webhooks` adds repository, sender and installation, decides
who gets it, and delivers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox import payloads
from sandbox.state import (
    ZERO_SHA,
    Actor,
    CheckRun,
    CheckSuite,
    Comment,
    CommitStatus,
    Installation,
    Label,
    Protection,
    PullRequest,
    Repository,
    Review,
    Ruleset,
    Thread,
    WorkflowRun,
)

if TYPE_CHECKING:
    from sandbox.github import GitHub


COMMITS_LISTED = 2048
"""The most commits that a push lists ("Webhook events and payloads: push")."""


@dataclass(frozen=True, slots=True)
class Happening:
    """What watchers learn at once, webhook or not. `kind` is push, pull_request, rerequest or approved.

    `action` is a pull request's; `before` the commit that a push replaced; `branch` what was pushed to, or the base.
    """

    kind: str
    repository: Repository
    sha: str
    branch: str | None = None
    pull: PullRequest | None = None
    run: CheckRun | None = None
    workflow_run: WorkflowRun | None = None
    action: str = ""
    actor: Actor | None = None
    before: str | None = None


class Happenings:
    """Tells everyone, or, while muted, the watchers only."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github
        self._muted = False
        self.watchers: list[Callable[[Happening], None]] = []

    @contextmanager
    def muted(self, muted: bool = True) -> Iterator[None]:
        """Within it no webhook leaves: GitHub's state changes, and nobody is told."""
        before, self._muted = self._muted, muted
        try:
            yield
        finally:
            self._muted = before

    def tell(self, happening: Happening) -> None:
        """Tell the watchers."""
        for watcher in tuple(self.watchers):
            watcher(happening)

    def push(
        self, repository: Repository, branch: str, before: str | None, after: str | None, forced: bool, actor: Actor
    ) -> None:
        """A branch was created, moved or deleted; creation and deletion have an event of their own besides."""
        self._send(
            "push",
            None,
            repository,
            actor,
            lambda: self._push_content(repository, branch, before, after, forced, actor),
        )
        if before is None or after is None:
            content: dict[str, Any] = {"ref": branch, "ref_type": "branch", "pusher_type": "user"}
            if after is not None:
                content |= {"master_branch": repository.default_branch, "description": None}
            self._send("delete" if after is None else "create", None, repository, actor, lambda: content)
        if after is not None:
            self._github.checks.requested(repository, after, branch, before)
            self.tell(Happening("push", repository, after, branch=branch, actor=actor, before=before))

    def tag(self, repository: Repository, name: str, sha: str, actor: Actor) -> None:
        """A tag was pushed: a push to `refs/tags/...` that lists no commits, and an event of its creation."""
        ref = {"ref": f"refs/tags/{name}"}
        self._send(
            "push",
            None,
            repository,
            actor,
            lambda: self._push_content(repository, name, None, sha, False, actor) | ref,
        )
        created: dict[str, Any] = {"ref": name, "ref_type": "tag", "pusher_type": "user"}
        created |= {"master_branch": repository.default_branch, "description": None}
        self._send("create", None, repository, actor, lambda: created)

    def protections(self, repository: Repository, action: str, actor: Actor) -> None:
        """All branch protections of a repository were disabled, or enabled again."""
        self._send("branch_protection_configuration", action, repository, actor, dict)

    def account_renamed(self, installation: Installation, before: str) -> None:
        """The account that an app is installed on has another login."""
        account, github = installation.account, self._github
        shown = payloads.user(github, account)
        content: dict[str, Any] = {
            "account": shown,
            "changes": {"login": {"from": before}},
            "installation": {"id": installation.id, "node_id": payloads.node_id("Installation", installation.id)},
            "target_type": account.kind,
        }
        self._to_app("installation_target", "renamed", installation, content)

    def pull_request(self, pull: PullRequest, action: str, actor: Actor, **extra: Any) -> None:
        """Something happened to a pull request; `extra` are the action's own fields."""
        github = self._github
        self._send(
            "pull_request",
            action,
            pull.repository,
            actor,
            lambda: {"number": pull.number, "pull_request": payloads.pull_request(github, pull, ask=False)} | extra,
        )
        repository, sha = pull.repository, pull.head_sha
        self.tell(Happening("pull_request", repository, sha, pull.base_branch, pull, action=action, actor=actor))

    def comment(self, pull: PullRequest, comment: Comment, action: str, actor: Actor, **extra: Any) -> None:
        """A comment was created, edited or deleted."""
        github = self._github
        self._send(
            "issue_comment",
            action,
            pull.repository,
            actor,
            lambda: {"issue": payloads.issue(github, pull), "comment": payloads.comment(github, pull, comment)} | extra,
        )

    def review(self, pull: PullRequest, review: Review, action: str, actor: Actor) -> None:
        """A review was submitted or dismissed."""
        github = self._github
        self._send(
            "pull_request_review",
            action,
            pull.repository,
            actor,
            lambda: {
                "review": payloads.review(github, pull, review) | {"state": review.state.lower()},
                "pull_request": payloads.simple_pull_request(github, pull),
            },
        )

    def review_comment(self, pull: PullRequest, thread: Thread, action: str, actor: Actor) -> None:
        """A comment on a line of the diff was created."""
        github = self._github
        self._send(
            "pull_request_review_comment",
            action,
            pull.repository,
            actor,
            lambda: {
                "comment": payloads.review_comment(github, pull, thread),
                "pull_request": payloads.simple_pull_request(github, pull),
            },
        )

    def thread(self, pull: PullRequest, thread: Thread, action: str, actor: Actor) -> None:
        """A conversation was resolved, or opened again."""
        github = self._github
        self._send(
            "pull_request_review_thread",
            action,
            pull.repository,
            actor,
            lambda: {
                "thread": payloads.thread(github, pull, thread),
                "pull_request": payloads.simple_pull_request(github, pull),
            },
        )

    def label(self, repository: Repository, label: Label, action: str, actor: Actor, **extra: Any) -> None:
        """A repository's label was created, edited or deleted."""
        github = self._github
        self._send(
            "label",
            action,
            repository,
            actor,
            lambda: {"label": payloads.label(github, repository, label)} | extra,
        )

    def repository(self, repository: Repository, action: str, actor: Actor, **extra: Any) -> None:
        """A repository was renamed, transferred, archived or unarchived."""
        self._send("repository", action, repository, actor, lambda: extra)

    def check_run(self, run: CheckRun, action: str, actor: Actor | None = None) -> None:
        """A run was created, completed or rerequested; the last concerns its own app only."""
        github = self._github
        sender = actor or Actor(run.app.bot, run.app)
        only = run.suite if action == "rerequested" else None
        self._send(
            "check_run",
            action,
            run.repository,
            sender,
            lambda: {"check_run": payloads.check_run(github, run)},
            only=only,
        )

    def check_suite(self, suite: CheckSuite, action: str) -> None:
        """A suite was requested or rerequested, which concerns its own app only, or completed."""
        github = self._github
        only = suite if action in {"requested", "rerequested"} else None
        self._send(
            "check_suite",
            action,
            suite.repository,
            Actor(suite.app.bot, suite.app),
            lambda: {"check_suite": payloads.check_suite(github, suite, webhook=True)},
            only=only,
        )

    def workflow_run(self, run: WorkflowRun, action: str) -> None:
        """A run of Actions was requested, is in progress, or completed."""
        github = self._github
        self._send(
            "workflow_run",
            action,
            run.repository,
            Actor(run.rerun_by or run.actor),
            lambda: {
                "workflow": payloads.workflow(github, run.repository, run.workflow),
                "workflow_run": payloads.workflow_run(github, run, webhook=True),
            },
        )

    def status(self, repository: Repository, status: CommitStatus, actor: Actor) -> None:
        """A commit status was reported."""
        github = self._github
        self._send("status", None, repository, actor, lambda: payloads.status_event(github, repository, status))

    def protection(self, repository: Repository, protection: Protection, action: str, actor: Actor) -> None:
        """Classic protection was created, edited or deleted."""
        extra: dict[str, Any] = {"changes": {}} if action == "edited" else {}
        self._send(
            "branch_protection_rule",
            action,
            repository,
            actor,
            lambda: {"rule": payloads.protection_rule(repository, protection)} | extra,
        )

    def ruleset(self, repository: Repository | None, ruleset: Ruleset, action: str, actor: Actor) -> None:
        """A ruleset was created, edited or deleted; an organisation's is told without a repository."""
        github = self._github
        if repository is None:
            if not self._muted and ruleset.organisation is not None:
                content = {"repository_ruleset": payloads.ruleset(github, None, ruleset)}
                github.webhooks.send_of_account("repository_ruleset", action, ruleset.organisation, actor.user, content)
            return
        self._send(
            "repository_ruleset",
            action,
            repository,
            actor,
            lambda: {"repository_ruleset": payloads.ruleset(github, repository, ruleset)},
        )

    def installation(self, installation: Installation, action: str, repositories: Sequence[Repository]) -> None:
        """An app was installed, removed, suspended or unsuspended: its app always learns."""
        github = self._github
        content = {
            "installation": payloads.installation(github, installation),
            "repositories": [payloads.repository_stub(github, repository) for repository in repositories],
            "requester": None,
        }
        self._to_app("installation", action, installation, content)

    def installation_repositories(
        self, installation: Installation, added: Sequence[Repository], removed: Sequence[Repository]
    ) -> None:
        """An installation sees other repositories than before: its app always learns."""
        github = self._github
        content = {
            "installation": payloads.installation(github, installation),
            "repository_selection": "all" if installation.repositories is None else "selected",
            "repositories_added": [payloads.repository_stub(github, repository) for repository in added],
            "repositories_removed": [payloads.repository_stub(github, repository) for repository in removed],
            "requester": None,
        }
        self._to_app("installation_repositories", "added" if added else "removed", installation, content)

    def _send(
        self,
        event: str,
        action: str | None,
        repository: Repository,
        actor: Actor,
        content: Callable[[], dict[str, Any]],
        *,
        only: CheckSuite | None = None,
    ) -> None:
        self._github.history.changed()
        if not self._muted:
            app = only.app if only else None
            self._github.webhooks.send(event, action, repository, actor.user, content, only=app)

    def _to_app(self, event: str, action: str, installation: Installation, content: dict[str, Any]) -> None:
        if not self._muted:
            content |= {"action": action, "sender": payloads.user(self._github, installation.account)}
            self._github.webhooks.send_to(installation, event, action, content)

    def _push_content(
        self, repository: Repository, branch: str, before: str | None, after: str | None, forced: bool, actor: Actor
    ) -> dict[str, Any]:
        git = repository.git
        new = git.log(after, before) if after and before else []
        commits = [payloads.push_commit(self._github, repository, commit) for commit in reversed(new[:COMMITS_LISTED])]
        head = payloads.push_commit(self._github, repository, git.must(after)) if after else None
        ends = f"{(before or ZERO_SHA)[:12]}...{(after or ZERO_SHA)[:12]}"
        return {
            "ref": f"refs/heads/{branch}",
            "before": before or ZERO_SHA,
            "after": after or ZERO_SHA,
            "created": before is None,
            "deleted": after is None,
            "forced": forced,
            "base_ref": None,
            "compare": f"{self._github.html_url}/{repository.full_name}/compare/{ends}",
            "commits": commits,
            "head_commit": head,
            "pusher": {"name": actor.user.login, "email": actor.user.email},
        }
