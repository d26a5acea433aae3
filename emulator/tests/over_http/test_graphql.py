"""The GraphQL API: what it shows of a pull request, what it refuses, what it costs, and moving branches together."""

from typing import Any

import pytest

from over_http.conftest import PERMISSIONS, Client, R

PULL = """
query($number: Int!) {
  repository(owner: "acme", name: "widgets") {
    mergeCommitAllowed
    collaborators(login: "ann", first: 1) { edges { permission node { login } } }
    pullRequest(number: $number) {
      state isDraft merged mergeable mergeStateStatus reviewDecision headRefOid baseRefName updatedAt
      author { __typename login }
      assignees(first: 10) { nodes { login } }
      labels(first: 100) { nodes { name } }
      latestOpinionatedReviews(first: 100, writersOnly: true) { nodes { state author { login } } }
      reviewThreads(first: 2) { nodes { id isResolved } pageInfo { hasNextPage endCursor } }
      commits(last: 1) { nodes { commit { oid tree { oid } parents(first: 3) { nodes { oid } } } } }
      baseRef { target { oid } }
    }
  }
}
"""
UPDATE = "mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }"
REPOSITORY_ID = '{ repository(owner: "acme", name: "widgets") { id } }'
UNKNOWN_SHA = "0" * 40


@pytest.fixture
def pull(client: Client) -> Any:
    return client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})


async def ask(client: Client, query: str, place: str = "/graphql", **variables: Any) -> Any:
    body = {"query": query, "variables": variables}
    return (await client.call("POST", place, 200, json_body=body)).content


async def test_query_answers_as_rest_does_and_what_that_hides(client: Client, pull: Any) -> None:
    """One query: the pull request, its base's tip, decision, conversations and a person's permission."""
    client.repo.protect("main", required_approvals=1)
    pull.label("merge-queue", by="tom")
    pull.review("APPROVED", by="tom")
    for _ in range(3):
        thread = pull.open_thread("Why?", by="maria")
    pull.resolve_thread(thread, by="ann")
    await ask(client, PULL, number=pull.number)
    await client.settle()
    repository = (await ask(client, PULL, number=pull.number))["data"]["repository"]
    shown, head = repository["pullRequest"], client.repo.record.git.must(pull.head_sha)
    assert repository["collaborators"]["edges"] == [{"permission": "WRITE", "node": {"login": "ann"}}]
    assert (shown["state"], shown["mergeable"], shown["mergeStateStatus"]) == ("OPEN", "MERGEABLE", "BLOCKED")
    assert shown["reviewDecision"] == "REVIEW_REQUIRED", "a triager's approval does not count"
    assert shown["latestOpinionatedReviews"]["nodes"] == []
    assert shown["labels"]["nodes"] == [{"name": "merge-queue"}]
    assert [thread["isResolved"] for thread in shown["reviewThreads"]["nodes"]] == [False, False]
    assert shown["reviewThreads"]["pageInfo"]["hasNextPage"]
    assert shown["commits"]["nodes"][0]["commit"]["tree"]["oid"] == head.tree
    assert shown["baseRef"]["target"]["oid"] == client.repo.sha("main")


async def test_review_decision_follows_verdicts_of_people_who_may_write(client: Client, pull: Any) -> None:
    """A comment-only review changes nothing; without a rule there is no decision."""
    query = '{ repository(owner: "acme", name: "widgets") { pullRequest(number: %d) { reviewDecision } } }'

    async def decision() -> Any:
        answer = await ask(client, query % pull.number)
        return answer["data"]["repository"]["pullRequest"]["reviewDecision"]

    assert await decision() is None
    client.repo.protect("main", required_approvals=1)
    pull.review("COMMENTED", by="maria")
    assert await decision() == "REVIEW_REQUIRED"
    pull.review("CHANGES_REQUESTED", by="maria")
    assert await decision() == "CHANGES_REQUESTED"
    pull.review("APPROVED", by="maria")
    assert await decision() == "APPROVED"


@pytest.mark.parametrize("known", [True, False])
async def test_reviews_that_only_a_ruleset_demands_may_be_unknown_to_the_decision(
    client: Client, pull: Any, known: bool
) -> None:
    """GitHub is known to do both."""
    client.github.behaviour.decision_of_rulesets = known
    client.repo.add_ruleset("reviews", branches=["main"], required_approvals=1)
    query = '{ repository(owner: "acme", name: "widgets") { pullRequest(number: %d) { reviewDecision } } }'
    answer = await ask(client, query % pull.number)
    shown = answer["data"]["repository"]["pullRequest"]["reviewDecision"]
    assert shown == ("REVIEW_REQUIRED" if known else None)


