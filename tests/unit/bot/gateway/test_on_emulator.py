"""The gateway and the receiver against the emulated GitHub: the same facts and effects on real git, over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault
from queue_engine.domain.errors import HeadConflict, Invalid, MergeError, NotFound, RateLimitError, Unavailable
from queue_engine.domain.facts import CheckState, MergeMethod, Permission, RequiredCheck
from queue_engine.domain.notice import MARKER
from tests.unit.bot.gateway.emulator_place import Place

MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"


async def test_repositories_and_own_login_are_found(place: Place) -> None:
    """From the App's key alone."""
    (installation,) = await place.gateway.installations()
    assert await place.gateway.repositories(installation) == (place.repository,)
    assert await place.gateway.own_login() == "imq[bot]"


async def test_people_have_the_roles_they_were_given(place: Place) -> None:
    """Triage shows in the role's name only."""
    people = {login: await place.gateway.permission(place.repository, login) for login in ("mona", "tria", "nobody")}
    assert people == {"mona": Permission.WRITE, "tria": Permission.TRIAGE, "nobody": Permission.NONE}


async def test_pull_request_mergeable_is_known_when_asked_again(place: Place) -> None:
    """GitHub must not answer the second, conditional request with the first answer."""
    first = await place.gateway.pull_request(place.repository, place.pull.number)
    await place.github.advance(timedelta(seconds=30))
    second = await place.gateway.pull_request(place.repository, place.pull.number)
    assert (first.mergeable, second.mergeable) == (None, True)
    assert (second.author, second.head_sha, second.base_branch) == ("mona", place.pull.head_sha, "main")


async def test_checks_and_statuses_become_reports(place: Place) -> None:
    """CI's check run and CI's commit status, first pending, then passed."""
    await place.github.settle()
    before = await place.gateway.check_reports(place.repository, place.pull.head_sha, ())
    await place.run_ci()
    after = await place.gateway.check_reports(place.repository, place.pull.head_sha, ())
    assert {report.state for report in before} == {CheckState.PENDING}
    assert {report.name: report.state for report in after} == {
        "ci/lint": CheckState.PASSED,
        "ci/test": CheckState.PASSED,
    }


async def test_rules_of_protection_and_ruleset_are_read_together(place: Place) -> None:
    """As the emulator's people set them."""
    place.handle.protect("main", required_checks=["ci/test"])
    place.handle.add_ruleset("linear", required_checks=["ci/lint"], linear_history=True, merge_queue=True)
    rules = await place.gateway.branch_rules(place.repository, "main")
    assert {check.name for check in rules.required_checks} == {"ci/test", "ci/lint"}
    assert (rules.native_queue, rules.linear_history) == (True, True)
    with pytest.raises(NotFound):
        await place.gateway.branch_rules(place.repository, "no/such/branch")


async def test_rule_bound_to_an_app_names_it(place: Place) -> None:
    """A check of that name from another App does not count."""
    place.handle.protect("main", required_checks=[("ci/test", 4242)])
    rules = await place.gateway.branch_rules(place.repository, "main")
    assert rules.required_checks == {RequiredCheck("ci/test", 4242)}


async def test_update_then_merge_lands_the_compared_tree(place: Place) -> None:
    """The whole way of one pull request: behind, updated, compared, merged; trees are the repository's own."""
    gateway, repository, number = place.gateway, place.repository, place.pull.number
    old_head = place.pull.head_sha
    tip = place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    behind = await gateway.comparison(repository, "main", old_head)
    assert (behind.base_tip, behind.behind) == (tip, 1)
    await gateway.update_branch(repository, number, old_head)
    await place.run_ci()
    head = place.pull.head_sha
    updated = await gateway.comparison(repository, "main", head)
    assert (updated.behind, updated.head.sha, updated.head.parents) == (0, head, (old_head, tip))
    assert updated.head.tree == place.handle.tree(head)
    landed = await gateway.merge(repository, number, head, MergeMethod.SQUASH)
    assert landed == place.handle.sha("main")
    assert (await gateway.commit(repository, landed)).tree == updated.head.tree
    merged = await gateway.pull_request(repository, number)
    assert (merged.merged, merged.merge_sha) == (True, landed)


async def test_update_with_nothing_to_do_or_another_head_is_invalid(place: Place) -> None:
    """Both are 422; the engine reads again then."""
    with pytest.raises(Invalid):
        await place.gateway.update_branch(place.repository, place.pull.number, place.pull.head_sha)
    place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    with pytest.raises(Invalid):
        await place.gateway.update_branch(place.repository, place.pull.number, "0" * 40)


async def test_merge_of_a_head_that_moved_or_against_rules_is_refused(place: Place) -> None:
    """409 and 405."""
    await place.run_ci()
    with pytest.raises(HeadConflict):
        await place.gateway.merge(place.repository, place.pull.number, "0" * 40, MergeMethod.MERGE)
    place.handle.protect("main", required_checks=["never/reports"])
    with pytest.raises(MergeError):
        await place.gateway.merge(place.repository, place.pull.number, place.pull.head_sha, MergeMethod.MERGE)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "fail", "status": 502},
        {"kind": "apply_then_fail", "status": 500},
        {"kind": "reset"},
        {"kind": "apply_then_reset"},
    ],
)
async def test_merge_while_github_is_in_trouble_is_sent_once_and_unavailable(
    place: Place, fault: dict[str, Any]
) -> None:
    """Whether it happened is for a fresh read to tell; the gateway itself asks no second time."""
    await place.run_ci()
    place.server.faults.add(Fault(method="PUT", route=MERGE, **fault))
    with pytest.raises(Unavailable):
        await place.gateway.merge(place.repository, place.pull.number, place.pull.head_sha, MergeMethod.MERGE)
    sent = [request for request in place.server.requests if request.method == "PUT"]
    assert len(sent) == 1
    happened = (await place.gateway.pull_request(place.repository, place.pull.number)).merged
    assert happened == str(fault["kind"]).startswith("apply")


