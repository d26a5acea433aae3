"""What makes a CI system test something."""

from dataclasses import dataclass

from sandbox.events.check_events import CommitPushed
from sandbox.events.events import PullRequestChanged
from sandbox.state import Actor, PullRequest, Repository


@dataclass(frozen=True, slots=True)
class CodeEvent:
    """A push, or an event of a pull request. `kind` is push or pull_request, `action` is a pull request's.

    `before` is the commit that a push replaced; `branch` is what was pushed to, or the pull request's base. `label` was
    set, and `labels` and `title` are those of the pull request then.
    """

    kind: str
    repository: Repository
    sha: str
    branch: str
    actor: Actor
    pull: PullRequest | None = None
    action: str = ""
    before: str | None = None
    label: str | None = None
    labels: frozenset[str] = frozenset()
    title: str = ""


def code_event(event: CommitPushed | PullRequestChanged) -> CodeEvent:
    """What an event of the domain means to a CI system."""
    if isinstance(event, CommitPushed):
        return CodeEvent("push", event.repository, event.sha, event.branch, event.actor, before=event.before)
    pull = event.pull
    return CodeEvent(
        "pull_request",
        pull.repository,
        pull.head_sha,
        pull.base_branch,
        event.actor,
        pull,
        event.action,
        label=event.label.name if event.label is not None else None,
        labels=frozenset(label.name for label in pull.labels),
        title=pull.title,
    )
