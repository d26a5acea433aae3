"""Stacked pull requests, and merges that are carried out later, over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Invalid
from over_http.conftest import Client, R

REFUSAL = "Merging stacked PRs via this endpoint is not supported. Use the asynchronous merge endpoint instead."


@pytest.fixture(autouse=True)
def offered(client: Client) -> None:
    client.github.behaviour.merge_async = True
    client.github.behaviour.stacks = "registered"


def opened(client: Client, head: str = "one", base: str = "") -> Any:
    return client.repo.open_pull_request(head, head=head, base=base, by="ann", files={head: "1\n"})


def stacked(client: Client) -> list[Any]:
    pulls = [opened(client), opened(client, "two", "one"), opened(client, "three", "two")]
    client.repo.stack(*pulls)
    return pulls


async def ask(client: Client, pull: Any, expect: int, **body: Any) -> Any:
    options = {"who": body.pop("who")} if "who" in body else {}
    return await client.call("PUT", f"{R}/pulls/{pull.number}/merge-async", expect, json_body=body, **options)


async def result(client: Client, pull: Any, asked: Any, expect: int = 200) -> Any:
    return await client.get(f"{R}/pulls/{pull.number}/merge-async/{asked['details']['uuid']}", expect)


async def merged_later(client: Client, pull: Any, **body: Any) -> Any:
    asked = await ask(client, pull, 202, **body)
    await client.settle()
    return await result(client, pull, asked)


# Asynchronous merges


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_merge_is_accepted_and_carried_out_later(client: Client, method: str) -> None:
    """202 promises nothing; the result names the commit that is then the base's tip."""
    pull = opened(client)
    asked = await ask(client, pull, 202, merge_method=method, sha=pull.head_sha, commit_title="Title")
    assert asked["details"]["merge_method"] == method
    assert (await result(client, pull, asked))["status"] == "pending"
    assert not pull.merged
    await client.settle()
    answer = await result(client, pull, asked)
    assert (answer["status"], answer["details"]["sha"]) == ("merged", client.repo.sha())
    assert client.repo.log()[0].message.startswith("Title") is (method != "rebase")
    closed = [body for _, body in client.receiver.received if body.get("action") == "closed"]
    assert [body["pull_request"]["merged"] for body in closed] == [True]


async def test_repeated_request_is_answered_with_the_first_one(client: Client) -> None:
    """A repetition while one is under way is 409 with its UUID, and 200 once it has landed."""
    pull = opened(client)
    asked = await ask(client, pull, 202)
    again = await ask(client, pull, 409, merge_method="squash")
    assert again["details"] == asked["details"]
    await client.settle()
    landed = await ask(client, pull, 200)
    assert (landed["status"], landed["details"]["sha"]) == ("merged", pull.merge_sha)
    assert len(client.repo.log()) == 3


async def test_request_is_refused_at_once_when_it_cannot_be_taken(client: Client) -> None:
    """400 for what is not open, 422 for nonsense, 403 and 404 as for the synchronous merge, 404 without the offer."""
    pull = opened(client)
    await ask(client, pull, 422, merge_method="teleport")
    await ask(client, pull, 422, merge_action="teleport")
    await ask(client, pull, 403, who="tom")
    await ask(client, pull, 404, who="stranger")
    pull.convert_to_draft(by="ann")
    assert (await ask(client, pull, 400))["status"] == "failed"
    pull.ready_for_review(by="ann")
    pull.close(by="ann")
    await ask(client, pull, 400)
    client.github.behaviour.merge_async = False
    await ask(client, pull, 404)
    await client.get(f"{R}/pulls/{pull.number}/merge-async/x", 404)