@pytest.mark.parametrize(("retry_after", "seconds"), [(17, 17), (None, 60)])
async def test_secondary_limit_is_waited_for(place: Place, retry_after: int | None, seconds: int) -> None:
    """With and without the header that says how long."""
    place.server.faults.add(Fault(kind="secondary_limit", method="GET", retry_after=retry_after))
    with pytest.raises(RateLimitError) as caught:
        await place.gateway.pull_request(place.repository, place.pull.number)
    assert caught.value.retry_after == timedelta(seconds=seconds)


async def test_pull_request_is_read_whole_where_permissions_and_settings_need_push_access(
    place: Place,
) -> None:
    """The token that reads them may push."""
    place.handle.record.private = True
    place.github.behaviour.permissions_need_push = place.github.behaviour.merge_settings_need_push = True
    snapshot = await place.gateway.snapshot(place.repository, place.pull.number, login="mona")
    assert snapshot.permission is Permission.WRITE
    assert snapshot.pull.methods == tuple(MergeMethod)


@pytest.mark.parametrize("shown", [True, False])
async def test_permission_is_read_whether_graphql_shows_collaborators_or_not(place: Place, shown: bool) -> None:
    """P4: who queued it is looked up by REST where GraphQL refuses an App (refined-github #8553)."""
    place.github.behaviour.collaborators_shown = shown
    for login, permission in (("mona", Permission.WRITE), ("nobody-here", Permission.NONE)):
        snapshot = await place.gateway.snapshot(place.repository, place.pull.number, login=login)
        assert snapshot.permission is permission


async def test_labels_comments_and_check_runs_are_written_and_found(place: Place) -> None:
    """What people read stands on the pull request once."""
    gateway, repository, number = place.gateway, place.repository, place.pull.number
    place.pull.label("to merge/now", by="mona")
    place.pull.label("to merge/now", by="mona")
    assert await gateway.labeled_pull_requests(repository, "to merge/now") == (number,)
    assert [each.number for each in await gateway.latest_pull_requests(repository)] == [number]
    last_labeled = await gateway.last_labeled_event(repository, number, "to merge/now")
    assert last_labeled is not None
    assert last_labeled.by == "mona"
    comment = await gateway.create_comment(repository, number, f"queued {MARKER} -->")
    await gateway.update_comment(repository, comment, f"merged {MARKER} -->")
    assert await gateway.find_comments(repository, number) == {comment: f"merged {MARKER} -->"}
    assert [each.body for each in place.pull.comments] == [f"merged {MARKER} -->"]
    fields = {"name": "IMQ", "head_sha": place.pull.head_sha, "external_id": "e1", "status": "in_progress"}
    run = await gateway.create_check_run(repository, fields)
    assert await gateway.find_check_run(repository, place.pull.head_sha, "IMQ", "e1") == run
    await gateway.update_check_run(
        repository, run, {"conclusion": "success", "output": {"title": "Merged", "summary": "s"}}
    )
    await gateway.remove_label(repository, number, "to merge/now")
    await gateway.remove_label(repository, number, "to merge/now")
    assert await gateway.labeled_pull_requests(repository, "to merge/now") == ()
    names = {report.name for report in await gateway.check_reports(repository, place.pull.head_sha, ())}
    assert "IMQ" not in names


async def test_webhooks_of_a_pull_requests_life_become_hints(place: Place) -> None:
    """Every delivery of the emulator is accepted, and says what happened in the engine's words."""
    pull = place.pull
    before = pull.head_sha
    pull.label("merge-queue", by="mona")
    await place.run_ci()
    head = pull.push({"more.py": "more\n"}, by="mona")
    pull.convert_to_draft(by="mona")
    pull.unlabel("merge-queue", by="mona")
    place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    place.handle.add_ruleset("linear", linear_history=True)
    pull.close(by="mona")
    await place.run_ci()
    webhook_events = {(each.kind, getattr(each, "action", "")): each for each in place.webhook_events}
    labeled = webhook_events["labeled", ""]
    assert (labeled.number, labeled.label, labeled.head_sha) == (pull.number, "merge-queue", before)
    assert (labeled.repository_id, labeled.owner, labeled.name) == (place.repository.id, "acme", "widgets")
    assert (labeled.installation_id, labeled.sender) == (place.repository.installation_id, "mona")
    pushed = webhook_events["consent", "synchronize"]
    assert (pushed.before, pushed.head_sha) == (before, head)
    assert {action for kind, action in webhook_events if kind == "consent"} == {
        "synchronize",
        "converted_to_draft",
        "unlabeled",
        "closed",
    }
    checks = {(each.check_name, each.passed) for each in place.webhook_events if each.kind == "check"}
    assert checks == {("ci/test", True), ("ci/lint", True)}
    moved = [each.head_sha for each in place.webhook_events if each.kind == "base_moved" and each.branch == "main"]
    assert moved[-1] == place.handle.sha("main")
    assert "rules" in {kind for kind, _ in webhook_events}
    assert len({each.delivery for each in place.webhook_events}) == len(place.webhook_events)
