"""Events of pull requests: what people do to one, and what they say about it."""

from typing import Any

from sandbox import payloads
from sandbox.event_sender import EventSender, Happening
from sandbox.state import Actor, Comment, PullRequest, Review, Thread


class PullRequestEvents(EventSender):
    """Sends the events of pull requests, comments, reviews and conversations."""

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
