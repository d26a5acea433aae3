"""Every endpoint's answer and every webhook, against the schemas that GitHub publishes."""

import re
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Job, PullRequestOptions, ReviewRule
from github_emulator.callers.errors import DOCS
from github_emulator.rest.endpoints import ROUTES
from github_emulator.rest.routing import REPOSITORY
from github_schemas import octokit
from github_schemas.schemas import SCHEMAS
from over_http.conftest import Client, R


def test_every_route_has_a_schema() -> None:
    """A route that is added needs a schema here, and none stands here for nothing."""
    templates = [route.template for route in ROUTES if route.resource == "core"]
    assert len(templates) == len(set(templates))
    assert set(templates) == set(SCHEMAS)


def test_refusal_of_every_route_names_its_place_in_the_reference() -> None:
    """`documentation_url` has GitHub's own anchor; three in the descriptions have a page of former years."""
    others = {
        route.template: (f"{DOCS}/{route.docs}", octokit.page(route.template))
        for route in ROUTES
        if route.resource == "core" and f"{DOCS}/{route.docs}" != octokit.page(route.template)
    }
    former = ("https://docs.github.com/enterprise-server@3.9/rest/", f"{DOCS}/reference/")
    assert all(theirs.startswith(former) for _, theirs in others.values()), others
    assert all(own.partition("#")[2] == theirs.partition("#")[2] for own, theirs in others.values())
    assert len(others) == 3


def test_mistake_of_a_description_excuses_nothing_beside_it() -> None:
    """A label without description is excused where pull requests are listed, and nothing else is."""

    def count(description: Any) -> int:
        with pytest.raises(AssertionError, match="is a required property") as raised:
            octokit.check_answer(f"GET {REPOSITORY}/pulls", 200, [{"labels": [{"description": description}]}])
        found = re.search(r"has (\d+) problems", str(raised.value))
        return int(found.group(1)) if found else 0

    assert count(5) - 1 == count(None) == count("text") > 10


def test_what_is_not_documented_is_refused() -> None:
    """An event, an action or a success that the descriptions do not have."""
    for event, action in (("pull_request", "invented"), ("invented", "created")):
        with pytest.raises(AssertionError, match="is not documented"):
            octokit.check_webhook(event, {"action": action})
    with pytest.raises(AssertionError, match="is not documented"):
        octokit.check_answer(f"GET {REPOSITORY}/pulls", 201, [])


async def test_every_answer_fits_githubs_schema(client: Client) -> None:
    """One sequence that uses every endpoint once with success; the client checks each answer as it comes."""
    pull = client.repo.open_pull_request(
        "Change", head="topic", by="ann", files={"b": "1\n"}, options=PullRequestOptions(body="Why")
    )
    pull.review("APPROVED", by="maria")
    await use_meta_and_apps(client)
    await use_repository(client)
    await use_git(client)
    await use_checks(client, pull.head_sha)
    await use_conversation(client, pull.number)
    await use_pulls(client, pull)
    missing = {template for template in SCHEMAS if template not in client.visited}
    assert missing == set(), "the story above leaves these out"


async def use_meta_and_apps(client: Client) -> None:
    await client.get("/rate_limit")
    ann = await client.get("/users/ann")
    assert (await client.get(f"/user/{ann['id']}")).content == ann.content
    assert (await client.get("/user", who="ann")).content == ann.content
    await client.get("/app", who="app")
    manifest = {"url": "https://ci.example.com", "redirect_url": "https://ci.example.com/registered"}
    code = client.github.app_manifests.register(manifest, "Another CI", client.github.user("ann"))
    await client.call("POST", f"/app-manifests/{code}/conversions", 201, who="anonymous")
    await client.call("PATCH", "/app/hook/config", 200, who="app", json_body={"insecure_ssl": "0"})
    await client.get("/app/hook/config", who="app")
    await client.get("/app/installations", who="app")
    place = f"/app/installations/{client.installation.id}"
    await client.get(place, who="app")
    await client.call("POST", f"{place}/access_tokens", 201, who="app", json_body={"repositories": ["widgets"]})
    await client.get("/installation/repositories")
    await client.settle()
    deliveries = await client.get("/app/hook/deliveries", who="app")
    delivery = deliveries[0]["id"]
    await client.get(f"/app/hook/deliveries/{delivery}", who="app")
    await client.call("POST", f"/app/hook/deliveries/{delivery}/attempts", 202, who="app")


