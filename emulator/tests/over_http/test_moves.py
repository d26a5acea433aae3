"""Repositories that were renamed, transferred or archived, as clients and apps find them."""

from typing import Any

from github_emulator.state import Delivery
from github_schemas.schemas import check_webhook
from over_http.conftest import Client


def deliveries_of(client: Client, *events: str) -> list[Delivery]:
    """The app's webhooks of these events, checked against GitHub's schemas."""
    found = [one for one in client.github.state.deliveries if one.app is client.app and one.event in events]
    for delivery in found:
        check_webhook(delivery.event, delivery.payload)
    return found


async def test_renamed_repository_is_found_at_its_old_path_by_its_id(client: Client) -> None:
    """A read is answered 301 and a write 307, both with the place below the id; the app's webhook has the new name."""
    number = client.repo.record.id
    client.repo.rename("gears", by="acme")
    await client.settle()
    moved = await client.call("GET", "/repos/acme/widgets/pulls?state=open", 301)
    assert moved.headers["Location"].endswith(f"/repositories/{number}/pulls?state=open")
    assert (moved["message"], moved["url"]) == ("Moved Permanently", moved.headers["Location"])
    await client.call("POST", "/repos/acme/widgets/git/refs", 307, json_body={})
    assert (await client.get(f"/repositories/{number}"))["full_name"] == "acme/gears"
    assert (await client.get("/repos/acme/gears"))["id"] == number
    (delivery,) = deliveries_of(client, "repository")
    assert delivery.action == "renamed"


async def test_name_that_another_repository_takes_leads_to_that_one(client: Client) -> None:
    """The redirect ends ("Renaming a repository")."""
    client.repo.rename("gears", by="acme")
    other = client.github.create_repository("acme/widgets", files={"a": "1\n"})
    assert (await client.get("/repos/acme/widgets"))["id"] == other.record.id


async def test_transferred_repository_leaves_the_installation(client: Client) -> None:
    """It is gone for the old token, and both sides get webhooks (polarsource/polar #1207)."""
    client.github.install(client.app, "globex")
    await client.settle()
    client.github.state.deliveries.clear()
    client.repo.transfer("globex", by="acme")
    await client.settle()
    await client.get("/repos/acme/widgets", 404)
    events: list[Any] = [
        (one.event, one.action) for one in deliveries_of(client, "repository", "installation_repositories")
    ]
    assert events == [
        ("installation_repositories", "removed"),
        ("installation_repositories", "added"),
        ("repository", "transferred"),
    ]


async def test_archived_repository_refuses_writes_and_can_be_read(client: Client) -> None:
    """In GitHub's words (r-universe-org/help #247)."""
    client.repo.archive(by="acme")
    await client.settle()
    refused = await client.call("POST", "/repos/acme/widgets/git/refs", 403, json_body={})
    assert refused["message"] == "Repository was archived so is read-only."
    assert (await client.get("/repos/acme/widgets"))["archived"]
    client.repo.archive(False, by="acme")
    await client.settle()
    assert [one.action for one in deliveries_of(client, "repository")] == ["archived", "unarchived"]


async def test_labels_of_a_repository_are_published_when_they_change(client: Client) -> None:
    """Created by its first use, renamed, deleted."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    pull.label("Ship", by="ann")
    client.repo.edit_label("ship", "land", by="maria")
    assert [label.name for label in pull.record.labels] == ["land"]
    client.repo.delete_label("land", by="maria")
    await client.settle()
    assert [one.action for one in deliveries_of(client, "label")] == ["created", "edited", "deleted"]


async def test_failed_deliveries_by_the_filter_are_those_with_a_status_of_400_to_599(client: Client) -> None:
    """As documented: one that never reached its receiver is in the list, and not in the filtered one."""
    client.app.webhook_url = "http://127.0.0.1:9/webhook"
    client.repo.push("main", {"n": "1\n"}, "On", by="maria")
    await client.settle()
    newest = (await client.get("/app/hook/deliveries", who="app"))[0]
    assert (newest["status_code"], newest["status"]) == (0, "failed to connect to host")
    filtered = await client.get("/app/hook/deliveries?status=failure", who="app")
    assert newest["id"] not in [one["id"] for one in filtered.content]


async def test_push_lists_more_than_twenty_commits(client: Client) -> None:
    """Up to 2,048 ("Webhook events and payloads: push")."""
    sha = client.repo.sha()
    for number in range(25):
        sha = client.repo.commit({"n": f"{number}\n"}, sha, by="maria")
    client.repo.push_commit("main", sha, by="maria")
    await client.settle()
    (push,) = deliveries_of(client, "push")
    assert push.payload.count('"distinct"') >= 25


async def test_renamed_account_takes_its_repositories_along(client: Client) -> None:
    """The old paths lead to them, and the app gets a webhook of its installation's account."""
    number = client.repo.record.id
    client.github.accounts.rename(client.github.user("acme"), "globex")
    await client.settle()
    moved = await client.call("GET", "/repos/acme/widgets", 301)
    assert moved.headers["Location"].endswith(f"/repositories/{number}")
    assert (await client.get("/repos/globex/widgets"))["owner"]["login"] == "globex"
    assert [one.action for one in deliveries_of(client, "installation_target")] == ["renamed"]


async def test_tag_suite_permissions_and_protections_are_published(client: Client) -> None:
    """Each by its own event, as GitHub documents it."""
    sha = client.repo.push_tag("v1", by="maria")
    run = client.github.checks.create_run(client.repo.record, app=client.app, name="ci", head_sha=sha)
    client.repo.protect("main", required_checks=["ci"], by="acme")
    client.repo.disable_protections(by="acme")
    assert (await client.get("/repos/acme/widgets/branches/main"))["protected"] is False
    client.repo.enable_protections(by="acme")
    assert (await client.get("/repos/acme/widgets/branches/main"))["protected"] is True
    client.repo.rerun_suite(run, by="maria")
    client.github.accounts.accept_permissions(client.installation, {"workflows": "write"})
    await client.settle()
    assert '"refs/tags/v1"' in deliveries_of(client, "push")[0].payload
    assert [one.action for one in deliveries_of(client, "branch_protection_configuration")] == ["disabled", "enabled"]
    assert "rerequested" in [one.action for one in deliveries_of(client, "check_suite")]
    assert "new_permissions_accepted" in [one.action for one in deliveries_of(client, "installation")]
