"""What each delivery means for a queue."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.webhooks.normalize import MalformedPayload, may_matter
from queue_engine.domain.webhooks import RepositoryChange, ReviewWebhook
from tests.unit.bot.webhooks.delivery_examples import AT, OWN_APP, _normalized, _payload, _webhook_event


def _pull_request(action: str, **parts: Any) -> dict[str, Any]:
    pull = {"number": 3, "head": {"sha": "h1"}, "base": {"ref": "main"}, "updated_at": AT.isoformat(), "state": "open"}
    return _payload(action=action, pull_request=pull, **parts)


def test_label_set_says_which_on_which_head() -> None:
    """The engine knows the trigger label; the head is what consent is bound to."""
    expected = _webhook_event("labeled", action="labeled", number=3, label="bug", head_sha="h1")
    assert _normalized("pull_request", _pull_request("labeled", label={"name": "bug"})) == expected


@pytest.mark.parametrize("action", ["closed", "reopened", "converted_to_draft", "ready_for_review"])
def test_pull_request_event_that_may_end_consent_is_a_consent_event(action: str) -> None:
    """The engine reads the pull request then."""
    expected = _webhook_event("consent", action=action, number=3, head_sha=None)
    assert _normalized("pull_request", _pull_request(action)) == expected


def test_auto_merge_says_which_head_the_button_showed() -> None:
    """P4: where the configuration has it queue, no later head is consented to."""
    expected = _webhook_event("consent", action="auto_merge_enabled", number=3, head_sha="h1")
    assert _normalized("pull_request", _pull_request("auto_merge_enabled")) == expected


@pytest.mark.parametrize("label", [{"name": "merge-queue"}, None])
def test_label_removed_is_a_consent_event_even_without_a_label(label: dict[str, str] | None) -> None:
    """`unlabeled` comes without a label when the label itself was deleted."""
    payload = _pull_request("unlabeled", **({"label": label} if label else {}))
    expected = _webhook_event("consent", action="unlabeled", number=3, label=label["name"] if label else None)
    assert _normalized("pull_request", payload) == expected


def test_push_to_a_pull_request_says_from_which_head_to_which() -> None:
    """IMQ distinguishes its own update from anyone else's push."""
    payload = _pull_request("synchronize", before="h0", after="h1")
    payload["sender"] = {"login": "my-queue[bot]", "type": "Bot"}
    assert _normalized("pull_request", payload) == _webhook_event(
        "consent",
        action="synchronize",
        number=3,
        before="h0",
        head_sha="h1",
        sender="my-queue[bot]",
        sender_is_bot=True,
    )


def test_base_or_title_edited_is_a_consent_event_and_a_body_edited_is_none() -> None:
    """What lands where is consent; a title may be one that the configuration keeps out."""
    edited = _pull_request("edited", changes={"base": {"ref": {"from": "old"}, "sha": {"from": "x"}}})
    expected = _webhook_event("consent", action="edited", number=3, head_sha=None)
    assert _normalized("pull_request", edited) == expected
    titled = _pull_request("edited", changes={"title": {"from": "old"}})
    titled["pull_request"]["title"] = "WIP: new"
    expected = _webhook_event("consent", action="edited", number=3, head_sha=None, title="WIP: new")
    assert _normalized("pull_request", titled) == expected
    assert _normalized("pull_request", _pull_request("edited", changes={"body": {"from": "old"}})) is None


@pytest.mark.parametrize(
    ("before", "after", "matters"),
    [("", "Depends-On: #1", True), ("Depends-On: #1", "", True), ("depends-on: #1", "Text\n\ndepends-on: #1", False)],
)
def test_edited_body_is_an_event_if_it_changes_what_lands_before(before: str, after: str, matters: bool) -> None:
    """P7: any other edit of a description costs nothing."""
    edited = _pull_request("edited", changes={"body": {"from": before}})
    edited["pull_request"]["body"] = after
    expected = _webhook_event("consent", action="edited", number=3, head_sha=None)
    assert _normalized("pull_request", edited) == (expected if matters else None)


def test_edit_that_does_not_say_what_changed_is_an_event() -> None:
    """GitHub left that out where a description had been empty, or became empty (odoo/runbot #743)."""
    expected = _webhook_event("consent", action="edited", number=3, head_sha=None)
    assert _normalized("pull_request", _pull_request("edited", changes={})) == expected


