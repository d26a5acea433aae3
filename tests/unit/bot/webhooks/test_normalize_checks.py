"""What deliveries of checks, pushes and rules mean for a queue."""

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_engine.domain.webhooks import RuleChange
from tests.unit.bot.webhooks.delivery_examples import _normalized, _payload, _webhook_event


def test_push_has_whether_the_configuration_may_have_changed() -> None:
    """By the files of its commits; where the list may not be whole it may have."""
    cases: list[tuple[dict[str, Any], bool, bool]] = [
        ({"commits": [{"modified": ["app.py"]}, {"added": [".github/imq.yml"]}]}, True, True),
        ({"commits": [{"removed": [".github/imq.yml"]}]}, True, True),
        ({"commits": [{"added": ["imq.yml"], "modified": ["docs/.github/imq.yml"]}]}, False, False),
        ({"commits": [{"added": [".github/imq.yml/rules.yml"]}]}, True, True),
        ({"commits": [{"removed": ["a", ".github/imq.yml/rules.yml"]}]}, True, True),
        ({"commits": [{"added": [".github/imq.yml.bak", ".github/imq.yaml"]}]}, False, False),
        ({"commits": [{"modified": [".github/workflows/ci.yml"]}]}, True, False),
        ({"commits": [{"removed": [".github/actions/test/action.yml"]}]}, True, False),
        ({"commits": [{"added": ["docs/.github/workflows/ci.yml", ".github/CODEOWNERS"]}]}, False, False),
        ({"commits": [{"modified": ["app.py"]}], "forced": True}, True, False),
        ({"commits": [{"modified": ["app.py"]}], "created": True}, True, False),
        ({"commits": [{"modified": [".github/imq.yml"]}], "forced": True}, True, True),
        ({"commits": [{}] * 2048}, True, False),
        ({"commits": []}, True, False),
        ({"commits": [], "deleted": True}, False, False),
    ]
    for push, config, named in cases:
        webhook_event = _normalized("push", _payload(ref="refs/heads/main", before="old", after="new", **push))
        assert webhook_event is not None, (push, config, named)
        assert (webhook_event.config, webhook_event.config_named) == (config, named), (push, config, named)


def test_push_has_whether_it_is_to_the_default_branch() -> None:
    """The default branch's configuration says which labels queue, whatever the branch."""
    payload = _payload(ref="refs/heads/main", before="old", after="new")
    for default, expected in (("main", True), ("trunk", False)):
        payload["repository"]["default_branch"] = default
        webhook_event = _normalized("push", payload)
        assert webhook_event is not None
        assert webhook_event.default_branch is expected


@pytest.mark.parametrize(
    ("conclusion", "passed"),
    [("success", True), ("neutral", True), ("skipped", True), ("failure", False), ("cancelled", False), (None, False)],
)
def test_check_run_completed_says_whether_it_passed(conclusion: str | None, passed: bool) -> None:
    """Enough to know, without a request, whether the awaited checks have all reported."""
    run = {"name": "test", "head_sha": "h1", "conclusion": conclusion, "app": {"id": 15}}
    webhook_event = _normalized("check_run", _payload(action="completed", check_run=run))
    assert webhook_event == _webhook_event(
        "check",
        action="completed",
        head_sha="h1",
        check_name="test",
        passed=passed,
        skipped=conclusion == "skipped",
    )


def test_check_that_completed_says_when_it_ran_and_where_its_page_is() -> None:
    """By GitHub's clock; its own page before the one of the App that reports it."""
    page = {"html_url": "https://github.test/acme/rocket/runs/1", "details_url": "https://ci.example/1"}
    times = {"started_at": "2026-01-01T12:00:00Z", "completed_at": "2026-01-01T12:05:00Z"}
    run = {"name": "test", "head_sha": "h1", "conclusion": "success", "app": {"id": 15}, **page, **times}
    event = _normalized("check_run", _payload(action="completed", check_run=run))
    assert event is not None
    assert event.check_url == "https://github.test/acme/rocket/runs/1"
    assert event.check_started == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert event.check_ended == datetime(2026, 1, 1, 12, 5, tzinfo=UTC)


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "https://a\x00b", None])
def test_status_whose_address_is_none_of_the_web_is_counted_without_it(address: str | None) -> None:
    """Everyone with write access sets statuses. A strange address neither reaches a page nor loses the report."""
    status = {"sha": "h1", "context": "test", "state": "success", "updated_at": "2026-01-01T12:05:00Z"}
    event = _normalized("status", _payload(**status, target_url=address))
    assert event is not None
    assert (event.check_name, event.check_url, event.passed) == ("test", None, True)
    assert (event.check_started, event.check_ended) == (None, datetime(2026, 1, 1, 12, 5, tzinfo=UTC))


