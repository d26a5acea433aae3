"""Every webhook, against the schemas that GitHub publishes."""

import ast
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import github_emulator
from github_emulator import EVENT_PERMISSIONS, Job
from github_emulator.webhooks.messages import WEBHOOKS
from github_schemas.schemas import check_webhook
from over_http.conftest import EVENTS, Client, R

SENT: dict[str, tuple[str, set[str]]] = {
    "PullRequestChanged": (
        "pull_request",
        {
            *("opened", "closed", "reopened", "edited", "synchronize", "converted_to_draft", "ready_for_review"),
            *("labeled", "unlabeled", "assigned", "unassigned", "auto_merge_enabled", "auto_merge_disabled"),
            *("locked", "unlocked", "review_requested", "review_request_removed"),
        },
    ),
    "CommentChanged": ("issue_comment", {"created", "edited", "deleted"}),
    "ReviewChanged": ("pull_request_review", {"submitted", "dismissed"}),
    "ReviewCommentChanged": ("pull_request_review_comment", {"created"}),
    "ThreadChanged": ("pull_request_review_thread", {"resolved", "unresolved"}),
    "CheckRunChanged": ("check_run", {"created", "completed", "rerequested"}),
    "CheckSuiteChanged": ("check_suite", {"requested", "completed", "rerequested"}),
    "WorkflowRunChanged": ("workflow_run", {"requested", "in_progress", "completed"}),
    "StatusReported": ("status", {""}),
    "RefMoved": ("push", {""}),
    "LabelChanged": ("label", {"created", "edited", "deleted"}),
    "RepositoryChanged": (
        "repository",
        {*("renamed", "transferred", "archived", "unarchived", "edited"), *("privatized", "publicized")},
    ),
    "ProtectionChanged": ("branch_protection_rule", {"created", "edited", "deleted"}),
    "ProtectionsSwitched": ("branch_protection_configuration", {"enabled", "disabled"}),
    "RulesetChanged": ("repository_ruleset", {"created", "deleted"}),
    "OrganisationRulesetChanged": ("repository_ruleset", {"created", "deleted"}),
    "TeamChanged": ("team", {"created", "deleted"}),
    "MembershipChanged": ("membership", {"added", "removed"}),
    "InstallationChanged": (
        "installation",
        {"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"},
    ),
    "RepositorySelectionChanged": ("installation_repositories", {"added", "removed"}),
    "AccountRenamed": ("installation_target", {"renamed"}),
}
"""Class of the domain's event -> GitHub's event, and each action that the emulator sends."""
BESIDE_A_PUSH = {"create": {""}, "delete": {""}}


async def test_every_webhook_fits_githubs_schema(client: Client) -> None:
    """People do everything that they can do; every event that follows is as GitHub documents it."""
    await act_as_people(client)
    await client.settle(60)
    await act_on_checks(client)
    await act_as_owner(client)
    await client.settle(60)
    delivered = [delivery for delivery in client.github.state.deliveries if delivery.app is client.app]
    delivered_actions: dict[str, set[str]] = {}
    for delivery in delivered:
        check_webhook(delivery.event, delivery.payload)
        delivered_actions.setdefault(delivery.event, set()).add(delivery.action or "")
    assert delivered_actions == dict(SENT.values()) | BESIDE_A_PUSH
    assert delivered_actions.keys() == {*EVENTS, "installation", "installation_repositories", "installation_target"}
    assert delivered_actions.keys() >= EVENT_PERMISSIONS.keys()


def test_no_event_or_action_of_the_emulator_is_left_out() -> None:
    """The test above delivers every action of every class of events that the emulator publishes."""
    assert {each.__name__ for each in WEBHOOKS} == SENT.keys()
    published = set(published_actions())
    assert len(published) > 30
    assert {(name, action) for name, action in published if action not in SENT[name][1]} == set()


def published_actions() -> Iterator[tuple[str, str]]:
    """Read each action from the calls in the emulator's code that make an event, with the event's class."""
    for path in Path(github_emulator.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SENT:
                inner = (part for argument in node.args for part in ast.walk(argument))
                texts = (part.value for part in inner if isinstance(part, ast.Constant))
                yield from ((node.func.id, text) for text in texts if isinstance(text, str) and "/" not in text)


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
    pull.lock(by="maria")
    pull.lock(False, by="maria")
    review = pull.review("APPROVED", by="maria")
    pull.dismiss_review(review, by="acme")
    thread = pull.open_thread("Why?", by="maria")
    pull.resolve_thread(thread)
    pull.resolve_thread(thread, by="maria", resolved=False)
    pull.assign("ann", by="tom")
    pull.request_review("ann", by="tom")
    pull.request_review("ann", by="tom", requested=False)
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
    for private in (not client.repo.record.private, client.repo.record.private):
        client.repo.set_private(private, by="acme")


async def act_on_checks(client: Client) -> None:
    """Somebody reruns a suite; auto-merge is asked for, called off, and asked for again."""
    repo = client.repo
    repo.add_workflow("Again", jobs=[Job("unit", timedelta(seconds=1))], on=["pull_request"])
    repo.record.allow_auto_merge = True
    repo.protect("main", required_checks=["ci/never"], by="acme")
    repo.protect("main", required_checks=["ci/ever"], by="acme")
    pull = repo.open_pull_request("Later", head="later", by="ann", files={"later": "1\n"})
    pull.assign("ann", by="tom")
    await client.call("DELETE", f"{R}/issues/{pull.number}/assignees", 200, json_body={"assignees": ["ann"]})
    repo.edit_label("merge-queue", "queue", by="maria")
    await client.settle(10)
    await client.call("POST", f"{R}/check-runs", 201, json_body={"name": "IMQ", "head_sha": pull.head_sha})
    repo.rerun_suite(next(run for run in pull.check_runs if run.name == "IMQ"), by="maria")
    pull.enable_auto_merge(by="maria")
    pull.disable_auto_merge(by="maria")
    repo.unprotect("main", by="acme")


async def act_as_owner(client: Client) -> None:
    """The owner chooses repositories, grants, suspends, moves house, and removes the App."""
    github, installation = client.github, client.installation
    accounts = github.accounts
    accounts.select(installation, [client.repo.record])
    accounts.accept_permissions(installation, {"pages": "read"})
    everyone = github.create_team("acme", "Everyone")
    core = github.create_team("acme", "Core", "maria", parent=everyone)
    github.teams.remove(core, github.user("maria"), actor=github.actor("acme"))
    github.teams.delete(core, actor=github.actor("acme"))
    for suspended in (True, False):
        accounts.suspend(installation, suspended)
    await client.settle()
    client.repo.rename_branch(client.repo.record.default_branch, "trunk", by="acme")
    await client.settle()
    github.create_user("apex")
    other = github.install(client.app, "apex")
    client.repo.transfer("apex", by="acme")
    await client.settle()
    accounts.rename(github.user("apex"), "summit")
    accounts.uninstall(other)
