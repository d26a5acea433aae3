"""What makes a CI system test something."""

from dataclasses import dataclass

from github_emulator.events.check_events import CommitPushed
from github_emulator.events.events import CommentChanged, PullRequestChanged
from github_emulator.state import Actor, PullRequest, Repository


@dataclass(frozen=True, slots=True)
class CIEvent:
    """A push, or an event of a pull request or its comments. `kind` is GitHub's word, `action` is not a push's.

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


def ci_event(event: CommitPushed | PullRequestChanged | CommentChanged) -> CIEvent:
    """What an event of the domain means to a CI system.

    A comment's run is one of the default branch: its `GITHUB_SHA` is that branch's tip (docs, "Events that trigger
    workflows"; UCL/TLOmodel #1119), so that no check run appears on the pull request.
    """
    if isinstance(event, CommitPushed):
        return CIEvent("push", event.repository, event.sha, event.branch, event.actor, before=event.before)
    pull = event.pull
    if isinstance(event, CommentChanged):
        branch = pull.repository.default_branch
        tip = pull.repository.git.branch(branch)
        assert tip is not None
        return CIEvent("issue_comment", pull.repository, tip, branch, event.actor, pull, event.action)
    return CIEvent(
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