def protect_with_all_rules(client: Client) -> Any:
    """Every rule that a branch may have; the organisation's ruleset is returned."""
    required: list[Any] = ["ci/test", ("lint", client.app.id)]
    reviews = ReviewRule(1, last_push=True, spared=["maria", "imq"])
    client.repo.protect(
        "main", required_checks=required, reviews=reviews, strict=True, restrict_pushes=["maria", "imq"], by="acme"
    )
    client.repo.add_ruleset(
        "all rules",
        branches=["~DEFAULT_BRANCH"],
        required_checks=[("ci/test", client.app.id), ("lint", None)],
        strict=True,
        reviews=ReviewRule(1, code_owners=True, dismiss_stale=True, last_push=True, resolve_threads=True),
        linear_history=True,
        merge_queue=True,
        non_fast_forward=True,
        update=True,
        signatures=True,
        deployments=["staging"],
        workflows=[".github/workflows/ci.yml"],
        creation=True,
        deletion=True,
        branch_name="^main$",
        code_scanning=["CodeQL"],
        bypass={"maria": "always", "imq": "exempt"},
        by="acme",
    )
    return client.repo.add_ruleset("organisation's", organisation=True, required_approvals=2, by="acme")


async def use_repository(client: Client) -> None:
    await client.call("POST", "/user/repos", 201, who="ann", json_body={"name": "gadgets", "description": "Small."})
    added = {"message": "Add b", "content": "Yg==", "branch": "main"}
    await client.call("PUT", f"{R}/contents/docs/b.txt", 201, json_body=added)
    above = protect_with_all_rules(client)
    await client.get(R)
    for login in ("acme", "maria", "tom", "stranger"):
        await client.get(f"{R}/collaborators/{login}/permission")
    await client.get(f"{R}/contents/docs/a.txt?ref=main")
    await client.get(f"{R}/activity")
    await client.get(f"{R}/branches")
    await client.get(f"{R}/branches/main")
    await client.get(f"{R}/branches/main/protection")
    rules = await client.get(f"{R}/rules/branches/main")
    for ruleset in {rule["ruleset_id"] for rule in rules.content}:
        await client.get(f"{R}/rulesets/{ruleset}")
    assert len((await client.get(f"{R}/rulesets")).content) == 2
    assert len((await client.get(f"{R}/rulesets?includes_parents=false")).content) == 1
    await client.call(
        "POST", f"{R}/labels", 201, json_body={"name": "ship", "color": "0e8a16", "description": "Land it"}
    )
    assert (await client.get(f"{R}/labels/Ship"))["name"] == "ship"
    everyone = client.github.create_team("acme", "Everyone", "tom")
    client.github.create_team("acme", "Core Team", "maria", parent=everyone)
    found = {slug: await client.get(f"/orgs/ACME/teams/{slug}/members") for slug in ("everyone", "core-team")}
    logins = [[member["login"] for member in answer.content] for answer in found.values()]
    assert logins == [["tom", "maria"], ["maria"]]
    await client.get("/orgs/acme/teams/nobody/members", 404)
    await client.get(f"/orgs/acme/rulesets/{above.id}", 403)
    token = client.installation_token({"organization_administration": "write"})
    await client.get(f"/orgs/acme/rulesets/{above.id}", headers={"Authorization": f"Bearer {token}"})
    assert {rule["type"] for rule in rules.content} == {
        "required_status_checks", "pull_request", "merge_queue", "required_linear_history", "non_fast_forward",
        "update", "required_signatures", "required_deployments", "workflows", "creation", "deletion",
        "branch_name_pattern", "code_scanning",
    }  # fmt: skip
    assert {(rule["ruleset_source_type"], rule["ruleset_source"]) for rule in rules.content} == {
        ("Repository", "acme/widgets"),
        ("Organization", "acme"),
    }


