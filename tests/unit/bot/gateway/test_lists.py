"""What the gateway lists: pull requests, labellings, and the repositories that it serves."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import LabelEvent, OwnComment, RepositoryState
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.answers import repository as repository_answer
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"


async def test_labeled_pull_requests_leave_issues_out(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Issues carry labels too; the label's name is one query value whatever it contains."""
    path = f"{REPO}/issues"
    github.on(
        "GET",
        path,
        Says(
            [
                {"number": 1, "updated_at": "2026-01-01T00:00:00Z"},
                {"number": 2, "updated_at": "2026-01-01T01:00:00Z", "pull_request": {"url": "x"}},
            ]
        ),
    )
    found = await gateway.labeled_pull_requests(repository, "merge & queue")
    assert found == (2,)
    query = github.asked_for("GET", path)[0].query
    assert (query["labels"], query["state"], query["sort"], query["direction"]) == (
        "merge & queue",
        "open",
        "created",
        "asc",
    )


async def test_latest_pull_requests_are_one_page_of_open_ones(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A list has neither `mergeable` nor `merged`, and costs one request."""
    listed = {key: value for key, value in pull_request().items() if key not in ("mergeable", "merged")}
    link = {"link": f'<{github.url}/more>; rel="next"'}
    github.on("GET", f"{REPO}/pulls", Says([listed], headers=link))
    (found,) = await gateway.latest_pull_requests(repository)
    assert (found.number, found.open, found.merged, found.mergeable) == (3, True, False, None)
    query = github.asked_for("GET", f"{REPO}/pulls")[0].query
    assert query == {"state": "open", "sort": "updated", "direction": "desc", "per_page": "100"}


async def test_own_comments_are_at_most_three_pages_of_the_latest(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: of a busy repository not everything is read; other people's comments do not count."""
    comment = {
        "id": 4,
        "body": "Queued",
        "user": {"login": "imq[bot]"},
        "performed_via_github_app": None,
        "issue_url": "https://api.github.com/repos/ada/engine/issues/3",
        "updated_at": "2026-01-05T09:00:00Z",
    }
    theirs = {**comment, "user": {"login": "ada"}}
    path = f"{REPO}/issues/comments"
    github.on("GET", path, Says([comment, theirs], headers={"link": f'<{github.url}{path}>; rel="next"'}))
    found = await gateway.own_comments(repository, datetime(2026, 1, 4, tzinfo=UTC))
    changed = datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert found == ((OwnComment(3, "Queued", changed, 4),) * 3, changed)
    query = github.asked_for("GET", path)[0].query
    assert query == {"sort": "updated", "direction": "desc", "since": "2026-01-04T00:00:00Z", "per_page": "100"}


LABELED_AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


def _labeled(actor: str | None, label: str = "merge-queue", event: str = "labeled") -> dict[str, Any]:
    return {
        "event": event,
        "created_at": "2026-01-05T09:00:00Z",
        "label": {"name": label},
        "actor": {"login": actor} if actor else None,
    }


async def test_last_labeled_event_names_the_last_who_set_the_label(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """An earlier setter's right does not serve the later one; other labels and removals do not count."""
    events = [
        _labeled("ada"),
        _labeled("grace", "Merge-Queue"),
        _labeled("eve", "bug"),
        _labeled("eve", event="unlabeled"),
        {"event": "renamed", "created_at": "2026-01-05T09:00:00Z", "actor": None},
    ]
    github.on("GET", f"{REPO}/issues/3/events", Says(events))
    later = frozenset({"labeled", "unlabeled", "renamed"})
    assert await gateway.last_labeled_event(repository, 3, "merge-queue") == LabelEvent("grace", LABELED_AT, later)


async def test_last_labeled_event_is_read_from_the_last_page_backwards(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Events come oldest first: of a thousand of them the newest are read."""
    events, pages = f"{REPO}/issues/3/events", f"{github.url}/events"
    last = {"link": f'<{pages}/2>; rel="next", <{pages}/3>; rel="last"'}
    github.on("GET", events, Says([_labeled("ada")], headers=last))
    closed = {"event": "closed", "created_at": "2026-01-05T09:00:00Z", "actor": None}
    github.on("GET", "/events/3", Says([closed], headers={"link": f'<{pages}/2>; rel="prev"'}))
    github.on("GET", "/events/2", Says([_labeled("grace")], headers={"link": f'<{pages}/1>; rel="prev"'}))
    expected = LabelEvent("grace", LABELED_AT, frozenset({"closed"}))
    assert await gateway.last_labeled_event(repository, 3, "merge-queue") == expected
    assert github.asked_for("GET", "/events/1") == []


@pytest.mark.parametrize(("events", "expected"), [([], None), ([_labeled(None)], LabelEvent(None, LABELED_AT))])
async def test_last_labeled_event_unknown_is_none(
    gateway: Gateway, github: GitHubDouble, repository: Repository, events: list[Any], expected: LabelEvent | None
) -> None:
    """Old events are lost sometimes, and accounts are deleted."""
    github.on("GET", f"{REPO}/issues/3/events", Says(events))
    assert await gateway.last_labeled_event(repository, 3, "merge-queue") == expected


async def test_installations_are_those_that_serve(gateway: Gateway, github: GitHubDouble) -> None:
    """Suspended installations are not asked for anything."""
    installations = [{"id": 1}, {"id": 2, "suspended_at": "2026-01-01T00:00:00Z"}]
    more = {"link": f'<{github.url}/more>; rel="next"'}
    github.on("GET", "/app/installations", Says(installations, headers=more))
    github.on("GET", "/more", Says([{"id": 4}]))
    assert await gateway.installations() == (1, 4)


async def test_repositories_are_those_of_an_installation_that_can_be_written(
    gateway: Gateway, github: GitHubDouble
) -> None:
    """Archived repositories are read-only and stay out."""
    listed = {"repositories": [repository_answer(id=5), repository_answer(id=6, archived=True)]}
    github.on("GET", "/installation/repositories", Says(listed))
    assert await gateway.repositories(4) == (Repository(5, "ada", "engine", 4),)


def attempt(number: int, status: str, code: int, **more: Any) -> dict[str, Any]:
    """An attempt to deliver a webhook, as GitHub lists it."""
    at = {"delivered_at": "2026-01-01T12:00:00Z", "guid": f"guid-{number}", "event": "push", "action": None}
    return {"id": number, "status": status, "status_code": code, "redelivery": False, **at, **more}


async def test_deliveries_are_judged_by_their_status_and_listed_without_a_filter(
    gateway: Gateway, github: GitHubDouble
) -> None:
    """One that never reached IMQ has no status code; the next page is asked for by its cursor."""
    attempts = [
        attempt(3, "OK", 202),
        attempt(2, "failed to connect to host", 0),
        attempt(1, "Service Unavailable", 503),
    ]
    more = {"link": f'<{github.url}/app/hook/deliveries?per_page=100&cursor=v1_9>; rel="next"'}
    github.on("GET", "/app/hook/deliveries", Says(attempts, headers=more), Says([]))
    page, cursor = await gateway.deliveries(None)
    assert [(each.guid, each.succeeded) for each in page] == [("guid-3", True), ("guid-2", False), ("guid-1", False)]
    assert cursor == "v1_9"
    assert await gateway.deliveries(cursor) == ((), None)
    assert [dict(each.query) for each in github.asked_for("GET", "/app/hook/deliveries")] == [
        {"per_page": "100"},
        {"per_page": "100", "cursor": "v1_9"},
    ]


async def test_repositories_while_github_is_in_trouble_raises(gateway: Gateway, github: GitHubDouble) -> None:
    """An incomplete list must not look like a complete one."""
    github.on("GET", "/installation/repositories", Says(status=502, body=b""))
    with pytest.raises(Unavailable):
        await gateway.repositories(1)


async def test_repository_is_asked_for_by_its_id(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Which stays the same when its name does not."""
    github.on("GET", f"/repositories/{repository.id}", Says(repository_answer(id=repository.id, archived=True)))
    assert await gateway.repository(repository) == RepositoryState("ada", "engine", archived=True)