@pytest.mark.parametrize(("state", "passed"), [("success", True), ("failure", False), ("error", False)])
def test_commit_status_reported_says_whether_it_passed(state: str, passed: bool) -> None:
    """Older CI reports by commit status only."""
    webhook_event = _normalized("status", _payload(sha="h1", context="lint", state=state))
    assert webhook_event == _webhook_event("check", head_sha="h1", check_name="lint", passed=passed)


def test_check_suite_completed_names_its_head() -> None:
    """All of an App's runs have reported."""
    webhook_event = _normalized(
        "check_suite", _payload(action="completed", check_suite={"head_sha": "h1", "app": {"id": 15}})
    )
    assert webhook_event == _webhook_event("checks", action="completed", head_sha="h1")


@pytest.mark.parametrize(
    ("event", "action", "expected", "without_jobs"),
    [
        ("check_suite", "completed", {"conclusion": "action_required"}, True),
        ("workflow_run", "requested", {"status": "waiting"}, True),
        ("workflow_run", "requested", {"status": "action_required"}, True),
        ("workflow_run", "completed", {"status": "completed", "conclusion": "action_required"}, True),
        ("workflow_run", "in_progress", {"status": "in_progress"}, False),
    ],
)
def test_workflow_run_that_is_parked_or_starts_names_its_head(
    event: str, action: str, expected: dict[str, Any], without_jobs: bool
) -> None:
    """P5: each delivery about a run that waits for approval says so, in any of GitHub's statuses."""
    webhook_event = _normalized(event, _payload(action=action, **{event: {"head_sha": "h1", **expected}}))
    assert webhook_event == _webhook_event("checks", action=action, head_sha="h1", without_jobs=without_jobs)


@pytest.mark.parametrize(("deleted", "tip"), [(False, "new"), (True, None)])
def test_push_to_a_branch_names_its_new_tip(deleted: bool, tip: str | None) -> None:
    """Branches may have slashes; a deleted one has no tip."""
    after = "0" * 40 if deleted else "new"
    commits = [] if deleted else [{"modified": ["app.py"]}]
    payload = _payload(ref="refs/heads/release/1.0", before="old", after=after, deleted=deleted, commits=commits)
    webhook_event = _normalized("push", payload)
    assert webhook_event == _webhook_event("base_moved", branch="release/1.0", before="old", head_sha=tip)


@pytest.mark.parametrize("event", ["branch_protection_configuration", "branch_protection_rule", "repository_ruleset"])
def test_rules_changed_is_a_rules_event(event: str) -> None:
    """Remembered rules are dropped then; an organisation's ruleset names no repository."""
    assert _normalized(event, _payload(action="edited")) == _webhook_event("rules", action="edited")
    of_organisation = {"action": "edited", "installation": {"id": 9}}
    assert _normalized(event, of_organisation) == RuleChange(delivery="d-1", installation_id=9)


@pytest.mark.parametrize(
    ("branches", "own"),
    [
        (["imq/main/try-7"], "imq/main/try-7"),
        (["imq-build/main/try-7"], "imq-build/main/try-7"),
        (["main"], None),
        ([None], None),
        (["main", "imq/main/3"], "imq/main/3"),
    ],
)
def test_check_names_the_branch_of_imq_that_has_its_commit(branches: list[str | None], own: str | None) -> None:
    """A check run has it in its suite, which is of no branch for a fork; a status has all that have the commit."""
    status = {"sha": "head", "context": "ci/test", "state": "success", "branches": [{"name": b} for b in branches if b]}
    found = [_normalized("status", _payload(**status))]
    if len(branches) == 1:
        run = {"name": "ci/test", "head_sha": "head", "check_suite": {"head_branch": branches[0]}}
        found.append(_normalized("check_run", _payload(action="completed", check_run=run)))
    assert [each and each.own_branch for each in found] == [own] * len(found)