async def use_git(client: Client) -> None:
    commits = await client.get(f"{R}/commits")
    sha = commits[0]["sha"]
    await client.get(f"{R}/commits/topic")
    await client.get(f"{R}/compare/main...topic")
    await client.get(f"{R}/git/commits/{sha}")
    await client.get(f"{R}/git/trees/{sha}?recursive=1")
    blob = await client.call("POST", f"{R}/git/blobs", 201, json_body={"content": "YQo=", "encoding": "base64"})
    assert (await client.get(f"{R}/git/blobs/{blob['sha']}"))["content"] == "YQo=\n"
    file = {"path": "new", "mode": "100644", "type": "blob", "sha": blob["sha"]}
    gone = {"path": "README.md", "mode": "100644", "type": "blob", "sha": None}
    tree = await client.call("POST", f"{R}/git/trees", 201, json_body={"base_tree": sha, "tree": [file, gone]})
    assert [entry["path"] for entry in tree["tree"]] == ["docs", "new"]
    new = {"message": "Own", "tree": tree["sha"], "parents": [sha]}
    own = await client.call("POST", f"{R}/git/commits", 201, json_body=new)
    assert own["verification"]["verified"]
    named = await client.call(
        "POST", f"{R}/git/commits", 201, json_body={**new, "author": {"name": "A", "email": "a@b.c"}}
    )
    assert (named["author"]["name"], named["verification"]["verified"]) == ("A", False)
    await client.call("POST", f"{R}/git/commits", 422, json_body={**new, "parents": [blob["sha"]]})
    await client.call("POST", f"{R}/git/commits", 422, json_body={**new, "tree": sha})
    note = {"tag": "v1", "message": "First", "object": sha, "type": "commit"}
    tag = await client.call("POST", f"{R}/git/tags", 201, json_body=note)
    assert (await client.get(f"{R}/git/tags/{tag['sha']}")).content == tag.content
    await client.get(f"{R}/git/ref/heads/main")
    await client.get(f"{R}/git/matching-refs/heads/")
    await client.call("POST", f"{R}/git/refs", 201, json_body={"ref": "refs/heads/spare", "sha": sha})
    await client.call("PATCH", f"{R}/git/refs/heads/spare", 200, json_body={"sha": sha})
    await client.call("POST", f"{R}/merges", 201, json_body={"base": "spare", "head": "topic"})
    await client.call("DELETE", f"{R}/git/refs/heads/spare", 204)


async def use_checks(client: Client, sha: str) -> None:
    new = {"name": "IMQ", "head_sha": sha, "external_id": "1", "details_url": "https://imq.example/1"}
    run = await client.call("POST", f"{R}/check-runs", 201, json_body=new)
    place = f"{R}/check-runs/{run['id']}"
    output = {"title": "Queued", "summary": "First in line", "text": "Soon"}
    await client.call("PATCH", place, 200, json_body={"status": "in_progress", "output": output})
    await client.call("PATCH", place, 200, json_body={"conclusion": "success"})
    await client.get(place)
    await client.get(f"{place}/annotations")
    await client.call("POST", f"{place}/rerequest", 201)
    await use_actions(client)
    await client.get(f"{R}/commits/{sha}/check-runs")
    await client.get(f"{R}/commits/topic/check-suites")
    await client.call("POST", f"{R}/statuses/{sha}", 201, json_body={"state": "success", "context": "ci/old"})
    await client.get(f"{R}/commits/{sha}/status")
    await client.get(f"{R}/commits/{sha}/statuses")


