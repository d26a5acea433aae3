"""What happened, told to whom it concerns: the sandbox's own watchers (CI), and apps by webhook.

Each method names one GitHub event and gives its payload; `webhooks` adds repository, sender and installation, decides
who gets it, and delivers.
"""

from collections.abc import Sequence
from typing import Any

from sandbox import payloads
from sandbox.pull_request_events import PullRequestEvents
from sandbox.push_events import PushEvents
from sandbox.state import (
    Actor,
    CheckRun,
    CheckSuite,
    CommitStatus,
    Installation,
    Label,
    Protection,
    Repository,
    Ruleset,
    WorkflowRun,
)


class Happenings(PushEvents, PullRequestEvents):
    """Sends every event that GitHub has, of whatever kind."""

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
