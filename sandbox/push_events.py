"""Events of git's references: branches and tags that are created, moved or deleted."""

from typing import Any

from sandbox import payloads
from sandbox.event_sender import EventSender, Happening
from sandbox.payloads import Push
from sandbox.state import Actor, Repository


class PushEvents(EventSender):
    """Sends pushes; a creation and a deletion have an event of their own besides."""

    def push(
        self, repository: Repository, branch: str, before: str | None, after: str | None, forced: bool, actor: Actor
    ) -> None:
        """Somebody created, moved or deleted a branch: apps that run checks are asked for them."""
        self._send_push(Push(repository, f"refs/heads/{branch}", before, after, forced, actor))
        if after is not None:
            self._github.checks.requested(repository, after, branch, before)
            self.tell(Happening("push", repository, after, branch=branch, actor=actor, before=before))

    def tag(self, repository: Repository, name: str, before: str | None, after: str | None, actor: Actor) -> None:
        """Somebody created, moved or deleted a tag. `after` is a commit, or the object of an annotated tag."""
        forced = before is not None and after is not None
        self._send_push(Push(repository, f"refs/tags/{name}", before, after, forced, actor))

    def _send_push(self, push: Push) -> None:
        repository, actor = push.repository, push.actor
        self._send("push", None, repository, actor, lambda: payloads.push(self._github, push))
        if push.before is not None and push.after is not None:
            return
        _, kind, name = push.ref.split("/", 2)
        ref_type = "branch" if kind == "heads" else "tag"
        content: dict[str, Any] = {"ref": name, "ref_type": ref_type, "pusher_type": "user"}
        if push.after is not None:
            content |= {"master_branch": repository.default_branch, "description": None}
        self._send("delete" if push.after is None else "create", None, repository, actor, lambda: content)
