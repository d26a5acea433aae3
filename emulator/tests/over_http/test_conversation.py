"""Labels, comments, events and issues over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from over_http.conftest import Client, R


@pytest.fixture
def pull(client: Client) -> Any:
    return client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})


async def test_label_that_is_not_on_cannot_be_taken_off(client: Client, pull: Any) -> None:
    """GitHub's own words for it; label names ignore case, and may hold anything."""
    place = f"{R}/issues/{pull.number}/labels"
    answer = await client.call("DELETE", f"{place}/merge-queue", 404)
    assert answer["message"] == "Label does not exist"
    await client.call("POST", place, 200, json_body={"labels": [{"name": "ready / soon"}]})
    await client.call("DELETE", f"{place}/Ready%20%2F%20Soon", 200)
    assert pull.labels == []


async def test_label_events_name_the_actor(client: Client, pull: Any) -> None:
    """Oldest first, in pages; the last page holds the newest."""
    for _ in range(3):
        pull.label("merge-queue", by="tom")
        pull.unlabel("merge-queue", by="maria")
    await client.call("POST", f"{R}/issues/{pull.number}/labels", 200, json_body={"labels": ["merge-queue"]})
    first = await client.get(f"{R}/issues/{pull.number}/events?per_page=3")
    assert [(event["event"], event["actor"]["login"]) for event in first.content] == [
        ("labeled", "tom"), ("unlabeled", "maria"), ("labeled", "tom"),
    ]  # fmt: skip
    last = await client.get(f"{R}/issues/{pull.number}/events?per_page=3&page=3")
    assert [(event["actor"]["login"], event["label"]["name"]) for event in last.content] == [
        ("imq[bot]", "merge-queue")
    ]


async def test_issues_are_found_by_all_their_labels(client: Client) -> None:
    """Pull requests are issues with a `pull_request`; state, labels and order select."""
    for number in range(3):
        client.clock.advance(timedelta(minutes=1))
        pull = client.repo.open_pull_request("Change", head=f"b{number}", by="ann", files={f"f{number}": "1\n"})
        pull.label("merge-queue", by="ann")
    pull.label("urgent", by="ann")
    pull.close(by="ann")
    answer = await client.get(f"{R}/issues?labels=merge-queue")
    assert [issue["number"] for issue in answer.content] == [2, 1]
    assert all(issue["pull_request"]["url"] for issue in answer.content)
    answer = await client.get(f"{R}/issues?labels=Merge-Queue,urgent&state=all")
    assert [issue["number"] for issue in answer.content] == [3]
    since = client.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = await client.get(f"{R}/issues?state=all&since={since}&direction=asc")
    assert [issue["number"] for issue in answer.content] == [3]


async def test_comment_of_somebody_else_is_not_an_apps_to_edit(client: Client, pull: Any) -> None:
    """An app edits and deletes what it said itself, nothing else."""
    other = pull.comment("Mine", by="maria")
    place = f"{R}/issues/comments/{other.id}"
    await client.call("PATCH", place, 403, json_body={"body": "Yours"})
    await client.call("DELETE", place, 403)
    own = await client.call("POST", f"{R}/issues/{pull.number}/comments", 201, json_body={"body": "Queued"})
    assert own["user"]["login"] == "imq[bot]"
    assert own["performed_via_github_app"]["slug"] == "imq"
    await client.call("PATCH", f"{R}/issues/comments/{own['id']}", 200, json_body={"body": "Landed"})
    await client.call("DELETE", f"{R}/issues/comments/{own['id']}", 204)
    await client.get(f"{R}/issues/comments/{own['id']}", 404)


@pytest.mark.parametrize("body", ["", "   ", "x" * 65537])
async def test_comment_without_or_with_too_much_text_is_refused(client: Client, pull: Any, body: str) -> None:
    """A comment has between one and 65,536 characters."""
    await client.call("POST", f"{R}/issues/{pull.number}/comments", 422, json_body={"body": body})


async def test_comment_on_a_locked_conversation_is_refused(client: Client, pull: Any) -> None:
    """Only those who may write speak in a locked conversation."""
    pull.record.locked = True
    answer = await client.call("POST", f"{R}/issues/{pull.number}/comments", 403, who="tom", json_body={"body": "x"})
    assert answer["message"] == "Unable to create comment because issue is locked."
    await client.call("POST", f"{R}/issues/{pull.number}/comments", 201, who="ann", json_body={"body": "x"})


@pytest.mark.parametrize(("apps", "edits"), [(True, False), (False, False), (True, True)])
async def test_app_on_a_locked_conversation_is_refused_as_the_switches_say(
    client: Client, pull: Any, apps: bool, edits: bool
) -> None:
    """Sources disagree on comments of Apps, and none is about their edits."""
    place = f"{R}/issues/{pull.number}/comments"
    own = await client.call("POST", place, 201, json_body={"body": "x"})
    client.github.behaviour.locked_refuses_apps, client.github.behaviour.locked_refuses_edits = apps, edits
    pull.lock(by="ann")
    await client.call("POST", place, 403 if apps else 201, json_body={"body": "y"})
    edited = 403 if apps and edits else 200
    await client.call("PATCH", f"{R}/issues/comments/{own['id']}", edited, json_body={"body": "z"})


