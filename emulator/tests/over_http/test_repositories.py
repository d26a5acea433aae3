"""A repository's files, people and installations over HTTP, and the standalone server."""

import asyncio
import base64
from datetime import timedelta
from typing import Any

import pytest

from github_emulator.core.schedule import Callback, ScheduledAction
from over_http.conftest import Client, R
from tests.support.real_time import LIMIT


async def test_contents_are_base64_at_a_ref(client: Client) -> None:
    """A file comes encoded, from the branch, tag or commit asked for; a missing one is 404."""
    client.repo.create_branch("config/new", "main", by="ann")
    client.repo.push("config/new", {".github/imq.yml": "version: 1\n"}, by="ann")
    answer = await client.get(f"{R}/contents/.github/imq.yml?ref=config%2Fnew")
    assert (answer["encoding"], answer["type"]) == ("base64", "file")
    assert base64.b64decode(answer["content"]) == b"version: 1\n"
    missing = await client.get(f"{R}/contents/.github/imq.yml", 404)
    assert missing["message"] == "Not Found"
    await client.get(f"{R}/contents/README.md?ref=nowhere", 404)


async def test_contents_raw_are_the_file_itself(client: Client) -> None:
    """With the raw media type the file comes as it is, and unchanged content costs no request of the budget."""
    client.repo.push("main", {".github/imq.yml": "labels: [ä]\n"}, by="maria")
    place, token = f"{R}/contents/.github/imq.yml", client.authorization("installation")
    raw = {"Accept": "application/vnd.github.raw+json", **token}
    answer = await client.get(place, headers=raw)
    assert answer.content == "labels: [ä]\n"
    assert answer.headers["Content-Type"].startswith("application/vnd.github.raw+json")
    again = await client.get(place, 304, headers={**raw, "If-None-Match": answer.headers["ETag"]})
    assert again.content is None
    missing = await client.get(f"{R}/contents/.github/none.yml", 404, headers=raw)
    assert missing["message"] == "Not Found"


async def test_contents_of_an_organisations_own_repository(client: Client) -> None:
    """An installation on all repositories reads `.github` of its organisation, one on some may not see it."""
    client.github.create_repository("acme/.github", files={".github/imq.yml": "a: 1\n"})
    place, raw = "/repos/acme/.github/contents/.github/imq.yml", {"Accept": "application/vnd.github.raw+json"}
    assert (await client.get(place, headers=raw)).content == "a: 1\n"
    client.github.accounts.select(client.installation, [client.repo.record])
    await client.get(place, 404, headers=raw)


async def test_permission_names_the_role(client: Client) -> None:
    """Triage and maintain are shown by `role_name` only, as GitHub's older field does not know them."""
    expected = {
        "acme": ("admin", "admin"),
        "maria": ("write", "maintain"),
        "ann": ("write", "write"),
        "tom": ("read", "triage"),
        "stranger": ("none", "none"),
    }
    for login, (permission, role) in expected.items():
        answer = await client.get(f"{R}/collaborators/{login}/permission")
        assert (answer["permission"], answer["role_name"]) == (permission, role)
    await client.get(f"{R}/collaborators/ghost/permission", 404)


async def test_private_member_is_shown_to_those_who_may_see_members(client: Client) -> None:
    """Without `members: read` a member is a contributor once something landed, a stranger before; webhooks say so."""
    client.repo.record.owner.kind = "Organization"
    client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    token = client.installation_token({"pull_requests": "read"})
    blind = {"Authorization": f"Bearer {token}"}

    async def association(**options: Any) -> Any:
        return (await client.get(f"{R}/pulls/1", **options))["author_association"]

    assert await association(headers=blind) == "COLLABORATOR"
    client.github.behaviour.private_members = True
    assert await association(headers=blind) == "NONE"
    assert [await association(), await association(who="maria")] == ["MEMBER", "MEMBER"]
    await client.call("PUT", f"{R}/pulls/1/merge", 200)
    assert [await association(headers=blind), await association()] == ["CONTRIBUTOR", "MEMBER"]
    await client.settle()
    pulls = [payload["pull_request"] for _, payload in client.receiver.received if "pull_request" in payload]
    assert {shown["author_association"] for shown in pulls} == {"COLLABORATOR", "CONTRIBUTOR"}


async def test_suspended_installation_is_locked_out(client: Client) -> None:
    """No new token, and the old ones stop."""
    headers = client.authorization("installation")
    client.github.accounts.suspend(client.installation)
    answer = await client.get(R, 403, who="anonymous", headers=headers)
    assert "suspended your access at" in answer["message"]
    path = f"/app/installations/{client.installation.id}/access_tokens"
    answer = await client.call("POST", path, 403, who="app")
    assert answer["message"] == "This installation has been suspended"
    assert (await client.get("/app/installations", who="app"))[0]["suspended_at"] is not None


async def test_installation_repositories_are_those_of_the_token(client: Client) -> None:
    """All of the account's, or those chosen."""
    client.github.create_repository("acme/gadgets", files={"a": "1\n"})
    answer = await client.get("/installation/repositories?per_page=1")
    assert (answer["total_count"], answer["repository_selection"]) == (2, "all")
    client.github.accounts.select(client.installation, [client.repo.record])
    answer = await client.get("/installation/repositories")
    assert [repository["full_name"] for repository in answer["repositories"]] == ["acme/widgets"]
    assert answer["repository_selection"] == "selected"
    await client.get("/installation/repositories", 403, who="maria")


