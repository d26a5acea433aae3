"""Messages about pull requests, their comments, reviews and conversations."""

from collections.abc import Iterable
from typing import Any

from github_emulator import payloads
from github_emulator.events.events import (
    CommentChanged,
    PullRequestChanged,
    ReviewChanged,
    ReviewCommentChanged,
    ThreadChanged,
)
from github_emulator.payloads.source import Source
from github_emulator.webhooks.message import Composers, Message


def _pull_request(source: Source, event: PullRequestChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        pull = event.pull
        shown = {"number": pull.number, "pull_request": payloads.pull_request(source, pull, ask=False)}
        if event.label is not None:
            shown["label"] = payloads.label(source, pull.repository, event.label)
        if event.assignee is not None:
            shown["assignee"] = payloads.user(source, event.assignee)
        return shown | dict(event.details)

    yield Message("pull_request", event.action, content)


def _comment(source: Source, event: CommentChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        comment = payloads.comment(source, event.pull, event.comment)
        return {"issue": payloads.issue(source, event.pull), "comment": comment} | dict(event.details)

    yield Message("issue_comment", event.action, content)


def _review(source: Source, event: ReviewChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        review = payloads.review(source, event.pull, event.review) | {"state": event.review.state.lower()}
        return {"review": review, "pull_request": payloads.simple_pull_request(source, event.pull)}

    yield Message("pull_request_review", event.action, content)


def _review_comment(source: Source, event: ReviewCommentChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        comment = payloads.review_comment(source, event.pull, event.thread)
        return {"comment": comment, "pull_request": payloads.simple_pull_request(source, event.pull)}

    yield Message("pull_request_review_comment", event.action, content)


def _thread(source: Source, event: ThreadChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        thread = payloads.thread(source, event.pull, event.thread)
        return {"thread": thread, "pull_request": payloads.simple_pull_request(source, event.pull)}

    yield Message("pull_request_review_thread", event.action, content)


COMPOSERS: Composers = {
    PullRequestChanged: _pull_request,
    CommentChanged: _comment,
    ReviewChanged: _review,
    ReviewCommentChanged: _review_comment,
    ThreadChanged: _thread,
}