async def test_reaction_given_twice_stands_once(client: Client, pull: Any) -> None:
    """The second time is 200 instead of 201."""
    comment = pull.comment("/queue", by="maria")
    place = f"{R}/issues/comments/{comment.id}"
    for status in (201, 200):
        await client.call("POST", f"{place}/reactions", status, json_body={"content": "eyes"})
    assert (await client.get(place))["reactions"]["eyes"] == 1
    await client.call("POST", f"{place}/reactions", 201, who="ann", json_body={"content": "+1"})
    given = await client.get(f"{place}/reactions")
    assert [(one["user"]["login"], one["content"]) for one in given.content] == [("imq[bot]", "eyes"), ("ann", "+1")]
    assert len((await client.get(f"{place}/reactions?content=%2B1")).content) == 1
    await client.call("POST", f"{place}/reactions", 422, json_body={"content": "shrug"})


async def test_assignees_without_access_are_passed_over(client: Client, pull: Any) -> None:
    """GitHub assigns whom it can and says nothing of the others."""
    answer = await client.call(
        "POST", f"{R}/issues/{pull.number}/assignees", 201, json_body={"assignees": ["ann", "stranger", "anonymous"]}
    )
    assert [user["login"] for user in answer["assignees"]] == ["ann"]


async def test_pull_request_of_a_deleted_fork_has_no_head_repository(client: Client) -> None:
    """`head.repo` is null once the fork is gone, everywhere it is shown."""
    pull = client.repo.open_pull_request("Change", head="topic", fork_of="stranger", files={"b": "1\n"})
    answer = await client.get(f"{R}/pulls/{pull.number}")
    assert answer["head"]["repo"]["full_name"] == "stranger/widgets"
    assert answer["head"]["label"] == "stranger:topic"
    pull.delete_fork()
    answer = await client.get(f"{R}/pulls/{pull.number}")
    assert answer["head"]["repo"] is None
    assert (await client.get(f"{R}/pulls?state=all"))[0]["head"]["repo"] is None


async def test_comment_of_a_person_is_published_with_the_pull_request(client: Client, pull: Any) -> None:
    """Created, edited and deleted each come as `issue_comment` with `issue.pull_request`; edits have the old text."""
    comment = pull.comment("/queue", by="ann")
    pull.edit_comment(comment, "/queue priority=high")
    pull.delete_comment(comment, by="maria")
    await client.settle()
    received = [body for headers, body in client.receiver.received if headers["X-GitHub-Event"] == "issue_comment"]
    assert [(body["action"], body["comment"]["body"], body["sender"]["login"]) for body in received] == [
        ("created", "/queue", "ann"),
        ("edited", "/queue priority=high", "ann"),
        ("deleted", "/queue priority=high", "maria"),
    ]
    assert received[1]["changes"] == {"body": {"from": "/queue"}}
    assert all(body["issue"]["pull_request"]["url"].endswith(f"/pulls/{pull.number}") for body in received)


@pytest.mark.parametrize("needs_issues", [True, False])
async def test_app_creates_labels_with_the_permission_that_this_github_asks_for(
    client: Client, pull: Any, needs_issues: bool
) -> None:
    """Both answers of a disputed rule; an unknown label on a pull request is created by the same rule."""
    client.github.behaviour.labels_need_issues = needs_issues
    token = client.installation_token({"issues": "read", "pull_requests": "write"})
    headers = {"Authorization": f"Bearer {token}"}
    status = 403 if needs_issues else 201
    answer = await client.call("POST", f"{R}/labels", status, json_body={"name": "one"}, headers=headers)
    if needs_issues:
        assert answer["message"] == "You do not have permission to create labels on this repository."
    status = 403 if needs_issues else 200
    place = f"{R}/issues/{pull.number}/labels"
    await client.call("POST", place, status, json_body={"labels": ["two"]}, headers=headers)
    # A label that the repository has takes no more than the pull request.
    await client.call("POST", f"{R}/labels", 201, json_body={"name": "three"})
    await client.call("POST", place, 200, json_body={"labels": ["Three"]}, headers=headers)


async def test_label_that_exists_is_no_new_one(client: Client) -> None:
    """Names differ in more than case."""
    await client.call("POST", f"{R}/labels", 201, json_body={"name": "ship"})
    again = await client.call("POST", f"{R}/labels", 422, json_body={"name": "Ship"})
    assert again["errors"] == [{"resource": "Label", "field": "name", "code": "already_exists"}]
    await client.call("POST", f"{R}/labels", 422, json_body={"name": "a", "color": "#0e8a16"})
    await client.call("POST", f"{R}/labels", 422, json_body={"name": "a", "description": "x" * 101})
    await client.get(f"{R}/labels/other", 404)
