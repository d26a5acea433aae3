"""Who may call what, in GitHub's words."""

from datetime import timedelta
from typing import Any

import jwt
import pytest

from over_http.conftest import Client, R


async def test_jwt_of_the_app_is_accepted_by_id_and_client_id(client: Client) -> None:
    """An app signs in with its numeric id or its client id as issuer."""
    for issuer in (str(client.app.id), client.app.client_id):
        token = {"Authorization": f"Bearer {client.jwt(iss=issuer)}"}
        answer = await client.get("/app", who="anonymous", headers=token)
        assert answer["slug"] == "imq"


@pytest.mark.parametrize(
    ("claims", "status", "message"),
    [
        ({"exp": 601}, 401, "'Expiration time' claim ('exp') is too far in the future"),
        ({"exp": -1}, 401, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"exp": None}, 401, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"iat": 61}, 401, "'Issued at' claim ('iat') must be an Integer"),
        ({"iss": None}, 401, "Missing 'issuer' claim ('iss')"),
        ({"iss": "1"}, 404, "Integration not found"),
    ],
)
async def test_jwt_with_a_wrong_claim_is_refused(
    client: Client, claims: dict[str, Any], status: int, message: str
) -> None:
    """Each wrong claim has a sentence of its own."""
    now = int(client.clock.now().timestamp())
    moved = {name: value + now if isinstance(value, int) else value for name, value in claims.items()}
    token = {"Authorization": f"Bearer {client.jwt(**moved)}"}
    answer = await client.get("/app", status, who="anonymous", headers=token)
    assert answer["message"].startswith(message)


async def test_jwt_signed_by_another_key_is_refused(client: Client) -> None:
    """Only the app's own key counts."""
    other = client.github.create_app("other", permissions={}, events=())
    now = int(client.clock.now().timestamp())
    claims = {"iat": now, "exp": now + 60, "iss": str(client.app.id)}
    forged = jwt.encode(claims, other.private_key, algorithm="RS256")
    for token in (forged, "no.json.token", jwt.encode(claims, "s" * 32, algorithm="HS256")):
        answer = await client.get("/app", 401, who="anonymous", headers={"Authorization": f"Bearer {token}"})
        assert answer["message"] == "A JSON web token could not be decoded"


async def test_installation_token_lives_one_hour(client: Client) -> None:
    """A token is long and opaque, works for an hour, and is bad credentials after it."""
    path = f"/app/installations/{client.installation.id}/access_tokens"
    issued = await client.call("POST", path, 201, who="app")
    assert issued["token"].startswith("ghs_")
    assert len(issued["token"]) > 500
    bearer = {"Authorization": f"Bearer {issued['token']}"}
    client.clock.advance(timedelta(minutes=59))
    await client.get(R, who="anonymous", headers=bearer)
    client.clock.advance(timedelta(minutes=1))
    answer = await client.get(R, 401, who="anonymous", headers=bearer)
    assert answer["message"] == "Bad credentials"


async def test_installation_token_narrowed_reaches_less(client: Client) -> None:
    """A token for less has less: permissions and repositories."""
    client.github.create_repository("acme/gadgets", files={"a": "1\n"})
    path = f"/app/installations/{client.installation.id}/access_tokens"
    wanted = {"repositories": ["gadgets"], "permissions": {"issues": "read"}}
    issued = await client.call("POST", path, 201, who="app", json_body=wanted)
    assert issued["permissions"] == {"issues": "read", "metadata": "read"}
    assert [repository["name"] for repository in issued["repositories"]] == ["gadgets"]
    bearer = {"Authorization": f"token {issued['token']}"}
    await client.get("/repos/acme/gadgets/issues", who="anonymous", headers=bearer)
    await client.get("/repos/acme/gadgets/commits", 403, who="anonymous", headers=bearer)
    await client.get(R, 404, who="anonymous", headers=bearer)


async def test_installation_token_for_more_than_granted_is_refused(client: Client) -> None:
    """No token has more than the installation was granted."""
    path = f"/app/installations/{client.installation.id}/access_tokens"
    answer = await client.call("POST", path, 422, who="app", json_body={"permissions": {"administration": "write"}})
    assert answer["message"] == "The permissions requested are not granted to this installation."


async def test_installation_token_for_too_many_repositories_is_refused(client: Client) -> None:
    """At most 500 can be listed."""
    path = f"/app/installations/{client.installation.id}/access_tokens"
    await client.call("POST", path, 422, who="app", json_body={"repository_ids": list(range(501))})


async def test_installation_of_another_app_does_not_exist(client: Client) -> None:
    """An app finds its own installations only."""
    other = client.github.install(client.github.create_app("other", permissions={}), "acme")
    await client.get(f"/app/installations/{other.id}", 404, who="app")
    await client.call("POST", f"/app/installations/{other.id}/access_tokens", 404, who="app")
    assert len((await client.get("/app/installations", who="app")).content) == 1


