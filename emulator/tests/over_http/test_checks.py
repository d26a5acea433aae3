"""Check runs, suites, statuses, and the rules that ask for them, over HTTP."""

from typing import Any

from github_emulator import ReviewRule
from over_http.conftest import Client, R


async def report(client: Client, sha: str, name: str, expect: int = 201, **fields: Any) -> Any:
    body = {"name": name, "head_sha": sha, **fields}
    return await client.call("POST", f"{R}/check-runs", expect, json_body=body)


async def test_check_runs_latest_hides_older_ones_of_the_name(client: Client) -> None:
    """`filter=latest` is the default; `all` shows the history; name, status and app select."""
    sha = client.repo.sha()
    for conclusion in ("failure", "success"):
        await report(client, sha, "lint", conclusion=conclusion)
    await report(client, sha, "test", status="in_progress")
    place = f"{R}/commits/main/check-runs"
    latest = await client.get(place)
    assert {run["name"]: run["conclusion"] for run in latest["check_runs"]} == {"lint": "success", "test": None}
    assert (await client.get(f"{place}?filter=all"))["total_count"] == 3
    assert (await client.get(f"{place}?check_name=lint&filter=all"))["total_count"] == 2
    assert (await client.get(f"{place}?status=completed"))["total_count"] == 1
    assert (await client.get(f"{place}?app_id=1"))["total_count"] == 0
    assert (await client.get(f"{place}?app_id={client.app.id}"))["total_count"] == 2


async def test_check_runs_come_in_pages_with_their_total(client: Client) -> None:
    """The total counts all pages."""
    sha = client.repo.sha()
    for number in range(3):
        await report(client, sha, f"test {number}")
    answer = await client.get(f"{R}/commits/{sha}/check-runs?per_page=2")
    assert (answer["total_count"], len(answer["check_runs"])) == (3, 2)
    assert 'rel="next"' in answer.headers["Link"]


async def test_check_run_of_another_app_cannot_be_touched(client: Client) -> None:
    """An app changes and reruns its own runs only."""
    client.repo.add_ci("ci/test")
    sha = client.repo.push("main", {"a": "1\n"}, by="maria")
    await client.settle(60)
    runs = (await client.get(f"{R}/commits/{sha}/check-runs"))["check_runs"]
    foreign = next(run for run in runs if run["name"] == "ci/test")
    await client.call("PATCH", f"{R}/check-runs/{foreign['id']}", 403, json_body={"conclusion": "success"})
    await client.call("POST", f"{R}/check-runs/{foreign['id']}/rerequest", 403)


async def test_check_run_s_external_id_is_empty_unless_sent_and_null_is_refused(client: Client) -> None:
    """GitHub's example payloads show "" (octokit/webhooks); it refuses null with 422 (NVIDIA/NemoClaw #7065)."""
    sha = client.repo.sha()
    run = await report(client, sha, "x")
    assert run["external_id"] == ""
    for field in ("external_id", "details_url", "conclusion"):
        place, nothing = f"{R}/check-runs/{run['id']}", {field: None}
        for refused in (
            await report(client, sha, "x", 422, **nothing),
            await client.call("PATCH", place, 422, json_body=nothing),
        ):
            assert f"For 'properties/{field}', nil is not a string." in refused["message"]


async def test_check_run_nonsense_is_refused(client: Client) -> None:
    """Words GitHub does not know, a completion without conclusion, an unknown commit: 422."""
    sha = client.repo.sha()
    await report(client, sha, "x", 422, status="dancing")
    await report(client, sha, "x", 422, conclusion="perhaps")
    await report(client, sha, "x", 422, status="completed")
    await report(client, sha, "x", 422, output={"title": "x"})
    await report(client, sha, "x", 422, started_at="yesterday")
    await report(client, "0" * 40, "x", 422)
    await client.call("POST", f"{R}/statuses/{'0' * 40}", 422, json_body={"state": "success"})
    answer = await client.get(f"{R}/commits/nowhere/check-runs", 422)
    assert answer["message"] == "No commit found for SHA: nowhere"