async def test_comparison_shows_how_far_a_head_is_behind(client: Client, pull: Any) -> None:
    """By branch or SHA where GitHub takes a SHA, else null."""
    query = """query($head: String!) { repository(owner: "acme", name: "widgets") {
      ref(qualifiedName: "refs/heads/main") { compare(headRef: $head) {
        aheadBy behindBy status baseTarget { oid } headTarget { oid } } } } }"""
    client.repo.push("main", {"c": "1\n"})

    async def compared(head: str) -> Any:
        return (await ask(client, query, head=head))["data"]["repository"]["ref"]["compare"]

    shown = await compared(pull.head_sha)
    assert shown == await compared("topic")
    assert (shown["aheadBy"], shown["behindBy"], shown["status"]) == (1, 1, "DIVERGED")
    assert shown["baseTarget"]["oid"] == client.repo.sha("main")
    client.github.behaviour.comparison_of_commits = False
    assert await compared(pull.head_sha) is None


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ('{ repository(owner: "acme", name: "nope") { id } }', "NOT_FOUND", "Could not resolve to a Repository"),
        (
            '{ repository(owner: "acme", name: "widgets") { pullRequest(number: 99) { title } } }',
            "NOT_FOUND",
            "Could not resolve to a PullRequest with the number of 99.",
        ),
        (
            '{ repository(owner: "acme", name: "widgets") { nope } }',
            None,
            "Field 'nope' doesn't exist on type 'Repository'",
        ),
        ("{ repository(", None, "Syntax Error"),
        (
            '{ repository(owner: "acme", name: "widgets") { collaborators { totalCount } } }',
            "MISSING_PAGINATION_BOUNDARIES",
            "You must provide",
        ),
        (
            '{ repository(owner: "acme", name: "widgets") { collaborators(first: 101) { totalCount } } }',
            "EXCESSIVE_PAGINATION",
            "Requesting 101 records",
        ),
    ],
)
async def test_refusals_come_with_status_200(client: Client, query: str, kind: str | None, message: str) -> None:
    """Fields without an answer are in `errors`, with GitHub's type."""
    answer = await ask(client, query)
    assert answer["errors"][0].get("type") == kind
    assert answer["errors"][0]["message"].startswith(message)