async def test_missing_permission_is_named(client: Client) -> None:
    """A refusal for a missing permission names those that suffice."""
    token = client.installation_token({"metadata": "read", "issues": "read"})
    bearer = {"Authorization": f"Bearer {token}"}
    answer = await client.call(
        "POST", f"{R}/issues/1/comments", 403, who="anonymous", headers=bearer, json_body={"body": "x"}
    )
    assert answer["message"] == "Resource not accessible by integration"
    assert answer.headers["X-Accepted-GitHub-Permissions"] == "issues=write; pull_requests=write"


async def test_pull_request_permission_reads_no_issues(client: Client) -> None:
    """Labels and comments of a pull request need either permission; the list of issues needs its own."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    token = client.installation_token({"metadata": "read", "pull_requests": "write"})
    bearer = {"Authorization": f"Bearer {token}"}
    for path in ("labels", "comments", "events", "timeline"):
        await client.get(f"{R}/issues/{pull.number}/{path}", who="anonymous", headers=bearer)
    for path in ("/issues", f"/issues/{pull.number}"):
        answer = await client.get(R + path, 403, who="anonymous", headers=bearer)
        assert answer.headers["X-Accepted-GitHub-Permissions"] == "issues=read"


async def test_repository_outside_the_installation_does_not_exist(client: Client) -> None:
    """Private repositories of others are 404, known or not."""
    client.github.create_user("other")
    client.github.create_repository("other/secret", files={"a": "1\n"})
    await client.get("/repos/other/secret", 404)
    await client.get("/repos/other/nothing", 404)
    client.github.create_repository("other/open", files={"a": "1\n"}, private=False)
    await client.get("/repos/other/open", 200)
    await client.call("POST", "/repos/other/open/merges", 403, json_body={"base": "main", "head": "main"})


async def test_people_use_the_api_with_their_roles(client: Client) -> None:
    """A person's token opens what the person's role opens."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    labels = {"labels": ["merge-queue"]}
    await client.call("POST", f"{R}/issues/{pull.number}/labels", 200, who="tom", json_body=labels)
    await client.call("PUT", f"{R}/pulls/{pull.number}/merge", 403, who="tom")
    await client.get(R, 404, who="stranger")
    await client.get(R, 404, who="anonymous")
    await client.call("PUT", f"{R}/pulls/{pull.number}/merge", 200, who="maria")
    await client.call("POST", f"{R}/statuses/{pull.head_sha}", 403, who="tom", json_body={"state": "success"})
    await client.get(f"{R}/branches/main/protection", 403, who="ann")
    answer = await client.call(
        "POST", f"{R}/check-runs", 403, who="ann", json_body={"name": "x", "head_sha": pull.head_sha}
    )
    assert answer["message"] == "You must authenticate via a GitHub App."


async def test_request_without_user_agent_is_refused(client: Client) -> None:
    """GitHub wants to know who is asking."""
    answer = await client.call("GET", "/rate_limit", 403, headers={"User-Agent": ""})
    assert "User-Agent" in answer.content


async def test_unknown_api_version_is_refused(client: Client) -> None:
    """Only versions that exist are served."""
    await client.get("/rate_limit", 200, headers={"X-GitHub-Api-Version": "2022-11-28"})
    await client.get("/rate_limit", 400, headers={"X-GitHub-Api-Version": "1999-01-01"})


async def test_unknown_path_and_method_do_not_exist(client: Client) -> None:
    """What GitHub does not have is 404 with its usual body; so is a method that a path does not know."""
    for method, path in (("GET", "/nowhere"), ("DELETE", R + "/pulls"), ("GET", "/api/v3/nowhere")):
        answer = await client.call(method, path, 404)
        assert answer["message"] == "Not Found"


async def test_enterprise_server_prefix_serves_the_same(client: Client) -> None:
    """Below `/api/v3` everything is there as well, and page links stay below it."""
    for number in range(3):
        client.repo.create_branch(f"b{number}", "main", by="ann")
    answer = await client.get(f"/api/v3{R}/branches?per_page=2")
    assert f"{client.server.url}/api/v3/repositories/" in answer.headers["Link"]
    assert client.server.requests[-1].template == "GET /repos/{owner}/{repo}/branches"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [("{", 400, "Problems parsing JSON"), ("[]", 400, "Body should be a JSON object")],
)
async def test_malformed_body_is_refused(client: Client, body: str, status: int, message: str) -> None:
    """A body that is no JSON object is not understood."""
    headers = client.authorization("installation")
    async with client.session.post(client.server.url + R + "/merges", data=body, headers=headers) as response:
        assert response.status == status
        assert (await response.json())["message"] == message


async def test_invalid_fields_are_named(client: Client) -> None:
    """A missing field and one of the wrong type are 422, and named."""
    answer = await client.call("POST", f"{R}/merges", 422, json_body={"head": "x"})
    assert '"base" wasn\'t supplied.' in answer["message"]
    answer = await client.call("POST", f"{R}/merges", 422, json_body={"head": "x", "base": 1})
    assert "For 'properties/base', 1 is not a string." in answer["message"]


async def test_archived_repository_is_read_only(client: Client) -> None:
    """An archived repository can be read, and not be changed."""
    client.github.state.repositories["acme/widgets"].archived = True
    await client.get(R)
    answer = await client.call("POST", f"{R}/merges", 403, json_body={"base": "main", "head": "main"})
    assert answer["message"] == "Repository was archived so is read-only."
