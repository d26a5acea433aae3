"""Merging over HTTP: what lands, and what GitHub answers when nothing does."""

from typing import Any

import pytest

from over_http.conftest import Client, R


def opened(client: Client, head: str = "topic", **options: Any) -> Any:
    files = options.pop("files", {head: "1\n"})
    return client.repo.open_pull_request("Change", head=head, by="ann", files=files, **options)


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_merge_lands_and_says_where(client: Client, method: str) -> None:
    """The answer names the commit that is now the base's tip."""
    pull = opened(client)
    body = {"sha": pull.head_sha, "merge_method": method, "commit_title": "Title", "commit_message": "Text"}
    answer = await client.call("PUT", f"{R}/pulls/{pull.number}/merge", 200, json_body=body)
    branch = await client.get(f"{R}/branches/main")
    assert answer["sha"] == branch["commit"]["sha"]
    assert (await client.get(f"{R}/pulls/{pull.number}"))["merged"] is True
    await client.get(f"{R}/pulls/{pull.number}/merge", 204)


async def test_merge_refusals_are_githubs(client: Client) -> None:
    """405 for what cannot be merged, 409 for a moved head, 422 for nonsense."""
    pull = opened(client)
    path = f"{R}/pulls/{pull.number}/merge"
    answer = await client.call("PUT", path, 409, json_body={"sha": "0" * 40})
    assert answer["message"] == "Head branch was modified. Review and try the merge again."
    await client.call("PUT", path, 422, json_body={"merge_method": "teleport"})
    client.repo.protect("main", required_checks=["ci/test"], by="acme")
    answer = await client.call("PUT", path, 405)
    assert answer["message"] == 'Required status check "ci/test" is expected.'
    client.repo.unprotect("main", by="acme")
    pull.convert_to_draft(by="ann")
    await client.call("PUT", path, 405)
    pull.ready_for_review(by="ann")
    client.repo.push("main", {"topic": "2\n"}, "In the way", by="maria")
    answer = await client.call("PUT", path, 405)
    assert answer["message"] == "Pull Request is not mergeable"
    pull.close(by="ann")
    await client.call("PUT", path, 405)


async def test_merge_of_workflows_needs_the_permission(client: Client) -> None:
    """An app without `workflows` may not merge a change of workflows."""
    pull = opened(client, files={".github/workflows/ci.yml": "on: push\n"})
    answer = await client.call("PUT", f"{R}/pulls/{pull.number}/merge", 403)
    assert "without `workflows` permission" in answer["message"]


async def test_update_branch_is_a_promise(client: Client) -> None:
    """202 at once, the new head later, with the old head and the base's tip as parents."""
    pull = opened(client)
    old = pull.head_sha
    tip = client.repo.push("main", {"c": "1\n"}, "On", by="maria")
    path = f"{R}/pulls/{pull.number}/update-branch"
    answer = await client.call("PUT", path, 422, json_body={"expected_head_sha": "0" * 40})
    assert "expected head sha didn" in answer["message"]
    answer = await client.call("PUT", path, 202, json_body={"expected_head_sha": old})
    assert answer["message"] == "Updating pull request branch."
    assert pull.head_sha == old
    await client.settle()
    commit = await client.get(f"{R}/git/commits/{pull.head_sha}")
    assert [parent["sha"] for parent in commit["parents"]] == [old, tip]
    answer = await client.call("PUT", path, 422, json_body={"expected_head_sha": pull.head_sha})
    assert answer["message"] == "There are no new commits on the base branch."


async def test_merges_twice_has_nothing_to_do(client: Client) -> None:
    """Merging a branch again is 204; a conflict is 409; a missing branch 404."""
    client.repo.create_branch("topic", "main", by="ann")
    client.repo.push("topic", {"README.md": "Topic\n"}, "Topic", by="ann")
    body = {"base": "main", "head": "topic"}
    await client.call("POST", f"{R}/merges", 404, json_body={"base": "main", "head": "nowhere"})
    merged = await client.call("POST", f"{R}/merges", 201, json_body=body)
    assert len(merged["parents"]) == 2
    response = await client.session.post(
        client.server.url + R + "/merges", json=body, headers=client.authorization("installation")
    )
    assert response.status == 204
    client.repo.create_branch("other", merged["parents"][0]["sha"], by="ann")
    client.repo.push("other", {"README.md": "Other\n"}, "Other", by="ann")
    answer = await client.call("POST", f"{R}/merges", 409, json_body={"base": "main", "head": "other"})
    assert answer["message"] == "Merge conflict"


async def test_ref_moves_forward_only(client: Client) -> None:
    """A reference is created, moved forward, and moved back by force only."""
    main = client.repo.log("main")[0].sha
    client.repo.create_branch("ahead", "main", by="ann")
    ahead = client.repo.push("ahead", {"c": "1\n"}, "On", by="ann")
    created = await client.call("POST", f"{R}/git/refs", 201, json_body={"ref": "refs/heads/a/b", "sha": main})
    assert created["ref"] == "refs/heads/a/b"
    await client.call("POST", f"{R}/git/refs", 422, json_body={"ref": "refs/heads/a/b", "sha": main})
    path = f"{R}/git/refs/heads/a/b"
    await client.call("PATCH", path, 200, json_body={"sha": ahead})
    answer = await client.call("PATCH", path, 422, json_body={"sha": main})
    assert answer["message"] == "Update is not a fast forward"
    await client.call("PATCH", path, 200, json_body={"sha": main, "force": True})
    for address in (f"{R}/git/ref/heads/a/b", f"{R}/git/ref/heads%2Fa%2Fb"):
        assert (await client.get(address))["object"]["sha"] == main
    await client.call("DELETE", path, 204)
    await client.get(f"{R}/git/ref/heads/a/b", 404)


async def test_compare_counts_and_pages(client: Client) -> None:
    """Commits come oldest first in pages; counts and merge base do not depend on the page."""
    base = client.repo.log("main")[0].sha
    client.repo.create_branch("feature/x", "main", by="ann")
    commits = [client.repo.push("feature/x", {f"f{n}": "1\n"}, f"Commit {n}", by="ann") for n in range(3)]
    client.repo.push("main", {"m": "1\n"}, "Main", by="maria")
    for name in ("main...feature/x", "main...feature%2Fx"):
        answer = await client.get(f"{R}/compare/{name}")
        assert (answer["status"], answer["ahead_by"], answer["behind_by"]) == ("diverged", 3, 1)
        assert [commit["sha"] for commit in answer["commits"]] == commits
        assert answer["merge_base_commit"]["sha"] == base
        assert len(answer["files"]) == 3
    page = await client.get(f"{R}/compare/main...feature%2Fx?per_page=2&page=2")
    assert [commit["sha"] for commit in page["commits"]] == commits[2:]
    assert page["total_commits"] == 3
    assert page["files"] == []
    await client.get(f"{R}/compare/main...nowhere", 404)
    await client.get(f"{R}/compare/main", 404)