async def use_actions(client: Client) -> None:
    """A run that fails, runs again, again in part, is cancelled; and one of a stranger's fork, approved."""
    triggers = ["pull_request", "workflow_dispatch"]
    client.repo.add_workflow(jobs=[Job("unit", timedelta(seconds=1), plan=("failure",) * 9)], on=triggers)
    client.repo.record.fork_approval = "all_external_contributors"
    client.repo.open_pull_request("Mine", head="mine", by="ann", files={"x": "1\n"})
    await client.settle(5)
    run = (await client.get(f"{R}/actions/runs?status=failure"))["workflow_runs"][0]
    place = f"{R}/actions/runs/{run['id']}"
    await client.get(place)
    jobs = await client.get(f"{place}/jobs")
    await client.get(f"{R}/actions/jobs/{jobs['jobs'][0]['id']}")
    for again in ("rerun", "rerun-failed-jobs"):
        await client.call("POST", f"{place}/{again}", 201)
        await client.settle(5)
    await client.call("POST", f"{place}/rerun", 201)
    run = client.repo.record.workflow_runs[run["id"]]
    artifact = client.github.actions.upload(run, "junit", b"PK")
    await client.get(f"{place}/artifacts")
    await client.call("GET", f"{R}/actions/artifacts/{artifact.id}/zip", 302)
    run.group = "ci-1"
    await client.get(f"{R}/actions/concurrency_groups/ci-1")
    await client.call("POST", f"{place}/cancel", 202)
    place = f"{R}/actions/workflows/ci.yml/dispatches"
    await client.call("POST", place, 204, json_body={"ref": "main"})
    client.repo.open_pull_request("Theirs", head="theirs", fork_of="stranger", files={"y": "1\n"})
    await client.settle(5)
    parked = (await client.get(f"{R}/actions/runs?event=pull_request"))["workflow_runs"][0]
    await client.call("POST", f"{R}/actions/runs/{parked['id']}/approve", 201)
    await client.settle(5)


async def use_conversation(client: Client, number: int) -> None:
    place = f"{R}/issues/{number}"
    await client.call("POST", f"{place}/labels", 200, json_body={"labels": ["merge-queue", "bug"]})
    await client.call("DELETE", f"{place}/labels/bug", 200)
    await client.call("PUT", f"{place}/labels", 200, json_body=["merge-queue"])
    await client.get(f"{place}/labels")
    await client.call("POST", f"{place}/assignees", 201, json_body={"assignees": ["ann", "stranger"]})
    await client.call("DELETE", f"{place}/assignees", 200, json_body={"assignees": ["ann"]})
    comment = await client.call("POST", f"{place}/comments", 201, json_body={"body": "First in line"})
    address = f"{R}/issues/comments/{comment['id']}"
    await client.call("PATCH", address, 200, json_body={"body": "Landed"})
    await client.call("POST", f"{address}/reactions", 201, json_body={"content": "rocket"})
    await client.get(f"{address}/reactions")
    await client.get(address)
    await client.get(f"{place}/comments")
    await client.get(f"{R}/issues/comments?sort=updated&direction=desc")
    await client.call("PATCH", place, 200, json_body={"title": "Better", "labels": ["merge-queue"]})
    await client.get(place)
    await client.get(f"{R}/issues?labels=merge-queue&state=all&sort=updated&direction=asc")
    await client.get(f"{place}/events")
    await client.get(f"{place}/timeline")
    await client.call("DELETE", address, 204)


async def use_pulls(client: Client, pull: Any) -> None:
    place = f"{R}/pulls/{pull.number}"
    await client.get(place)
    await client.settle()
    await client.get(place)
    await client.get(f"{R}/pulls?base=main&head=acme:topic")
    await client.get(f"{place}/reviews")
    await client.get(f"{place}/commits")
    await client.get(f"{place}/files")
    client.repo.create_branch("second", "topic", by="ann")
    client.repo.push("second", {"c": "1\n"}, "Second", by="ann")
    new = {"title": "Second", "head": "second", "base": "main", "body": None}
    second = await client.call("POST", f"{R}/pulls", 201, json_body=new)
    client.repo.unprotect("main", by="acme")
    client.github.state.repositories["acme/widgets"].rulesets.clear()
    client.github.state.organisation_rulesets.clear()
    await client.call("PUT", f"{place}/merge", 200, json_body={"sha": pull.head_sha})
    await client.get(f"{place}/merge", 204)
    await client.get(f"{R}/commits/{pull.head_sha}/pulls")
    await client.call("PUT", f"{R}/pulls/{second['number']}/update-branch", 202)
    client.github.behaviour.merge_async = True
    asked = await client.call("PUT", f"{R}/pulls/{second['number']}/merge-async", 202)
    await client.get(f"{R}/pulls/{second['number']}/merge-async/{asked['details']['uuid']}")
    await client.call("PATCH", f"{R}/pulls/{second['number']}", 200, json_body={"state": "closed"})