def _comment(body: str | None, **parts: Any) -> dict[str, Any]:
    issue = {"number": 3, "pull_request": {"url": "x"}, "updated_at": "2026-01-02T03:04:06Z"}
    comment = {"id": 70, "body": body, "created_at": "2026-01-02T03:04:05Z"}
    return _payload(**{"action": "created", "issue": issue, "comment": comment} | parts)


def test_comment_with_commands_says_them_and_when_the_pull_request_changed_last() -> None:
    """A push after that instant is none that the person who typed has seen."""
    expected = _webhook_event(
        "comment",
        action="created",
        number=3,
        comment_id=70,
        commands=("queue", "why"),
        joins=True,
        updated_at=datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
    )
    assert _normalized("issue_comment", _comment("Thanks!\n/queue\n/why")) == expected


@pytest.mark.parametrize(
    "payload",
    [
        _comment("Nothing to do here."),
        _comment(None),
        _comment("> /queue"),
        _comment("/queue", action="edited"),
        _comment("/queue", action="deleted"),
        _comment("/queue", issue={"number": 3}),
        _comment("/queue", sender={"login": "robot[bot]", "type": "Bot"}),
        _comment("/queue", sender=None),
        _comment("/queue", comment={"id": 70, "body": "/queue", "performed_via_github_app": {"id": 9}}),
    ],
)
def test_comment_that_is_no_persons_new_command_on_a_pull_request_is_ignored(payload: dict[str, Any]) -> None:
    """Most comments have no command: nothing is stored for them."""
    assert _normalized("issue_comment", payload) is None


@pytest.mark.parametrize(("action", "meant"), [("submitted", True), ("dismissed", True), ("edited", False)])
def test_review_given_or_withdrawn_is_a_review_event(action: str, meant: bool) -> None:
    """One that is edited says the same in other words."""
    expected = _webhook_event("review", action=action, number=3) if meant else None
    assert _normalized("pull_request_review", _pull_request(action, review={"state": "approved"})) == expected


@pytest.mark.parametrize(("action", "meant"), [("resolved", True), ("unresolved", True), ("edited", False)])
def test_conversation_resolved_or_opened_again_is_a_conversation_event(action: str, meant: bool) -> None:
    """GitHub documents no further action."""
    expected = _webhook_event("conversation", action=action, number=3) if meant else None
    payload = _pull_request(action, thread={"node_id": "T1", "comments": []})
    assert _normalized("pull_request_review_thread", payload) == expected


def test_review_with_commands_says_them_and_the_head_that_was_reviewed() -> None:
    """A push after the review is none that the reviewer has seen."""
    review = {
        "id": 71,
        "state": "approved",
        "body": "/queue",
        "commit_id": "a1",
        "submitted_at": "2026-01-02T03:04:06Z",
    }
    event = _normalized("pull_request_review", _pull_request("submitted", review=review))
    assert event is not None
    assert (event.review_id, event.commands, event.head_sha) == (71, ("queue",), "a1")
    assert event.updated_at == datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
    by_bot = _pull_request("submitted", review=review, sender={"login": "robot[bot]", "type": "Bot"})
    event = _normalized("pull_request_review", by_bot)
    assert type(event) is ReviewWebhook


def test_repositories_added_or_renamed_are_an_installed_event() -> None:
    """A sweep finds what their pull requests carry, under the name they have now."""
    for event, action in [
        ("installation", "created"),
        ("installation", "unsuspend"),
        ("installation", "new_permissions_accepted"),
        ("installation_repositories", "added"),
        ("repository", "renamed"),
        ("repository", "transferred"),
        ("repository", "archived"),
        ("repository", "unarchived"),
        ("installation", "deleted"),
        ("installation", "suspend"),
        ("installation_repositories", "removed"),
        ("installation_target", "renamed"),
    ]:
        assert _normalized(event, _payload(action=action)) == _webhook_event("installed", action=action), (
            event,
            action,
        )


@pytest.mark.parametrize(("count", "named"), [(1, 1), (25, 25), (26, 0)])
def test_repositories_added_are_named_if_they_are_few(count: int, named: int) -> None:
    """P7: they alone are swept."""
    added = [{"id": number, "full_name": f"acme/part-{number}"} for number in range(count)]
    event = _normalized("installation_repositories", _payload(action="added", repositories_added=added))
    assert isinstance(event, RepositoryChange)
    assert [(each.id, each.full_name) for each in event.selected] == [
        (number, f"acme/part-{number}") for number in range(named)
    ]


