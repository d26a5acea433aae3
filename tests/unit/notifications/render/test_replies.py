"""Answers to commands: each code has its words, and what people typed is quoted, never obeyed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.render import replies as texts
from notifications.render.comment import render_comment
from notifications.render.status import effect_sentence
from notifications.texts.waiting import STATES
from queue_engine.commands.commands import CATALOGUE
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import TRANSITIONS, EntryStatus
from queue_engine.domain.notice import MARKER, NoticeKind, ReplyKind
from queue_engine.domain.reasons import Reason
from queue_engine.rules.job_rates import NO_JOBS
from tests.unit.notifications.hostile import NASTY, mentions, skeleton
from tests.unit.notifications.notices import REPLIES, answer, entry_status, event, facts, of_kind

GITHUB_LIMIT = 65_536


def comment(*codes: ReplyKind, by: str = "bob", command: str = "queue", **changes: object) -> str:
    """A comment that is there for the answer."""
    given = answer(*codes, by=by, command=command, **changes)
    return render_comment(of_kind(NoticeKind.ANSWERED), answer=given, facts=facts())


def test_cost_without_jobs_of_github_actions_has_no_minutes() -> None:
    """Unknown is not zero: other CI has no billed minutes."""
    assert effect_sentence(1, NO_JOBS, 2) == "It stops 1 run, and delays 2 pull requests."
    assert effect_sentence(1, NO_JOBS, 1, holds=True).endswith("Until it ends, 1 run under way cannot land.")


def test_answers_every_code_has_its_words() -> None:
    """Nothing that can become of a command is without a sentence, nor without an example in these tests."""
    assert set(texts.REPLIES) | {ReplyKind.WHY} == set(ReplyKind) == set(REPLIES)
    assert set(STATES) == {status for status in EntryStatus if TRANSITIONS[status]}


def test_answer_of_each_code_says_more_than_who_asked() -> None:
    """The facts that the engine gives are those that the sentence takes."""
    for code in REPLIES:
        assert len(comment(code).split("> \n")[0].splitlines()) > 0, code
        quoted = [line for line in comment(code).splitlines() if line.startswith("> ")]
        assert len(quoted) > 1, code


def test_answer_of_refusal_is_the_reasons_own_text() -> None:
    """The command's answer and the comment on the label say the same."""
    text = comment(ReplyKind.REFUSED, reason=Reason.BRANCH_LOCKED.value, label="", detail="")
    assert "`main` is locked. Unlock `main`. Then comment" in text
    assert "add the label `merge-queue`" in text


def test_answer_of_refusal_names_what_it_is_about() -> None:
    """Which label, which method, who objects: quoted, for others chose the words."""
    text = comment(ReplyKind.REFUSED, reason=Reason.BLOCKED_BY_LABEL.value, detail="ask @org")
    assert "keeps it out of the queue. Details: `ask @org`. When it is ready to land, remove that label." in text


def test_answer_of_help_lists_the_catalogue() -> None:
    """Help is made from the table by which commands are understood."""
    text = comment(ReplyKind.HELP)
    assert [row.usage for row in CATALOGUE.values() if f"> - `{row.usage}`: " not in text] == []


def test_answers_to_several_commands_stand_in_their_order_below_what_imq_says() -> None:
    """The reply comes after the paragraphs of the notice and before the history."""
    text = render_comment(of_kind(NoticeKind.QUEUED), answer=answer(ReplyKind.QUEUED, ReplyKind.NOT_PAUSED))
    places = [text.index(words) for words in ("To dequeue it", "Queued for `main` at position 2", "No one has paused")]
    assert places == sorted(places)


def test_answer_goes_when_the_pull_request_joins_or_leaves_after_it() -> None:
    """No comment says "No one has paused" below "Landed"; effects of the command itself do not hide its reply."""
    for happened, minutes, shown in [
        *((word, -1, False) for word in ("landed", "failed", "cancelled", "refused", "queued", "held")),
        *((word, -1, True) for word in ("checking", "ready", "rerun", "priority")),
        ("landed", 0, True),
        ("queued", 5, True),
    ]:
        given = answer(ReplyKind.NOT_PAUSED)
        text = render_comment(of_kind(NoticeKind.LANDED), events=(event(happened, minutes),), answer=given)
        assert ("No one has paused" in text) == shown, (happened, minutes, shown)


def test_answer_of_another_version_of_imq_says_at_least_who_asked() -> None:
    """Facts that are missing or of another form cost the answer, not the comment."""
    text = comment(ReplyKind.RESUMED, blockers="none", base_branch=None)
    assert "> `/queue` by `bob` (2026-03-14 15:09 UTC):\n" in text
    assert text.startswith(MARKER)


@given(code=st.sampled_from(sorted(REPLIES)), by=NASTY, command=NASTY, foreign=NASTY)
@settings(max_examples=120, deadline=None)
def test_answer_hostile_words_change_nothing_but_code_spans(
    code: ReplyKind, by: str, command: str, foreign: str
) -> None:
    """Who typed the command, and why, mentions no account and adds no markup."""

    def rendered(by: str, command: str, words: str) -> str:
        named = ("detail", "argument", "usage", "label", "base_branch", "needs", "has")
        changes: dict[str, object] = {name: f"x{words}" for name in named if name in REPLIES[code]}
        hostile = {"blockers": (Blocker(Reason.FROZEN, f"x{words}"),), "pending_checks": (f"x{words}",)}
        asked = replace(facts(), pull_request=entry_status(queued_by=f"x{words}", view=hostile))
        given = answer(code, by=by, command=f"x{command}", **changes)
        return render_comment(of_kind(NoticeKind.ANSWERED), answer=given, facts=asked)

    text = rendered(by, command, foreign)
    assert skeleton(text) == skeleton(rendered("bob", "queue", "words"))
    assert mentions(text) == set()
    assert text.count("<!--") == text.count(MARKER) == 1
    assert len(text) < GITHUB_LIMIT


@pytest.mark.parametrize(
    ("preempts", "lost", "sentence"),
    [
        (12, 240, "It is tested before `#12`, whose checks start over. They had run for 4 min."),
        (12, None, "It is tested before `#12`, whose checks start over.\n"),
        (None, None, None),
    ],
)
def test_answer_to_a_priority_names_what_it_preempts_and_what_is_lost(
    preempts: int | None, lost: int | None, sentence: str | None
) -> None:
    """The reply shows the cost of a preemption; where no run is preempted it does not mention one."""
    text = comment(ReplyKind.PRIORITY, preempts=preempts, lost=lost)
    assert sentence in text if sentence else "It is tested before" not in text


def test_answer_to_a_resume_says_what_still_holds() -> None:
    """A pause is lifted; the freeze beside it holds, and so does a red base."""
    frozen = {"reason": Reason.FROZEN.value, "detail": "Release week", "until": None}
    red = {"reason": Reason.BASE_RED.value, "detail": "build", "until": None}
    text = comment(ReplyKind.RESUMED, blockers=[frozen, red])
    assert "Resumed the queue for `main`." in text
    assert "The queue is blocked: `main` is frozen (`Release week`), so nothing lands on it." in text
    assert text.count("The queue is blocked: ") == 2


def test_answer_to_a_misread_argument_says_what_is_wrong_with_it() -> None:
    """The fault ends a sentence; text in the fault mentions no account."""
    text = comment(ReplyKind.NOT_UNDERSTOOD, argument="until 2026-02-30", fault="has no such day: @org <b>")
    assert "`until 2026-02-30` has no such day&#58; " in text
    assert mentions(text) == set()
    assert "<b>" not in text
