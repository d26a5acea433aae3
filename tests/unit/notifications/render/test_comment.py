"""The sticky comment: its texts, its mentions, and that strangers' text cannot add any."""

import re
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.render.comment import render_comment
from notifications.render.escape import duration, link
from queue_engine.domain.notice import MARKER, NoticeKind, kind_of
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from tests.unit.notifications.hostile import NASTY, flat, mentions, skeleton
from tests.unit.notifications.notices import KIND_OF_OUTCOME, LANDED, check, notice, of_kind, of_reason

GITHUB_LIMIT = 65_536


def test_comment_of_every_kind_and_reason_mentions_only_who_must_act() -> None:
    """Author and assignees are mentioned when the pull request left, if it is their move or a check never finished."""
    for reason in [None, *Reason]:
        for kind in NoticeKind:
            text = render_comment(notice(kind, reason=reason))
            left = kind in {NoticeKind.FAILED, NoticeKind.CANCELLED, NoticeKind.REFUSED}
            authors_move = reason is not None and REASONS[reason].next_actor is ReasonActor.AUTHOR
            must_act = left and (authors_move or reason is Reason.CHECKS_TIMED_OUT)
            assert mentions(text) == ({"alice", "carol"} if must_act else set()), (kind, reason)
            assert text.startswith(f"{MARKER} {kind} -->\n"), (kind, reason)
            assert kind_of(text) == kind, (kind, reason)


@pytest.mark.parametrize(
    ("kind", "queued_by", "words"),
    [
        (NoticeKind.FAILED, "bob", "ask `bob`, who queued it before."),
        (NoticeKind.REFUSED, "tria", "ask someone with write access."),
        (NoticeKind.FAILED, "Alice", None),
        (NoticeKind.FAILED, None, None),
    ],
)
def test_comment_names_whom_an_author_who_may_not_queue_can_ask(
    kind: NoticeKind, queued_by: str | None, words: str | None
) -> None:
    """The author of a fork's pull request cannot set a label; the comment names only accounts that may queue."""
    text = render_comment(notice(kind, reason=Reason.CONFLICT, queued_by=queued_by))
    assert ("If you cannot, ask" in text) == (words is not None)
    assert words is None or words in text


LOGIN = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
"""What GitHub gives out; the underscore is that of managed users."""


@dataclass(frozen=True)
class Foreign:
    """Texts of a notice that others write."""

    base: str
    label: str
    detail: str
    person: str
    name: str
    conclusion: str
    url: str
    sha: str


@given(
    kind=st.sampled_from(NoticeKind),
    reason=st.none() | st.sampled_from(Reason),
    foreign=st.builds(Foreign, **dict.fromkeys((field.name for field in fields(Foreign)), NASTY)),
)
@settings(max_examples=150, deadline=None)
def test_comment_hostile_text_changes_nothing_but_code_spans(
    kind: NoticeKind, reason: Reason | None, foreign: Foreign
) -> None:
    """For any foreign text the parser sees the same words, the same one comment marker and the same mentions."""
    person, name = foreign.person, foreign.name
    linked = f"https://ci.example/{foreign.url}"

    def rendered(**texts: Any) -> str:
        return render_comment(notice(kind, reason=reason, **texts))

    text = rendered(
        base_branch=foreign.base,
        trigger_label=foreign.label,
        detail=f"x{foreign.detail}",
        queued_by=person,
        people=("alice", person),
        landed_sha=f"x{foreign.sha}",
        checks=(check(name, f"X{foreign.conclusion}", f"x{foreign.url}"), check(name, "failure", linked)),
    )
    harmless = rendered(
        base_branch="main",
        trigger_label="merge-queue",
        detail="detail",
        queued_by="bob",
        people=("alice", person) if re.fullmatch(LOGIN, person) else ("alice",),
        landed_sha="no sha",
        checks=(
            check("build", "UNHEARD OF", None),
            check("build", "failure", "https://ci.example/x" if link("x", linked).startswith("[") else None),
        ),
    )
    assert skeleton(text) == skeleton(harmless)
    assert text.count("<!--") == text.count(MARKER) == 1
    assert len(text) < GITHUB_LIMIT


def test_comment_links_lead_to_the_checks_and_nowhere_else() -> None:
    """The only links are the addresses of the checks."""
    text = render_comment(of_reason(Reason.CHECKS_FAILED))
    links = {str(token.attrs["href"]) for token in flat(text) if token.type == "link_open"}
    assert links == {"https://ci.example/runs/1"}