@pytest.mark.parametrize("unnamed", [{"full_name": "acme/secret"}, {"id": 7}, {}])
def test_removed_repository_that_is_not_named_whole_leaves_all_to_be_listed(unnamed: dict[str, Any]) -> None:
    """P2: GitHub's schema promises neither field, and one that lacks must not hide that the others were removed."""
    removed = [{"id": 6, "full_name": "acme/site"}, unnamed]
    event = _normalized("installation_repositories", _payload(action="removed", repositories_removed=removed))
    assert isinstance(event, RepositoryChange)
    assert event.selected == ()


def test_delivery_without_meaning_for_a_queue_is_ignored() -> None:
    """Nothing is stored for it; IMQ's own check runs above all must not wake their queue."""
    for event, payload in [
        ("star", {}),
        ("pull_request", _pull_request("assigned")),
        ("pull_request", _pull_request("labeled")),
        ("check_run", _payload(action="created", check_run={"name": "t", "head_sha": "h"})),
        ("check_run", _payload(action="completed", check_run={"name": "IMQ", "head_sha": "h", "app": {"id": OWN_APP}})),
        ("check_suite", _payload(action="completed", check_suite={"head_sha": "h", "app": {"id": OWN_APP}})),
        (
            "check_suite",
            _payload(
                action="rerequested",
                check_suite={"head_sha": "h", "app": {"id": OWN_APP}},
                sender={"login": "robot[bot]", "type": "Bot"},
            ),
        ),
        ("check_suite", _payload(action="requested", check_suite={"head_sha": "h"})),
        ("workflow_run", _payload(action="requested", workflow_run={"head_sha": "h", "status": "queued"})),
        ("workflow_run", _payload(action="completed", workflow_run={"head_sha": "h", "conclusion": "success"})),
        ("status", _payload(sha="h", context="lint", state="pending")),
        ("push", _payload(ref="refs/tags/v1", before="a", after="b")),
        ("installation", {"action": "unheard_of", "installation": {"id": 9}}),
        ("repository", _payload(action="edited")),
    ]:
        assert _normalized(event, payload) is None, (event, payload)


@pytest.mark.parametrize(
    ("event", "payload", "place"),
    [
        ("pull_request", {}, "installation"),
        ("pull_request", _payload(action="closed"), "pull_request"),
        ("pull_request", {**_pull_request("closed"), "installation": {"id": "many"}}, "installation.id"),
        ("check_run", _payload(action="completed", check_run={"name": "t"}), "check_run.head_sha"),
        ("check_suite", _payload(action="completed"), "check_suite"),
        ("status", _payload(sha="h"), "context"),
        ("push", _payload(ref=None, before="a", after="b"), "ref"),
        ("push", _payload(ref="refs/heads/a\x00b", before="a", after="b"), "ref"),
        ("pull_request", _pull_request("labeled", label={"name": "bug\x00"}), "label.name"),
        ("issue_comment", _comment("/queue\x00"), "comment.body"),
        ("repository_ruleset", {"action": "edited"}, "installation"),
        ("installation", {"action": "created"}, "installation"),
        ("status", [], "the payload"),
    ],
)
def test_payload_without_what_its_event_needs_is_malformed(event: str, payload: Any, place: str) -> None:
    """The message names the place, for readers of the App's delivery log."""
    with pytest.raises(MalformedPayload, match=place):
        _normalized(event, payload)


def test_half_of_a_surrogate_pair_in_a_comment_keeps_no_command() -> None:
    """JSON may escape it, and only the commands of a comment are stored."""
    found = _normalized("issue_comment", _comment("/queue\n\ud83d"))
    assert found is not None
    assert found.commands == ("queue",)


@pytest.mark.parametrize(
    ("event", "action"),
    [("check_run", "created"), ("pull_request", "opened"), ("star", "created"), ("issue_comment", "edited")],
)
def test_delivery_whose_action_means_nothing_is_not_worth_asking_for(event: str, action: str) -> None:
    """Whatever else its payload says, it concerns no queue."""
    assert not may_matter(event, action)