async def test_token_without_a_permission_is_refused_field_by_field(client: Client, pull: Any) -> None:
    """An App sees what its token allows; the rest of the query is answered."""
    token = client.installation_token({**PERMISSIONS, "contents": "none"})
    answer = await client.call(
        "POST",
        "/graphql",
        200,
        json_body={"query": PULL, "variables": {"number": pull.number}},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert {error["type"] for error in answer["errors"]} == {"FORBIDDEN"}
    assert {error["message"] for error in answer["errors"]} == {"Resource not accessible by integration"}
    assert ["repository", "pullRequest", "commits"] in [error["path"] for error in answer["errors"]]


async def test_app_may_be_refused_to_see_who_collaborates(client: Client, pull: Any) -> None:
    """Whatever its token allows; a person who may push sees them all the same."""
    client.github.behaviour.collaborators_shown = False
    answer = await ask(client, PULL, number=pull.number)
    assert answer["data"]["repository"]["collaborators"] is None
    assert [(error["type"], error["path"]) for error in answer["errors"]] == [
        ("FORBIDDEN", ["repository", "collaborators"])
    ]


async def test_endpoint_asks_for_a_token_and_may_not_be_offered(client: Client) -> None:
    """GraphQL refuses anonymous calls; Enterprise Server has it at `/api/graphql`."""
    await client.call("POST", "/graphql", 401, who="anonymous", json_body={"query": REPOSITORY_ID})
    assert (await ask(client, REPOSITORY_ID, "/api/graphql"))["data"]["repository"]["id"]
    await client.call("POST", "/api/v3/graphql", 404, json_body={"query": REPOSITORY_ID})
    client.github.behaviour.graphql = False
    await client.call("POST", "/graphql", 404, json_body={"query": REPOSITORY_ID})


async def test_points_are_a_limit_of_their_own(client: Client) -> None:
    """A query costs at least a point of GraphQL's hour, and nothing of REST's; beyond it the answer is 200."""
    key = f"installation {client.installation.id}"
    await ask(client, REPOSITORY_ID)
    assert client.server.limits.budget(key).used == 0
    assert client.server.limits.budget(key, "graphql").used == 1
    client.server.limits.graphql = 1
    answer = await client.call("POST", "/graphql", 200, json_body={"query": REPOSITORY_ID})
    assert answer["errors"][0]["type"] == "RATE_LIMIT"
    client.github.behaviour.graphql_limit_type = "RATE_LIMITED"
    assert (await ask(client, REPOSITORY_ID))["errors"][0]["type"] == "RATE_LIMITED"
    assert (answer.headers["X-RateLimit-Remaining"], answer.headers["X-RateLimit-Resource"]) == ("0", "graphql")


async def test_branches_move_together_or_not_at_all(client: Client) -> None:
    """`beforeOid` is a true compare-and-swap, for every branch of the call."""
    main = client.repo.sha("main")
    new = client.repo.commit({"d": "1\n"}, main)
    known = (await ask(client, REPOSITORY_ID))["data"]["repository"]["id"]

    def moves(before: str) -> dict[str, Any]:
        return {
            "repositoryId": known,
            "refUpdates": [
                {"name": "refs/heads/train", "beforeOid": UNKNOWN_SHA, "afterOid": new},
                {"name": "refs/heads/main", "beforeOid": before, "afterOid": new},
            ],
        }

    refused = await ask(client, UPDATE, input=moves(new))
    assert refused["errors"][0]["type"] == "UNPROCESSABLE"
    assert "train" not in client.repo.record.git.branches()
    assert "errors" not in await ask(client, UPDATE, input=moves(main))
    assert client.repo.sha("train") == client.repo.sha("main") == new
    gone = {"name": "refs/heads/train", "beforeOid": new, "afterOid": UNKNOWN_SHA}
    assert "errors" not in await ask(client, UPDATE, input={"repositoryId": known, "refUpdates": [gone]})
    assert "train" not in client.repo.record.git.branches()


async def test_branch_moved_backwards_needs_force(client: Client) -> None:
    """The rules of branches hold for this call as for any push."""
    start = client.repo.sha("main")
    tip = client.repo.push("main", {"d": "1\n"})
    known = (await ask(client, REPOSITORY_ID))["data"]["repository"]["id"]
    back = {"name": "refs/heads/main", "beforeOid": tip, "afterOid": start}
    refused = await ask(client, UPDATE, input={"repositoryId": known, "refUpdates": [back]})
    assert "fast forward" in refused["errors"][0]["message"]
    forced = {"repositoryId": known, "refUpdates": [back | {"force": True}]}
    assert "errors" not in await ask(client, UPDATE, input=forced)
    assert client.repo.sha("main") == start


async def test_moved_ref_is_refused_in_either_words(client: Client) -> None:
    """No thread quotes GitHub: the refusal names the ref's commit, or only that it cannot be updated."""
    known = (await ask(client, REPOSITORY_ID))["data"]["repository"]["id"]
    main, new = client.repo.sha(), client.repo.push("next", {"x": "1\n"}, by="maria")
    move = {"name": "refs/heads/main", "beforeOid": new, "afterOid": new}
    words = []
    for names_commit in (True, False):
        client.github.behaviour.names_moved_refs = names_commit
        refused = await ask(client, UPDATE, input={"repositoryId": known, "refUpdates": [move]})
        words.append(refused["errors"][0]["message"])
    assert client.repo.sha() == main
    assert [main in message for message in words] == [True, False]


@pytest.mark.parametrize("own_refs", ["all", "rest", "none"])
async def test_references_of_other_folders_are_written_as_the_switch_says(client: Client, own_refs: Any) -> None:
    """To a blob or a commit, without webhooks; sources disagree whether GitHub takes such references, and where."""
    client.github.behaviour.own_refs = own_refs
    blob = (await client.call("POST", f"{R}/git/blobs", 201, json_body={"content": "tested\n"}))["sha"]
    made, refused = (201, 204) if own_refs != "none" else (422, 422)
    await client.call("POST", f"{R}/git/refs", made, json_body={"ref": "refs/imq/tested/1", "sha": blob})
    await client.call("POST", f"{R}/git/refs", 422, json_body={"ref": "refs/imq/tested/1", "sha": blob})
    await client.call("POST", f"{R}/git/refs", 422, json_body={"ref": "refs/imq/tested/2", "sha": "0" * 40})
    await client.call("POST", f"{R}/git/refs", 422, json_body={"ref": "refs/pull/9/head", "sha": client.repo.sha()})
    listed = [each["ref"] for each in (await client.get(f"{R}/git/matching-refs/imq")).content]
    assert listed == ([] if own_refs == "none" else ["refs/imq/tested/1"])
    update = {"name": "refs/imq/tested/1", "beforeOid": blob, "afterOid": "0" * 40}
    known = (await ask(client, REPOSITORY_ID))["data"]["repository"]["id"]
    answer = await ask(client, UPDATE, input={"repositoryId": known, "refUpdates": [update]})
    assert ("errors" in answer) == (own_refs != "all")
    await client.call("DELETE", f"{R}/git/refs/imq/tested/1", 422 if own_refs == "all" else refused)
    await client.settle()
    assert not {headers["X-GitHub-Event"] for headers, _ in client.receiver.received} & {"push", "create", "delete"}


async def test_directory_of_a_commit_lists_its_entries_with_their_text(client: Client) -> None:
    """`object(expression:)` takes `commit:path`; a path that is not there is null."""
    sha = client.repo.push("main", {"guide/a.md": "one\n", "guide/sub/b.md": "two\n"})
    query = """query($at: String!) { repository(owner: "acme", name: "widgets") { object(expression: $at) {
      ... on Tree { entries { name path type mode object { oid ... on Blob { text isTruncated isBinary byteSize } } } }
      ... on Blob { text }
    } } }"""

    async def shown(at: str) -> Any:
        return (await ask(client, query, at=f"{sha}:{at}"))["data"]["repository"]["object"]

    file, directory = (await shown("guide"))["entries"]
    assert [file[key] for key in ("name", "path", "type", "mode")] == ["a.md", "guide/a.md", "blob", 33188]
    assert file["object"]["text"] == "one\n"
    assert (directory["name"], directory["type"]) == ("sub", "tree")
    assert (await shown("guide/sub/b.md"), await shown("no/such")) == ({"text": "two\n"}, None)
