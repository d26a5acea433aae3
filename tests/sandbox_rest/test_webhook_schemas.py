"""Every webhook, against the schemas that GitHub publishes."""

from typing import Any

from tests.sandbox_rest.conftest import EVENTS, Client, R
from tests.sandbox_rest.schemas import check_webhook


async def test_every_webhook_fits_githubs_schema(client: Client) -> None:
    """People do everything that they can do; every event that follows is as GitHub documents it."""
    published: dict[str, set[str]] = {}

    def observe(event: str, payload: dict[str, Any]) -> None:
        published.setdefault(event, set()).add(payload.get("action", ""))

    client.github.webhooks.observers.append(observe)
    await act_as_people(client)
    await client.settle(60)
    delivered = [delivery for delivery in client.github.state.deliveries if delivery.app is client.app]
    for delivery in delivered:
        check_webhook(delivery.event, delivery.payload)
    assert set(published) - {"installation", "installation_repositories"} == set(EVENTS)
    assert published["pull_request_review"] == {"submitted", "dismissed"}
    assert published["pull_request_review_thread"] == {"resolved", "unresolved"}
    assert published["repository_ruleset"] == {"created", "deleted"}
    assert published["workflow_run"] == {"requested", "in_progress", "completed"}
    assert published["issue_comment"] == {"created", "edited", "deleted"}
    assert published["pull_request"] >= {
        "opened", "labeled", "unlabeled", "synchronize", "closed", "reopened", "edited", "converted_to_draft",
        "ready_for_review", "assigned",
    }  # fmt: skip
    assert {delivery.event for delivery in delivered} == {*EVENTS, "installation", "installation_repositories"}


async def act_as_people(client: Client) -> None:
    repo = client.repo
    change_repository(client)
    pull = repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    for action in ("merge-queue", "bug"):
        pull.label(action, by="tom")
    pull.unlabel("merge-queue", by="tom")
    client.github.conversation.delete_label(
        client.github.state.repositories["acme/widgets"], "bug", actor=client.github.actor("maria")
    )
    pull.push({"b": "2\n"}, by="ann")
    pull.force_push({"b": "3\n"}, by="ann")
    comment = pull.comment("Nice", by="maria")
    pull.edit_comment(comment, "Very nice")
    pull.delete_comment(comment)
    pull.edit_body("Why", by="ann")
    review = pull.review("APPROVED", by="maria")
    pull.dismiss_review(review, by="acme")
    thread = pull.open_thread("Why?", by="maria")
    pull.resolve_thread(thread)
    pull.resolve_thread(thread, by="maria", resolved=False)
    pull.assign("ann", by="tom")
    pull.convert_to_draft(by="ann")
    pull.ready_for_review(by="ann")
    pull.close(by="ann")
    pull.reopen(by="ann")
    repo.create_branch("next", "main", by="maria")
    pull.edit_base("next", by="maria")
    pull.edit_title("Better", by="ann")
    repo.protect("main", required_checks=["ci/test"], by="acme")
    repo.add_ruleset("rules", branches=["main"], required_checks=[("ci/test", None)], by="acme")
    rules = repo.add_ruleset("all of ours", organisation=True, signatures=True, by="acme")
    repo.remove_ruleset(rules, by="acme")
    sha = pull.head_sha
    new = {"name": "IMQ", "head_sha": sha}
    run = await client.call("POST", f"{R}/check-runs", 201, json_body=new)
    await client.call("PATCH", f"{R}/check-runs/{run['id']}", 200, json_body={"conclusion": "failure"})
    await client.call("POST", f"{R}/check-runs/{run['id']}/rerequest", 201)
    await client.call("POST", f"{R}/statuses/{sha}", 201, json_body={"state": "failure", "context": "ci/old"})
    repo.add_workflow(on=["push"])
    pull.merge("squash", by="maria")
    repo.delete_branch("topic", by="ann")


def change_repository(client: Client) -> None:
    """The owner renames, unprotects and archives it, and undoes each; another one is created."""
    client.github.create_repository("acme/gadgets", files={"a": "1\n"})
    for name in ("gears", "widgets"):
        client.repo.rename(name, by="acme")
    client.repo.disable_protections(by="acme")
    client.repo.enable_protections(by="acme")
    client.repo.archive(by="acme")
    client.repo.archive(False, by="acme")