async def test_failed_merge_says_why(client: Client) -> None:
    """Rules, conflicts and moved heads are found when it runs; then it may be asked for again."""
    pull = opened(client)
    client.repo.protect("main", required_checks=["ci/test"], by="acme")
    answer = await merged_later(client, pull)
    assert answer.content == {
        "status": "failed",
        "details": {"message": 'Required status check "ci/test" is expected.'},
    }
    client.repo.unprotect("main", by="acme")
    answer = await merged_later(client, pull, sha="0" * 40)
    assert answer["details"]["message"] == "Head branch was modified. Review and try the merge again."
    asked = await ask(client, pull, 202)
    client.repo.push("one", {"late": "1\n"}, "Late", by="ann")
    await client.settle()
    assert (await result(client, pull, asked))["status"] == "failed"
    client.repo.push("main", {"one": "2\n"}, "In the way", by="maria")
    answer = await merged_later(client, pull)
    assert (answer["status"], pull.merged) == ("failed", False)
    pull.close(by="ann")


async def test_bypass_lists_hold_as_for_the_synchronous_merge(client: Client) -> None:
    """A ruleset that the app may bypass stops nothing."""
    pull = opened(client)
    client.repo.add_ruleset("strict", branches=["main"], required_checks=["x"], bypass={"imq": "always"}, by="acme")
    assert (await merged_later(client, pull))["status"] == "merged"


async def test_result_is_kept_for_a_day(client: Client) -> None:
    """24 hours after its last update the UUID is unknown."""
    pull, other = opened(client), opened(client, "other")
    asked = await ask(client, pull, 202)
    await result(client, other, asked, 404)
    await client.settle()
    client.clock.advance(timedelta(hours=23))
    await result(client, pull, asked)
    client.clock.advance(timedelta(hours=1))
    await result(client, pull, asked, 404)


async def test_merge_queue_takes_the_request_over(client: Client) -> None:
    """It ends as enqueued; parameters of the merge are refused (navikt/copilot #659)."""
    pull = opened(client)
    assert (await merged_later(client, pull, merge_action="merge_queue"))["status"] == "failed"
    client.repo.add_ruleset("queue", branches=["main"], merge_queue=True, by="acme")
    answer = await merged_later(client, pull, merge_method="squash")
    assert answer["details"]["message"] == "Custom merge params are not supported when merging via a merge queue"
    assert (await merged_later(client, pull, merge_action="direct_merge"))["status"] == "failed"
    assert (await merged_later(client, pull))["status"] == "enqueued"
    assert (await ask(client, pull, 200))["status"] == "enqueued"
    assert not pull.merged


# Stacks


async def test_stack_is_shown_in_answers_and_webhooks(client: Client) -> None:
    """Its number, size, position and base; a pull request outside of a stack has no such field, or null."""
    one, two, three = stacked(client)
    alone = opened(client, "alone")
    two.label("x", by="maria")
    await client.settle()
    shown = (await client.get(f"{R}/pulls/{two.number}"))["stack"]
    assert shown["base"] == {"ref": "main", "sha": client.repo.sha()}
    assert (shown["size"], shown["position"]) == (3, 2)
    listed = {pull["number"]: pull.get("stack") for pull in (await client.get(f"{R}/pulls")).content}
    assert [listed[pull.number]["position"] for pull in (one, two, three)] == [1, 2, 3]
    assert listed[alone.number] is None
    received = [body for _, body in client.receiver.received if body.get("action") == "labeled"]
    assert received[-1]["pull_request"]["stack"] == shown
    assert "stack" not in (await client.get(f"{R}/pulls/{alone.number}")).content
    client.github.behaviour.stack_null = True
    assert (await client.get(f"{R}/pulls/{alone.number}"))["stack"] is None
    client.github.behaviour.stacks, client.github.behaviour.stack_null = "none", False
    assert "stack" not in (await client.get(f"{R}/pulls/{two.number}")).content


async def test_stack_forms_by_itself_where_github_does_so(client: Client) -> None:
    """A pull request opened on another's head joins it; a second one on the same head does not."""
    opened(client)
    assert client.repo.record.stacks == []
    client.github.behaviour.stacks = "automatic"
    opened(client, "two", "one")
    opened(client, "three", "two")
    opened(client, "fork", "one")
    (stack,) = client.repo.record.stacks
    assert [pull.head_branch for pull in stack.pulls] == ["one", "two", "three"]