def test_comment_thousand_checks_is_cut_and_counts_the_rest() -> None:
    """A long list stays below GitHub's limit and says how many more there are."""
    checks = tuple(check(f"{i:04} " + "n" * 300, "failure", "https://ci.example/" + "e" * 900) for i in range(1000))
    text = render_comment(notice(NoticeKind.FAILED, reason=Reason.CHECKS_FAILED, checks=checks))
    shown = text.count("- [`")
    assert 0 < shown < 51
    assert f"and {1000 - shown} more" in text
    assert len(text) < GITHUB_LIMIT


def test_comment_queued_counts_positions_from_one() -> None:
    """People count from one, and the place is that of joining, since it is not edited at every landing."""
    assert "Queued for `main` at position 3 of 5" in render_comment(of_kind(NoticeKind.QUEUED))


def test_comment_checking_names_the_awaited_checks_since_when_and_where() -> None:
    """What it waits for right now is linked and dated."""
    text = render_comment(of_kind(NoticeKind.CHECKING))
    assert "- [`build`](https://ci.example/runs/1): in progress since 2026-03-14 15:00 UTC" in text
    assert "- `docs / links`: queued" in text


def test_comment_landed_shows_the_commit_and_the_time_it_took() -> None:
    """Which commit, how long in the queue, how long at the front."""
    text = render_comment(of_kind(NoticeKind.LANDED))
    assert LANDED in text
    assert "Time in the queue: 1 h 5 min, of which 10 min at the front." in text


def test_comment_says_how_to_leave_as_long_as_there_is_something_to_leave() -> None:
    """The author of a waiting pull request learns how to dequeue it; no other author does."""
    for kind in NoticeKind:
        left = {NoticeKind.LANDED, NoticeKind.FAILED, NoticeKind.CANCELLED, NoticeKind.REFUSED, NoticeKind.ANSWERED}
        words = "To end this wait" if kind is NoticeKind.NOT_READY else "To dequeue it"
        assert (f"{words}, comment `/unqueue` or remove the label" in render_comment(notice(kind))) is (
            kind not in left
        ), kind


def test_comment_of_a_reason_says_whose_move_it_is() -> None:
    """Every reason ends in one bold line: who, and the next step."""
    for reason in Reason:
        text = render_comment(notice(KIND_OF_OUTCOME[REASONS[reason].outcome], reason=reason))
        who = {
            ReasonActor.AUTHOR: r"\*\*Next step, @alice @carol:\*\* ",
            ReasonActor.MAINTAINER: r"\*\*Next step for a maintainer:\*\* ",
            ReasonActor.OPERATOR: r"\*\*Next step for the IMQ operator:\*\* ",
            ReasonActor.NONE: r"\*\*Nothing to do(\.\*\*| for you:\*\*) ",
        }
        expected = who[REASONS[reason].next_actor]
        if reason is Reason.CHECKS_TIMED_OUT:
            expected = r"\*\*Next step, @alice @carol or a maintainer:\*\* "
        assert len(re.findall(expected, text)) == 1, reason


def test_comment_of_a_check_that_timed_out_mentions_each_person_once_and_no_bot() -> None:
    """An author who is an assignee, too, is one person, however GitHub spells the login."""
    people = ("alice", "renovate[bot]", "carol", "Alice")
    text = render_comment(notice(NoticeKind.FAILED, reason=Reason.CHECKS_TIMED_OUT, people=people))
    assert "**Next step, @alice @carol or a maintainer:**" in text
    assert "renovate" not in text


def test_comment_author_who_is_an_app_is_not_mentioned() -> None:
    """Some Apps take a mention for a command."""
    text = render_comment(notice(NoticeKind.FAILED, reason=Reason.CONFLICT, people=("dependabot[bot]",)))
    assert "dependabot" not in text
    assert "**Next step for the author:**" in text


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=12, seconds=30), "12 min"),
        (timedelta(hours=1), "1 h"),
        (timedelta(hours=1, minutes=5), "1 h 5 min"),
        (timedelta(days=2, minutes=7), "2 d"),
        (timedelta(days=2, hours=3, minutes=7), "2 d 3 h"),
    ],
)
def test_duration_any_length_reads_in_two_units_at_most(length: timedelta, shown: str) -> None:
    """Times are as exact as people need them."""
    assert duration(length) == shown


def test_comment_check_that_never_reported_says_so() -> None:
    """The comment distinguishes a required check without any report from a running one."""
    assert "- `docs`: not reported yet" in render_comment(of_reason(Reason.CHECKS_TIMED_OUT))
