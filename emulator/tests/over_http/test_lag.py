"""Reads that lag: each kind shows what was there, and nothing else does."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import READ_KINDS, CheckRunFields, ReadKind, Signature
from github_emulator.rest.endpoints import ROUTES
from github_emulator.rest.lag import kind_of
from over_http.conftest import Client, R

SECOND = timedelta(seconds=1)
LAG = timedelta(seconds=2)


@pytest.fixture
async def pull(client: Client) -> Any:
    """A pull request that is a minute old, whose `mergeable` was asked for."""
    opened = client.repo.open_pull_request("Change", head="topic", by="ann", files={"topic": "1\n"})
    await client.get(f"{R}/pulls/{opened.number}")
    await client.settle(60)
    return opened


def merged_with(answer: Any) -> Any:
    return answer["merged"], answer["state"]


Act = Callable[[Client, Any], object]
Extract = Callable[[Any], Any]
READS: list[tuple[ReadKind, str, Act, Extract]] = [
    ("pull_request", "/pulls/1", lambda c, p: p.push({"topic": "2\n"}), lambda a: a["head"]["sha"]),
    ("pull_request", "/pulls/1", lambda c, p: p.label("go", by="tom"), lambda a: a["labels"]),
    ("pull_request", "/pulls/1", lambda c, p: p.merge(by="maria"), merged_with),
    ("pull_request", "/pulls?state=all", lambda c, p: p.close(), lambda a: a[0]["state"]),
    ("pull_request", "/issues?labels=go", lambda c, p: p.label("go", by="tom"), len),
    ("pull_request", "/issues/1/events", lambda c, p: p.label("go", by="tom"), len),
    ("pull_request", "/issues/1/labels", lambda c, p: p.label("go", by="tom"), len),
    ("comments", "/issues/1/comments", lambda c, p: p.comment("Hello", by="ann"), len),
    ("reviews", "/pulls/1/reviews", lambda c, p: p.review("APPROVED", by="maria"), len),
    ("compare", "/compare/main...topic", lambda c, p: c.repo.push("main", {"x": "1\n"}), lambda a: a["behind_by"]),
    ("branch", "/branches/main", lambda c, p: c.repo.push("main", {"x": "1\n"}), lambda a: a["commit"]["sha"]),
    ("branch", "/git/ref/heads/main", lambda c, p: c.repo.push("main", {"x": "1\n"}), lambda a: a["object"]["sha"]),
    ("branch", "/commits?sha=main", lambda c, p: c.repo.push("main", {"x": "1\n"}), len),
    ("contents", "/contents/docs/a.txt", lambda c, p: c.repo.push("main", {"docs/a.txt": "b\n"}), lambda a: a["sha"]),
    ("permission", "/collaborators/tom/permission", lambda c, p: promote(c, "tom"), lambda a: a["role_name"]),
    ("rules", "/rules/branches/main", lambda c, p: c.repo.add_ruleset("strict", required_checks=["ci"]), len),
    ("statuses", "/commits/topic/status", lambda c, p: report(c, p), lambda a: a["total_count"]),
    ("checks", "/commits/topic/check-runs", lambda c, p: run(c, p), lambda a: a["total_count"]),
    ("checks", "/commits/topic/check-suites", lambda c, p: run(c, p), lambda a: a["check_suites"][-1]["conclusion"]),
]


def promote(client: Client, login: str) -> None:
    client.repo.record.collaborators[login] = "maintain"
    client.github.history.changed()


def report(client: Client, pull: Any) -> None:
    actor = client.github.actor("imq[bot]")
    client.github.checks.create_status(client.repo.record, pull.head_sha, actor=actor, state="success")


def run(client: Client, pull: Any) -> None:
    made = client.github.checks.create_run(client.repo.record, app=client.app, name="ci", head_sha=pull.head_sha)
    client.github.checks.update_run(made, CheckRunFields(conclusion="success"))


@pytest.mark.parametrize(("kind", "path", "act", "extract"), READS, ids=[f"{kind} {path}" for kind, path, *_ in READS])
async def test_read_that_lags_shows_what_was_there_until_the_lag_is_over(
    client: Client, pull: Any, kind: ReadKind, path: str, act: Act, extract: Extract
) -> None:
    """Each kind of read shows the former state for two seconds; with another kind's lag it is current."""
    client.server.lag.set(LAG, kind)
    await client.settle(5)
    before = extract((await client.get(R + path)).content)
    act(client, pull)
    await client.settle(1.9)
    assert extract((await client.get(R + path)).content) == before
    client.server.lag.set(timedelta(0), kind)
    client.server.lag.set(LAG, next(other for other in READ_KINDS if other != kind))
    after = extract((await client.get(R + path)).content)
    assert after != before
    client.server.lag.set(LAG, kind)
    await client.settle(0.2)
    assert extract((await client.get(R + path)).content) == after


