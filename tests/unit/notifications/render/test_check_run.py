"""The check run "IMQ" in GitHub's fields."""

import pytest

from notifications.render.comment import completes, conclusion, external_id, render_check_run
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.hostile import mentions
from tests.unit.notifications.notices import HEAD, LANDED_EVENTS, REPOSITORY, check, notice, of_kind, of_reason


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (NoticeKind.QUEUED, "queued"),
        (NoticeKind.HELD, "queued"),
        (NoticeKind.NOT_READY, "queued"),
        (NoticeKind.PAUSED, "queued"),
        (NoticeKind.UPDATING, "in_progress"),
        (NoticeKind.CHECKING, "in_progress"),
        (NoticeKind.READY, "in_progress"),
        (NoticeKind.LANDED, "completed"),
        (NoticeKind.FAILED, "completed"),
        (NoticeKind.CANCELLED, "completed"),
        (NoticeKind.REFUSED, "completed"),
    ],
)
def test_check_run_of_each_kind_has_githubs_status_and_the_fields_it_needs(kind: NoticeKind, status: str) -> None:
    """Each kind has one of GitHub's statuses; only a completed run has a conclusion."""
    run = render_check_run(of_kind(kind), external_id="imq:7:42:1")
    assert (run["name"], run["head_sha"], run["external_id"], run["status"]) == ("IMQ", HEAD, "imq:7:42:1", status)
    assert ("conclusion" in run) is ("completed_at" in run) is (status == "completed") is completes(of_kind(kind))
    assert ("started_at" in run) is (status != "queued")


def test_check_run_fails_only_for_what_the_author_must_fix() -> None:
    """A failed IMQ run would block merging by hand, so only the author's own faults fail it."""
    for reason in Reason:
        found = conclusion(of_reason(reason))
        assert found == ("failure" if reason in {Reason.CONFLICT, Reason.CHECKS_FAILED} else "neutral"), reason


def test_check_run_of_a_landed_change_succeeds_with_the_times_of_its_way() -> None:
    """Success, from the start of its processing to the landing, in GitHub's time format."""
    run = render_check_run(of_kind(NoticeKind.LANDED), external_id="x")
    assert (run["conclusion"], run["started_at"], run["completed_at"]) == (
        "success",
        "2026-03-14T14:59:26Z",
        "2026-03-14T15:09:26Z",
    )


def test_check_run_mentions_no_account() -> None:
    """The comment speaks to people, once."""
    for reason in Reason:
        assert mentions(render_check_run(of_reason(reason), external_id="x")["output"]["summary"]) == set(), reason


def test_check_run_summary_of_a_thousand_checks_stays_below_githubs_limit() -> None:
    """GitHub takes 65,535 characters."""
    checks = tuple(check("n" * 300, "failure", "https://ci.example/" + "é" * 900) for _ in range(1000))
    run = render_check_run(notice(NoticeKind.FAILED, reason=Reason.CHECKS_FAILED, checks=checks), external_id="x")
    assert len(run["output"]["summary"]) <= 65_535


def test_check_run_title_names_the_reason_and_nothing_foreign() -> None:
    """The one line in GitHub's list of checks says why."""
    run = render_check_run(notice(NoticeKind.FAILED, reason=Reason.CONFLICT, base_branch="@evil"), external_id="x")
    assert run["output"]["title"] == "Removed from the queue: conflict"


def test_external_id_of_two_heads_differs_and_of_one_head_does_not() -> None:
    """A run is found by repository, pull request and head."""
    assert external_id(REPOSITORY, notice()) == "imq:7:42:111111111111"
    assert external_id(REPOSITORY, notice(head_sha="2" * 40)) != external_id(REPOSITORY, notice())


def test_check_run_shows_the_history_below_its_summary() -> None:
    """The text below the summary has the events with their times; without events IMQ sends no text."""
    run = render_check_run(of_kind(NoticeKind.LANDED), external_id="x", events=LANDED_EVENTS)
    assert "- 2026-03-14 15:09 UTC: Landed on `main` as `abcdef0`" in run["output"]["text"]
    assert "text" not in render_check_run(of_kind(NoticeKind.LANDED), external_id="x")["output"]


def test_check_run_sent_back_into_line_does_not_promise_its_old_place() -> None:
    """The title's position has its time, as in the comment."""
    run = render_check_run(notice(NoticeKind.QUEUED), external_id="x")
    assert run["output"]["title"] == "Queued, position 3 of 5 as of 2026-03-14 15:09 UTC"
