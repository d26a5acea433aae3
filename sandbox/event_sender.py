"""Events on their way: the sandbox's own watchers (CI) learn at once, apps by webhook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox import payloads
from sandbox.state import Actor, CheckRun, CheckSuite, Installation, PullRequest, Repository, WorkflowRun

if TYPE_CHECKING:
    from sandbox.github import GitHub


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


class EventSender:
    """Sends each event to the watchers and the apps, or, while muted, to the watchers only."""

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
        self._github.auto_merges.look(repository)
        if not self._muted:
            app = only.app if only else None
            self._github.webhooks.send(event, action, repository, actor.user, content, only=app)

    def _to_app(self, event: str, action: str, installation: Installation, content: dict[str, Any]) -> None:
        if not self._muted:
            content |= {"action": action, "sender": payloads.user(self._github, installation.account)}
            self._github.webhooks.send_to(installation, event, action, content)