async def test_latency_is_time_of_the_emulator(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request takes its time on the way, and no test sleeps for it."""
    client.server.latency = timedelta(seconds=2)
    waiting = asyncio.Event()
    after = client.github.schedule.after

    def spy(delay: timedelta, callback: Callback, *, name: str = "") -> ScheduledAction:
        waiting.set()
        return after(delay, callback, name=name)

    monkeypatch.setattr(client.github.schedule, "after", spy)
    request = asyncio.ensure_future(client.get("/rate_limit"))
    await asyncio.wait_for(waiting.wait(), LIMIT)
    await client.settle(1.9)
    assert not request.done()
    await client.settle(0.1)
    await request


@pytest.mark.parametrize(
    ("mode", "expected"), [("always", "always"), ("pull_request", "pull_requests_only"), ("exempt", "exempt")]
)
async def test_ruleset_says_whether_the_caller_may_pass_it(client: Client, mode: str, expected: str) -> None:
    """`current_user_can_bypass` is the caller's own; the list itself is for administrators, another's is 404."""
    rules = client.repo.add_ruleset("the queue's", update=True, bypass={"imq": mode}, by="acme")
    place = f"{R}/rulesets/{rules.id}"
    answer = await client.get(place)
    assert answer["current_user_can_bypass"] == expected
    assert "bypass_actors" not in answer.content
    assert (await client.get(place, who="maria"))["current_user_can_bypass"] == "never"
    ours = client.repo.add_ruleset("ours", organisation=True, required_approvals=1, by="acme")
    answer = await client.get(f"{R}/rulesets/{ours.id}")
    assert (answer["source_type"], answer["source"]) == ("Organization", "acme")
    await client.get(f"{R}/rulesets/1", 404)


async def test_pull_requests_are_found_by_base_and_head(client: Client) -> None:
    """Both select; a branch that is deleted over HTTP takes the pull requests based on it along."""
    lower = client.repo.open_pull_request("Lower", head="lower", by="ann", files={"a": "1\n"})
    upper = client.repo.open_pull_request("Upper", head="upper", base="lower", by="ann", files={"b": "1\n"})
    found = {
        query: [pull["number"] for pull in (await client.get(f"{R}/pulls?state=open&{query}")).content]
        for query in ("base=lower", "base=main", "head=acme:lower", "base=upper")
    }
    assert found == {
        "base=lower": [upper.number], "base=main": [lower.number], "head=acme:lower": [lower.number], "base=upper": [],
    }  # fmt: skip
    await client.call("DELETE", f"{R}/git/refs/heads/lower", 204)
    assert (lower.state, upper.state) == ("closed", "closed")
    answer = await client.call("DELETE", f"{R}/git/refs/heads/lower", 422)
    assert answer["message"] == "Reference does not exist"


async def test_ends_of_a_pull_request_show_merge_methods_only_where_github_does(client: Client) -> None:
    """Answers to Apps lacked them in all that were recorded; the repository itself has them."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    place = f"{R}/pulls/{pull.number}"
    assert "allow_merge_commit" not in (await client.get(place))["base"]["repo"]
    assert (await client.get(R))["allow_merge_commit"]
    client.github.behaviour.merge_settings_in_pulls = True
    assert (await client.get(place))["base"]["repo"]["allow_merge_commit"]


@pytest.mark.parametrize("needed", [True, False])
async def test_settings_and_people_are_shown_to_an_app_that_may_push_or_to_all(client: Client, needed: bool) -> None:
    """GitHub is known to do both; by REST and by GraphQL alike."""
    behaviour = client.github.behaviour
    behaviour.merge_settings_need_push = behaviour.permissions_need_push = needed
    people = 'collaborators(login: "ann", first: 1) { totalCount }'
    query = {"query": f'{{ repository(owner: "acme", name: "widgets") {{ {people} }} }}'}
    for level, hidden in (("read", needed), ("write", False)):
        headers = {"Authorization": f"Bearer {client.installation_token({'contents': level})}"}
        assert ("allow_squash_merge" not in (await client.get(R, headers=headers)).content) is hidden
        await client.get(f"{R}/collaborators/ann/permission", 403 if hidden else 200, headers=headers)
        answer = await client.call("POST", "/graphql", 200, json_body=query, headers=headers)
        assert (answer["data"]["repository"]["collaborators"] is None) is hidden


async def test_pull_requests_of_a_commit_are_the_one_that_merged_it_or_all_that_hold_it(client: Client) -> None:
    """Once the commit is on the default branch, the open ones that hold it as well are left out."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    client.repo.create_branch("second", "topic", by="ann")
    client.repo.push("second", {"c": "1\n"}, by="ann")
    other = client.repo.open_pull_request("Second", head="second", by="ann")

    async def numbers() -> set[int]:
        answer = await client.get(f"{R}/commits/{pull.head_sha}/pulls")
        return {each["number"] for each in answer.content}

    assert await numbers() == {pull.number, other.number}
    pull.merge(by="maria")
    assert await numbers() == {pull.number}


async def test_head_is_answered_as_get_without_a_body(client: Client) -> None:
    """Every read can be asked for by HEAD."""
    token = client.authorization("installation")
    answer = await client.call("HEAD", R, 200, headers={"Accept": "application/json", **token})
    assert answer.content is None
    assert answer.headers["ETag"] == (await client.get(R, headers=token)).headers["ETag"]
