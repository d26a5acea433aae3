"""The effects on GitHub: merges, updates, labels, comments, check runs."""

import asyncio
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Invalid, NotFound, Refused, Unavailable
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import MARKER
from tests.unit.bot.answers import check_run
from tests.unit.bot.conftest import APP_ID
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"


async def test_merge_sends_the_expected_head(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """The head is GitHub's precondition; what landed is taken from the merge's own answer."""
    path = f"{REPO}/pulls/3/merge"
    github.on("PUT", path, Says({"sha": "landed", "merged": True, "message": "merged"}))
    assert await gateway.merge(repository, 3, "h1", MergeMethod.REBASE) == "landed"
    assert github.asked_for("PUT", path)[0].data == {"sha": "h1", "merge_method": "rebase"}


async def test_update_branch_names_the_head_it_expects(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A push in between is not overwritten: GitHub refuses then."""
    path = f"{REPO}/pulls/3/update-branch"
    github.on("PUT", path, Says({"message": "Updating pull request branch."}, 202))
    await gateway.update_branch(repository, 3, "h1")
    assert github.asked_for("PUT", path)[0].data == {"expected_head_sha": "h1"}


@pytest.mark.parametrize(("status", "error"), [(422, Invalid), (403, Refused)])
async def test_update_branch_refused_raises(
    gateway: Gateway, github: GitHubDouble, repository: Repository, status: int, error: type[Exception]
) -> None:
    """422 is a head that moved, nothing to update, or a conflict; 403 a fork without access."""
    github.on("PUT", f"{REPO}/pulls/3/update-branch", Says({"message": "no"}, status))
    with pytest.raises(error):
        await gateway.update_branch(repository, 3, "h1")


async def test_label_is_added_beside_those_that_are_there(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """`POST` adds; `PUT` would replace what people set."""
    github.on("POST", f"{REPO}/issues/3/labels", Says([]))
    await gateway.add_label(repository, 3, "to merge/now 🚀")
    (sent,) = github.asked_for("POST", f"{REPO}/issues/3/labels")
    assert sent.data == {"labels": ["to merge/now 🚀"]}


async def test_label_is_removed_whatever_its_name(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Labels may contain slashes, spaces and emoji."""
    path = f"{REPO}/issues/3/labels/to%20merge%2Fnow%20%F0%9F%9A%80"
    github.on("DELETE", path, Says([]))
    await gateway.remove_label(repository, 3, "to merge/now 🚀")
    assert len(github.asked_for("DELETE", path)) == 1


async def test_label_is_not_off_by_an_answer_that_is_not_githubs(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P6: a proxy took nothing off, and the label would stay for ever."""
    github.on("DELETE", f"{REPO}/issues/3/labels/merge-queue", Says({}))
    with pytest.raises(Unavailable):
        await gateway.remove_label(repository, 3, "merge-queue")


async def test_label_that_is_gone_is_no_error(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """Effects are repeated after a crash; the second time there is nothing to do."""
    gone = Says({"message": "Label does not exist"}, 404)
    github.on("DELETE", f"{REPO}/issues/3/labels/merge-queue", gone)
    await gateway.remove_label(repository, 3, "merge-queue")
    assert len(github.asked_for("DELETE", f"{REPO}/issues/3/labels/merge-queue")) == 1


async def test_comment_is_created_and_edited_in_place(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """One comment per pull request is found again by its id."""
    github.on("POST", f"{REPO}/issues/3/comments", Says({"id": 41}, 201))
    github.on("PATCH", f"{REPO}/issues/comments/41", Says({"id": 41}))
    assert await gateway.create_comment(repository, 3, "queued") == 41
    await gateway.update_comment(repository, 41, "merged")
    assert github.asked_for("PATCH", f"{REPO}/issues/comments/41")[0].data == {"body": "merged"}


async def test_comment_deleted_by_somebody_raises_not_found(gateway: Gateway, repository: Repository) -> None:
    """The caller writes a new one then."""
    with pytest.raises(NotFound):
        await gateway.update_comment(repository, 41, "merged")


async def test_own_comment_is_found_by_marker_and_authorship(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Somebody's quote of the marker, and another App's comment, are not IMQ's; later pages count."""
    marker = f"{MARKER} -->"
    github.on("GET", "/app", Says({"slug": "my-queue"}))
    first: list[dict[str, Any]] = [
        {"id": 1, "body": f"> {marker}", "user": {"login": "eve"}},
        {"id": 2, "body": marker, "user": {"login": "x[bot]"}, "performed_via_github_app": {"id": 1}},
        {"id": 3, "body": None, "user": None},
        {"id": 6, "body": "no comment that is edited", "user": {"login": "my-queue[bot]"}},
    ]
    second = [
        {"id": 4, "body": marker, "user": {"login": "my-queue[bot]"}},
        {"id": 5, "body": marker, "user": {"login": "x"}, "performed_via_github_app": {"id": APP_ID}},
    ]
    link = {"link": f'<{github.url}/more>; rel="next"'}
    github.on("GET", f"{REPO}/issues/3/comments", Says(first, headers=link))
    github.on("GET", "/more", Says(second))
    assert await gateway.find_comments(repository, 3) == {4: marker, 5: marker}


async def test_comment_that_is_deleted_already_is_no_error(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Effects are repeated after a crash; a person may have deleted it as well."""
    github.on("DELETE", f"{REPO}/issues/comments/41", Says(None, 204))
    await gateway.delete_comment(repository, 41)
    await gateway.delete_comment(repository, 42)
    assert [len(github.asked_for("DELETE", f"{REPO}/issues/comments/{number}")) for number in (41, 42)] == [1, 1]


async def test_own_login_is_asked_once(gateway: Gateway, github: GitHubDouble) -> None:
    """The App's name does not change while a process lives, and many who want it at once share one question."""
    github.on("GET", "/app", Says({"slug": "my-queue"}))
    together = await asyncio.gather(*(gateway.own_login() for _ in range(5)))
    assert [*together, await gateway.own_login()] == ["my-queue[bot]"] * 6
    assert len(github.asked_for("GET", "/app")) == 1


async def test_check_run_is_created_and_updated_with_githubs_fields(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The fields pass through unchanged."""
    github.on("POST", f"{REPO}/check-runs", Says({"id": 51}, 201))
    github.on("PATCH", f"{REPO}/check-runs/51", Says({"id": 51}))
    fields = {"name": "IMQ", "head_sha": "h1", "external_id": "e1", "status": "queued"}
    assert await gateway.create_check_run(repository, fields) == 51
    await gateway.update_check_run(repository, 51, {"status": "completed", "conclusion": "success"})
    assert github.asked_for("POST", f"{REPO}/check-runs")[0].data == fields
    assert github.asked_for("PATCH", f"{REPO}/check-runs/51")[0].data == {
        "status": "completed",
        "conclusion": "success",
    }


async def test_own_check_run_is_found_by_its_external_id(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """After a lost answer the run that was created is found, and never another App's."""
    path = f"{REPO}/commits/h1/check-runs"
    own = {"name": "IMQ", "app": {"id": APP_ID}}
    runs = [
        check_run(id=1, external_id="e1", status="queued", conclusion=None, **own),
        check_run(id=2, external_id="e2", **own),
        check_run(id=3, external_id="e1", name="IMQ", app={"id": 15}),
    ]
    github.on("GET", path, Says({"check_runs": runs}))
    assert await gateway.find_check_run(repository, "h1", "IMQ", "e1") == 1
    assert await gateway.find_check_run(repository, "h1", "IMQ", "e9") is None
    ended = [await gateway.find_check_run(repository, "h1", "IMQ", each, unfinished=True) for each in ("e1", "e2")]
    assert ended == [1, None]
    query = github.asked_for("GET", path)[0].query
    assert (query["check_name"], query["app_id"], query["filter"]) == ("IMQ", str(APP_ID), "all")
