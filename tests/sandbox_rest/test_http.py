"""What every answer has: headers, pages, conditional requests, the record."""

from datetime import timedelta

from tests.sandbox_rest.conftest import Client, R
from tests.sandbox_rest.schemas import next_link


async def test_every_answer_has_githubs_headers(client: Client) -> None:
    """Success and refusal alike carry limits, request id and media type."""
    for path in (R, f"{R}/pulls/99"):
        seen = await client.get(path, None)
        assert seen.headers["Content-Type"] == "application/json; charset=utf-8"
        assert seen.headers["X-GitHub-Media-Type"] == "github.v3; format=json"
        assert seen.headers["X-RateLimit-Limit"] == "5000"
        assert seen.headers["X-RateLimit-Resource"] == "core"
        assert seen.headers["X-GitHub-Request-Id"]
    reset = int(seen.headers["X-RateLimit-Reset"])
    assert reset == int((client.clock.now() + timedelta(hours=1)).timestamp())
    assert (seen.headers["X-RateLimit-Used"], seen.headers["X-RateLimit-Remaining"]) == ("2", "4998")


async def test_conditional_request_unchanged_is_304_and_free(client: Client) -> None:
    """A client that has the answer already gets nothing, for nothing; after a change it gets the new one."""
    first = await client.get(R + "/issues")
    tag = {"If-None-Match": first.headers["ETag"]}
    assert first.headers["ETag"].startswith('W/"')
    again = await client.get(R + "/issues", 304, headers=tag)
    assert again.content is None
    assert again.headers["X-RateLimit-Used"] == "1"
    assert client.server.requests[-1].not_modified
    assert client.server.requests[-1].conditional
    client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    await client.get(R + "/issues", 200, headers=tag)


async def test_pages_lead_to_every_item_once(client: Client) -> None:
    """Following the next links gives everything, in order, once."""
    for number in range(7):
        client.repo.create_branch(f"branch/{number}", "main", by="ann")
    address: str | None = f"{R}/branches?per_page=3"
    names = []
    while address is not None:
        seen = await client.get(address)
        names += [branch["name"] for branch in seen.content]
        address = next_link(seen.headers.get("Link"))
    assert names == [*(f"branch/{number}" for number in range(7)), "main"]


async def test_exhausted_primary_limit_is_a_violation(client: Client) -> None:
    """A client that asks on when none remain is refused, and noted."""
    client.server.limits.primary = 1
    await client.get(R)
    seen = await client.get(R, 403)
    assert seen["message"] == f"API rate limit exceeded for installation ID {client.installation.id}."
    assert [violation.kind for violation in client.server.limits.violations] == ["primary"]
    limits = await client.get("/rate_limit")
    assert limits["rate"]["remaining"] == 0


async def test_requests_are_recorded_by_template(client: Client) -> None:
    """The record tells how often each route was asked, by whom and with what result."""
    await client.get(f"{R}/pulls/1", 404)
    client.clock.advance(timedelta(minutes=1))
    start = client.clock.now()
    await client.get(f"{R}/pulls/2", 404)
    await client.get("/app", who="app")
    requests = client.server.requests
    template = "GET /repos/{owner}/{repo}/pulls/{number}"
    assert requests.by_template() == {template: 2, "GET /app": 1}
    assert requests.by_template(since=start, installation=client.installation.id) == {template: 1}
    assert [exchange.path for exchange in requests.of(template)] == [f"{R}/pulls/1", f"{R}/pulls/2"]
    assert [exchange.sequence for exchange in requests] == [1, 2, 3]
    assert requests.busiest(timedelta(minutes=1)) == 2
    assert len(requests.between(start, start + timedelta(seconds=1))) == 2
