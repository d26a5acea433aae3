"""JSON that only the REST API shows: what webhooks never carry."""

import json
from typing import Any

from github_emulator import payloads
from github_emulator.facade.github import GitHub
from github_emulator.payloads.times import timestamp
from github_emulator.state import Delivery, PullRequest, Reaction, User


def public_user(github: GitHub, record: User) -> dict[str, Any]:
    """`public-user`: an account's profile."""
    return payloads.user(github.source, record) | {
        "name": record.login,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "hireable": None,
        "bio": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.created_at),
    }


def delivery(record: Delivery) -> dict[str, Any]:
    """`hook-delivery-item`."""
    return {
        "id": record.id,
        "guid": record.guid,
        "delivered_at": timestamp(record.delivered_at),
        "redelivery": record.redelivery,
        "duration": record.duration,
        "status": record.status,
        "status_code": record.status_code,
        "event": record.event,
        "action": record.action,
        "installation_id": record.installation_id,
        "repository_id": record.repository_id,
        "throttled_at": None,
    }


def delivery_detail(record: Delivery) -> dict[str, Any]:
    """`hook-delivery`: with what was sent and what came back."""
    return delivery(record) | {
        "url": record.url,
        "request": {"headers": dict(record.request_headers), "payload": json.loads(record.payload)},
        "response": {"headers": dict(record.response_headers), "payload": record.response_body},
    }


def reaction(github: GitHub, record: Reaction) -> dict[str, Any]:
    """`reaction`."""
    return {
        "id": record.id,
        "node_id": payloads.node_id("Reaction", record.id),
        "user": payloads.user(github.source, record.user),
        "content": record.content,
        "created_at": timestamp(record.created_at),
    }


def timeline(github: GitHub, pull: PullRequest) -> list[dict[str, Any]]:
    """Everything that happened to a pull request, oldest first; commits stand at the instant they were made."""
    record = pull.repository
    items: list[tuple[str, int, dict[str, Any]]] = []
    for commit in github.pulls.commits(pull):
        shown = payloads.git_commit(github.source, record, commit)
        items.append((shown["committer"]["date"], 0, {"event": "committed", **shown}))
    for comment in pull.comments.values():
        shown = payloads.comment(github.source, pull, comment)
        items.append((shown["created_at"], comment.id, {"event": "commented", "actor": shown["user"], **shown}))
    for review in pull.reviews:
        shown = payloads.review(github.source, pull, review) | {"state": review.state.lower()}
        items.append((shown["submitted_at"], review.id, {"event": "reviewed", **shown}))
    for event in pull.events:
        if event.event != "reviewed":
            shown = payloads.issue_event(github.source, pull, event)
            items.append((shown["created_at"], event.id, shown))
    return [item for _, _, item in sorted(items, key=lambda entry: entry[:2])]