async def test_stack_is_of_pull_requests_that_build_on_each_other(client: Client) -> None:
    """Anything else is refused; a dissolved stack's pull requests are ordinary ones."""
    one, other = opened(client), opened(client, "other")
    with pytest.raises(Invalid):
        client.repo.stack(one, other)
    two = opened(client, "two", "one")
    stack = client.repo.stack(one, two)
    with pytest.raises(Invalid):
        client.repo.stack(one, two)
    client.github.stacks.dissolve(client.repo.record, stack)
    await client.call("PUT", f"{R}/pulls/{one.number}/merge", 200)


@pytest.mark.parametrize("status", [403, 405])
async def test_synchronous_merge_refuses_a_stacked_pull_request(client: Client, status: int) -> None:
    """The bottom too (Kodiak #923); its base cannot be changed either (git-stk #306)."""
    client.github.behaviour.stacked_merge_status = status
    one, two, _ = stacked(client)
    answer = await client.call("PUT", f"{R}/pulls/{one.number}/merge", status)
    assert answer["message"] == REFUSAL
    assert answer["documentation_url"].endswith("/rest/pulls/pulls#merge-a-pull-request-asynchronously")
    answer = await client.call("PATCH", f"{R}/pulls/{two.number}", 422, json_body={"base": "main"})
    assert answer["message"] == "Cannot change the base branch because the pull request is part of a stack."


@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_stack_lands_up_to_the_one_that_was_asked_for(client: Client, method: str) -> None:
    """All below it land with it; the next one is retargeted and stays open and stacked."""
    one, two, three = stacked(client)
    answer = await merged_later(client, two, merge_method=method, sha=two.head_sha)
    assert (answer["status"], answer["details"]["sha"]) == ("merged", client.repo.sha())
    assert [pull.merged for pull in (one, two, three)] == [True, True, False]
    assert client.repo.is_ancestor(one.merge_sha, "main")
    assert {"one", "two"} <= client.repo.files().keys()
    assert "three" not in client.repo.files()
    left = await client.get(f"{R}/pulls/{three.number}")
    assert (left["base"]["ref"], left["state"], left["stack"]["position"]) == ("main", "open", 3)
    assert (await merged_later(client, three, merge_method=method))["status"] == "merged"


async def test_stack_lands_as_a_whole_or_not_at_all(client: Client) -> None:
    """The rules of the stack's base hold for each of them."""
    one, two, _ = stacked(client)
    client.repo.protect("main", required_checks=["ci/test"], by="acme")
    await client.call("POST", f"{R}/statuses/{one.head_sha}", 201, json_body={"state": "success", "context": "ci/test"})
    tip = client.repo.sha()
    assert (await merged_later(client, two))["status"] == "failed"
    assert (client.repo.sha(), one.merged) == (tip, False)
    assert two.record.base_branch == "one"


@pytest.mark.parametrize("bypass", [True, False])
async def test_stack_may_honour_bypass_lists(client: Client, bypass: bool) -> None:
    """Sources disagree."""
    client.github.behaviour.stacks_bypass_rules = bypass
    _, two, _ = stacked(client)
    client.repo.add_ruleset("strict", branches=["main"], required_checks=["x"], bypass={"imq": "always"}, by="acme")
    assert (await merged_later(client, two))["status"] == ("merged" if bypass else "failed")


async def test_result_is_shown_with_the_permission_that_the_switch_names(client: Client) -> None:
    """The reference names none: reading pull requests is enough, or reading contents is needed as well."""
    client.github.behaviour.merge_async = True
    pull = opened(client)
    asked = await ask(client, pull, 202)
    place = f"{R}/pulls/{pull.number}/merge-async/{asked['details']['uuid']}"
    reader = {"Authorization": f"Bearer {client.installation_token({'pull_requests': 'read'})}"}
    await client.get(place, who="anonymous", headers=reader)
    client.github.behaviour.merge_results_need_contents = True
    refused = await client.get(place, 403, who="anonymous", headers=reader)
    assert refused.headers["X-Accepted-GitHub-Permissions"] == "contents=read"
