"""What a GitHub Enterprise Server lacks, and how it names its version."""

from typing import Any, get_args, get_type_hints

import pytest

from github_emulator import ABSENT_FROM_ENTERPRISE_SERVER, ENTERPRISE_SERVERS, Behaviour
from github_emulator.rest.endpoints import ROUTES
from over_http.conftest import Client, R

STACK = """query { repository(owner: "acme", name: "widgets") { pullRequest(number: 1) { stack { id } } } }"""


def test_versions_and_endpoints_are_those_that_there_are() -> None:
    """A renamed endpoint would be offered by mistake."""
    assert get_args(get_type_hints(Behaviour)["enterprise_server"]) == ("", *ENTERPRISE_SERVERS)
    assert {route.template for route in ROUTES} >= ABSENT_FROM_ENTERPRISE_SERVER


@pytest.mark.parametrize("version", ENTERPRISE_SERVERS)
async def test_server_answers_404_to_what_it_lacks_and_names_its_version(client: Client, version: Any) -> None:
    """Whatever the switches of single features say; everything else is there."""
    behaviour = client.github.behaviour
    pull = client.repo.open_pull_request("one", head="one", by="ann", files={"one": "1\n"})
    behaviour.merge_async, behaviour.stacks, behaviour.enterprise_server = True, "automatic", version
    for method, path in (each.split(" ") for each in sorted(ABSENT_FROM_ENTERPRISE_SERVER)):
        filled = path.format(
            owner="acme",
            repo="widgets",
            number=pull.number,
            uuid="u",
            concurrency_group_name="ci",
            run_id=1,
        )
        answer = await client.call(method, filled, 404, json_body={} if method != "GET" else None)
        assert answer["message"] == "Not Found"
    answer = await client.call("GET", f"{R}/pulls/{pull.number}", 200)
    assert answer.headers["X-GitHub-Enterprise-Version"] == f"{version}.0"
    assert "stack" not in answer.content
    await client.call("GET", f"/api/v3{R}/rulesets", 200)


async def test_schema_of_a_server_has_no_stacks(client: Client) -> None:
    """A query that names them is refused as a whole."""
    client.repo.open_pull_request("one", head="one", by="ann", files={"one": "1\n"})
    known = await client.call("POST", "/graphql", 200, json_body={"query": STACK})
    assert "errors" not in known.content
    client.github.behaviour.enterprise_server = "3.22"
    answer = await client.call("POST", "/graphql", 200, json_body={"query": STACK})
    assert answer["errors"][0]["message"] == "Field 'stack' doesn't exist on type 'PullRequest'"


async def test_webhooks_name_the_version_and_wait_longer(client: Client) -> None:
    """github.com gives a receiver ten seconds and names no version."""
    behaviour = client.github.behaviour
    assert (behaviour.webhook_seconds, behaviour.version_headers) == (10, {})
    await client.settle()
    client.receiver.received.clear()
    behaviour.enterprise_server = "3.19"
    assert behaviour.webhook_seconds == 30
    client.repo.open_pull_request("one", head="one", by="ann", files={"one": "1\n"})
    await client.settle()
    assert {headers["X-GitHub-Enterprise-Version"] for headers, _ in client.receiver.received} == {"3.19.0"}
