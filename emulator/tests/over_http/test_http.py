"""What every answer has: headers, pages, conditional requests, the record."""

from datetime import timedelta

import pytest

from github_schemas.schemas import next_link
from over_http.conftest import Client, R


async def test_every_answer_has_githubs_headers(client: Client) -> None:
    """Success and refusal alike carry limits, request id and media type."""
    for path in (R, f"{R}/pulls/99"):
        answer = await client.get(path, None)
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert answer.headers["X-GitHub-Media-Type"] == "github.v3; format=json"
        assert answer.headers["X-RateLimit-Limit"] == "5000"
        assert answer.headers["X-RateLimit-Resource"] == "core"
        assert answer.headers["X-GitHub-Request-Id"]
    reset = int(answer.headers["X-RateLimit-Reset"])
    assert reset == int((client.clock.now() + timedelta(hours=1)).timestamp())
    assert (answer.headers["X-RateLimit-Used"], answer.headers["X-RateLimit-Remaining"]) == ("2", "4998")


async def test_conditional_request_unchanged_is_304_and_free(client: Client) -> None:
    """A client that has the answer already gets nothing, for nothing; after a change it gets the new one."""
    token = client.authorization("installation")
    first = await client.get(R + "/issues", headers=token)
    tag = {"If-None-Match": first.headers["ETag"], **token}
    assert first.headers["ETag"].startswith('W/"')
    again = await client.get(R + "/issues", 304, headers=tag)
    assert again.content is None
    assert again.headers["X-RateLimit-Used"] == "1"
    assert client.server.requests[-1].not_modified
    assert client.server.requests[-1].conditional
    client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    await client.get(R + "/issues", 200, headers=tag)


@pytest.mark.parametrize(("of_tokens", "status"), [(True, 200), (False, 304)])
async def test_conditional_request_with_a_renewed_token_misses(client: Client, of_tokens: bool, status: int) -> None:
    """An ETag belongs to the token that got it, unless GitHub changes that."""
    client.github.behaviour.etags_of_tokens = of_tokens
    first = await client.get(R + "/issues")
    await client.get(R + "/issues", status, headers={"If-None-Match": first.headers["ETag"]})
    assert client.server.requests[-1].not_modified == (status == 304)


async def test_pages_lead_to_every_item_once(client: Client) -> None:
    """Following the next links gives everything, in order, once."""
    for number in range(7):
        client.repo.create_branch(f"branch/{number}", "main", by="ann")
    address: str | None = f"{R}/branches?per_page=3"
    names = []
    while address is not None:
        answer = await client.get(address)
        names += [branch["name"] for branch in answer.content]
        address = next_link(answer.headers.get("Link"))
    assert names == [*(f"branch/{number}" for number in range(7)), "main"]


async def test_exhausted_primary_limit_is_a_violation(client: Client) -> None:
    """A client that asks on when none remain is refused, and noted."""
    client.server.limits.primary = 1
    await client.get(R)
    answer = await client.get(R, 403)
    assert answer["message"] == f"API rate limit exceeded for installation ID {client.installation.id}."
    assert [violation.kind for violation in client.server.limits.violations] == ["primary"]
    limits = await client.get("/rate_limit")
    assert limits["rate"]["remaining"] == 0


async def test_writes_and_creations_count_for_the_secondary_limits(client: Client) -> None:
    """A write weighs five points, a comment is content: too many are refused, reads go on."""
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    comments = f"{R}/issues/{pull.number}/comments"
    client.server.limits.creations_per_minute = 1
    await client.call("POST", comments, 201, json_body={"body": "One"})
    answer = await client.call("POST", comments, 403, json_body={"body": "Two"})
    assert "secondary rate limit" in answer["message"]
    assert answer.headers["Retry-After"] == "60"
    client.server.limits.points_per_minute = 5
    labels = f"{R}/issues/{pull.number}/labels"
    await client.call("POST", labels, 200, json_body={"labels": ["a"]})
    await client.call("POST", labels, 403, json_body={"labels": ["b"]})
    await client.get(comments)
    assert [violation.kind for violation in client.server.limits.violations] == ["creations", "points"]


async def test_error_of_the_emulator_itself_is_loud(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the emulator is a 500 that fails the test at the end, not an odd answer."""

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(client.github.rules, "rulesets", broken)
    await client.get(f"{R}/rules/branches/main", 500)
    with pytest.raises(ZeroDivisionError):
        await client.server.stop()
    client.server.crashes.clear()


async def test_pull_requests_are_selected_by_base_head_and_state(client: Client) -> None:
    """The list's parameters narrow it; the newest comes first."""
    client.repo.create_branch("next", "main", by="maria")
    for number, base in enumerate(("main", "next", "main")):
        client.repo.open_pull_request("Change", head=f"b{number}", base=base, by="ann", files={f"f{number}": "1\n"})
    client.repo.pull(3).close(by="ann")

    async def numbers(query: str) -> list[int]:
        return [pull["number"] for pull in (await client.get(f"{R}/pulls?{query}")).content]

    assert await numbers("") == [2, 1]
    assert await numbers("state=all&sort=created&direction=asc") == [1, 2, 3]
    assert await numbers("base=next") == [2]
    assert await numbers("head=acme:b0") == [1]
    assert await numbers("head=somebody:b0") == []
    assert await numbers("state=closed") == [3]


async def test_requests_are_recorded_by_template(client: Client) -> None:
    """The record shows how often each route was asked, by whom and with what result."""
    await client.get(f"{R}/pulls/1", 404)
    client.clock.advance(timedelta(minutes=1))
    start = client.clock.now()
    await client.get(f"{R}/pulls/2", 404)
    await client.get("/app", who="app")
    requests = client.server.requests
    template = "GET /repos/{owner}/{repo}/pulls/{number}"
    assert requests.by_template() == {template: 2, "GET /app": 1}
    assert requests.by_template(since=start, installation=client.installation.id) == {template: 1}
    assert [recorded.path for recorded in requests.of(template)] == [f"{R}/pulls/1", f"{R}/pulls/2"]
    assert [recorded.sequence for recorded in requests] == [1, 2, 3]
    assert requests.busiest(timedelta(minutes=1)) == 2
    assert len(requests.between(start, start + timedelta(seconds=1))) == 2