async def test_ended_check_shows_as_running_until_the_lag_is_over(client: Client, pull: Any) -> None:
    """A run is changed in place; an older version of it is shown, and its own page agrees with the list."""
    client.server.lag.set(LAG)
    made = client.github.checks.create_run(client.repo.record, app=client.app, name="ci", head_sha=pull.head_sha)
    await client.settle(5)
    client.github.checks.update_run(made, CheckRunFields(conclusion="failure"))
    await client.settle(1)
    token = {"Authorization": f"Bearer {client.server.user_token('maria')}"}
    for path in (f"/check-runs/{made.id}", f"/commits/{pull.head_sha}/check-runs"):
        shown = (await client.get(R + path, who="anonymous", headers=token)).content
        assert shown.get("check_runs", [shown])[0]["status"] == "queued"
    assert made.conclusion == "failure"


async def test_what_did_not_exist_yet_is_not_found(client: Client, pull: Any) -> None:
    """404 for a pull request, a branch and a comment, 422 for a commit, until the lag is over."""
    client.server.lag.set(LAG)
    client.server.lag.set(timedelta(0), "token")
    await client.settle(5)
    young = client.repo.open_pull_request("Young", head="young", by="ann", files={"young": "1\n"})
    comment = pull.comment("Hello", by="ann")
    await client.settle(1)
    paths = [f"/pulls/{young.number}", f"/issues/comments/{comment.id}", "/branches/young", "/git/ref/heads/young"]
    for path in (*paths, f"/compare/main...{young.head_sha}"):
        await client.get(R + path, 404)
    await client.get(f"{R}/commits/{young.head_sha}", 422)
    await client.settle(2)
    for path in (*paths, f"/commits/{young.head_sha}", f"/compare/main...{young.head_sha}"):
        await client.get(R + path)


async def test_mergeable_lags_with_its_pull_request(client: Client, pull: Any) -> None:
    """After a push it is first the old head's answer, then unknown, then the new head's."""
    client.server.lag.set(LAG, "pull_request")
    path = f"{R}/pulls/{pull.number}"
    client.repo.push("main", {"topic": "in the way\n"}, by="maria")
    await client.settle(1)
    assert (await client.get(path))["mergeable"] is True
    await client.settle(2)
    assert (await client.get(path))["mergeable"] is None
    await client.settle(2)
    assert (await client.get(path))["mergeable"] is None
    await client.settle(1)
    assert (await client.get(path))["mergeable"] is False


async def test_writes_and_their_answers_are_never_old(client: Client, pull: Any) -> None:
    """The answer to a write shows what it did, and a merge is judged by the present head."""
    client.server.lag.set(LAG)
    client.server.lag.set(timedelta(0), "token")
    old = pull.head_sha
    new = pull.push({"topic": "2\n"})
    path = f"{R}/pulls/{pull.number}"
    await client.settle(1)
    assert (await client.get(path))["head"]["sha"] == old
    await client.call("PUT", f"{path}/merge", 409, json_body={"sha": old})
    edited = await client.call("PATCH", path, 200, json_body={"title": "Renamed"})
    assert (edited["title"], edited["head"]["sha"]) == ("Renamed", new)
    await client.call("PUT", f"{path}/merge", 200, json_body={"sha": new})
    assert (await client.get(path))["merged"] is False


async def test_webhooks_are_never_old(client: Client, pull: Any) -> None:
    """A webhook has the new state before the API shows it."""
    client.server.lag.set(LAG)
    pull.label("go", by="tom")
    await client.settle(0.5)
    payload = next(body for _, body in client.receiver.received if body.get("action") == "labeled")
    assert [label["name"] for label in payload["pull_request"]["labels"]] == ["go"]


async def test_token_just_issued_is_refused_until_the_lag_is_over(client: Client) -> None:
    """octokit/auth-app.js #65: 401 for some seconds, for reads and writes alike."""
    client.server.lag.set(LAG, "token")
    token = {"Authorization": f"Bearer {client.installation_token()}"}
    await client.settle(1)
    await client.get(R, 401, who="anonymous", headers=token)
    await client.settle(2)
    await client.get(R, 200, who="anonymous", headers=token)