async def test_combined_status_takes_the_newest_of_each_context(client: Client) -> None:
    """One word for all contexts; the list of all statuses is newest first."""
    sha = client.repo.sha()
    assert (await client.get(f"{R}/commits/{sha}/status"))["state"] == "pending"
    for context, state in (("a", "failure"), ("b", "success"), ("a", "success")):
        await client.call("POST", f"{R}/statuses/{sha}", 201, json_body={"state": state, "context": context})
    combined = await client.get(f"{R}/commits/main/status?per_page=1")
    assert (combined["state"], combined["total_count"], len(combined["statuses"])) == ("success", 2, 1)
    everything = await client.get(f"{R}/commits/{sha}/statuses")
    assert [status["state"] for status in everything.content] == ["success", "success", "failure"]
    await client.call("POST", f"{R}/statuses/{sha}", 422, json_body={"state": "green"})


async def test_branch_shows_its_protection_in_short(client: Client) -> None:
    """Reading contents is enough for the summary; the whole protection is for administrators."""
    client.repo.create_branch("release/1", "main", by="maria")
    client.repo.protect("release/*", required_checks=["ci/test", ("lint", client.app.id)], by="acme")
    plain = await client.get(f"{R}/branches/main")
    assert plain["protected"] is False
    assert plain["protection"]["required_status_checks"]["enforcement_level"] == "off"
    for name in ("release/1", "release%2F1"):
        branch = await client.get(f"{R}/branches/{name}")
        assert branch["protection"]["required_status_checks"]["checks"] == [
            {"context": "ci/test", "app_id": None}, {"context": "lint", "app_id": client.app.id},
        ]  # fmt: skip
    assert (await client.get(f"{R}/branches/release%2F1/protection"))["required_status_checks"]["strict"] is False
    token = client.installation_token({"metadata": "read", "contents": "read"})
    await client.get(
        f"{R}/branches/release%2F1/protection", 403, who="anonymous", headers={"Authorization": f"Bearer {token}"}
    )
    answer = await client.get(f"{R}/branches/main/protection", 404)
    assert answer["message"] == "Branch not protected"
    for name in ("nowhere", "nowhere/protection"):
        assert (await client.get(f"{R}/branches/{name}", 404))["message"] == "Branch not found"


async def test_protection_in_full_names_who_may_push_and_who_needs_no_reviews(client: Client) -> None:
    """People and Apps apart, as GitHub lists them; what is not demanded is left out or not enabled."""
    client.repo.protect("main", by="acme")
    bare = await client.get(f"{R}/branches/main/protection")
    assert not bare.content.keys() & {"required_status_checks", "required_pull_request_reviews", "restrictions"}
    assert (bare["lock_branch"]["enabled"], bare["required_linear_history"]["enabled"]) == (False, False)
    spared = ReviewRule(2, code_owners=True, spared=["imq"])
    client.repo.protect("main", reviews=spared, lock=True, restrict_pushes=["maria", "imq"], by="acme")
    full = await client.get(f"{R}/branches/main/protection")
    reviews, restrictions = full["required_pull_request_reviews"], full["restrictions"]
    assert (reviews["required_approving_review_count"], reviews["require_code_owner_reviews"]) == (2, True)
    assert [app["id"] for app in reviews["bypass_pull_request_allowances"]["apps"]] == [client.app.id]
    assert [user["login"] for user in restrictions["users"]] == ["maria"]
    assert [app["slug"] for app in restrictions["apps"]] == ["imq"]
    assert full["lock_branch"]["enabled"] is True


async def test_rules_of_a_branch_need_metadata_only(client: Client) -> None:
    """Active rulesets show their required checks, bound to an app or not; others show nothing."""
    client.repo.add_ruleset("one", branches=["rel/*"], required_checks=[("ci/test", 7), ("lint", None)], by="acme")
    client.repo.add_ruleset("off", branches=["~ALL"], required_checks=[("x", None)], enforcement="disabled", by="acme")
    token = {"Authorization": f"Bearer {client.installation_token({'metadata': 'read'})}"}
    answer = await client.get(f"{R}/rules/branches/rel%2F1", who="anonymous", headers=token)
    (rule,) = answer.content
    assert rule["type"] == "required_status_checks"
    assert rule["parameters"]["required_status_checks"] == [
        {"context": "ci/test", "integration_id": 7}, {"context": "lint"},
    ]  # fmt: skip
    assert (await client.get(f"{R}/rules/branches/main", who="anonymous", headers=token)).content == []