async def test_replicas_that_differ_show_the_old_state_again_after_the_new_one(client: Client, pull: Any) -> None:
    """With a range each request has a lag of its own: by the same seed the same ones."""
    shown = []
    for _ in range(2):
        client.server.lag.between(timedelta(0), LAG, seed=3)
        client.server.lag.set(timedelta(0), "token")
        await client.settle(5)
        state = {"closed": "open", "open": "closed"}[pull.state]
        pull.close() if state == "closed" else pull.reopen()
        await client.settle(1)
        shown.append([(await client.get(f"{R}/pulls/{pull.number}"))["state"] == state for _ in range(12)])
    assert shown[0] == shown[1]
    assert {(True, False), (False, True)} <= set(zip(shown[0], shown[0][1:], strict=False))


async def test_versions_are_dropped_when_no_read_can_show_them(client: Client, pull: Any) -> None:
    """The history holds the present and what the longest lag reaches; without lag it holds nothing."""
    client.server.lag.set(LAG)
    for number in range(5):
        pull.push({"topic": f"{number}\n"})
        await client.settle(1)
    history = client.github.history
    assert len(history._versions[pull.record]) == 3
    client.server.lag.set(timedelta(0))
    assert not history._versions
    assert not history.keep


async def test_commit_of_another_time_zone_of_clocks_is_there_when_its_branch_is(client: Client) -> None:
    """Somebody's clock runs ahead: a commit that a branch holds is shown with it."""
    client.server.lag.set(LAG)
    client.server.lag.set(timedelta(0), "token")
    git, ahead = client.repo.record.git, client.clock.now() + timedelta(days=1)
    sha = git.write_commit(git.tree(client.repo.sha()), (client.repo.sha(),), "Early", Signature("ann", "a@b", ahead))
    client.repo.push_commit("main", sha, by="maria")
    await client.settle(5)
    assert (await client.get(f"{R}/branches/main"))["commit"]["sha"] == sha


def test_every_read_of_a_repository_has_a_kind() -> None:
    """What a kind reads, by its routes."""
    kinds = {route.path: kind_of(route) for route in ROUTES if route.method == "GET"}
    at = "/repos/{owner}/{repo}"
    assert kinds[f"{at}/pulls/{{number}}"] == "pull_request"
    assert kinds[f"{at}/commits/{{ref}}/check-runs"] == "checks"
    assert kinds[f"{at}/commits/{{ref}}/statuses"] == "statuses"
    assert kinds[f"{at}/commits/{{ref}}"] == "branch"
    assert kinds[at] == "repository"
    assert kinds["/app"] is None
    assert all(kind_of(route) is None for route in ROUTES if route.method != "GET" and route.resource == "core")


PARTS = """
{ repository(owner: "acme", name: "widgets") { pullRequest(number: 1) {
  labels(first: 9) { nodes { name } }
  baseRef { target { oid } compare(headRef: "topic") { behindBy baseTarget { oid } } }
} } }
"""


@pytest.mark.parametrize("old", ["branches", "rest"])
async def test_parts_of_one_graphql_answer_are_of_different_age(client: Client, pull: Any, old: str) -> None:
    """The pull request is current where its branches are old, and the other way round."""
    client.server.lag.set(LAG, "graphql_branches" if old == "branches" else "graphql")
    if old == "rest":
        client.server.lag.set(timedelta(0), "graphql_branches")
    await client.settle(5)
    before = client.repo.sha("main")
    pull.label("go", by="tom")
    after = client.repo.push("main", {"x": "1\n"})
    for current in (False, True):
        answer = (await client.call("POST", "/graphql", 200, json_body={"query": PARTS})).content
        shown = answer["data"]["repository"]["pullRequest"]
        assert [label["name"] for label in shown["labels"]["nodes"]] == (["go"] if current or old == "branches" else [])
        tip = after if current or old == "rest" else before
        base = shown["baseRef"]
        assert base["target"]["oid"] == base["compare"]["baseTarget"]["oid"] == tip
        assert base["compare"]["behindBy"] == (tip == after)
        await client.settle(LAG.total_seconds() + 0.1)
    assert client.repo.sha("main") == after, "what was shown is not what is"
