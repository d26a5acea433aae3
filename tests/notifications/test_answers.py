"""Answers to commands: each code has its words, and what people typed is quoted, never obeyed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.comment import MARKER, render_comment
from notifications.texts import answers as texts
from notifications.texts.why import STATES
from queue_engine.commands.catalogue import CATALOGUE
from queue_engine.commands.codes import ReplyCode
from queue_engine.model import EntryStatus
from queue_engine.notice import NoticeKind
from queue_engine.reasons import Reason
from tests.notifications.hostile import NASTY, mentions, skeleton
from tests.notifications.notices import REPLIES, answer, event, of_kind

GITHUB_LIMIT = 65_536


def comment(*codes: ReplyCode, by: str = "bob", command: str = "queue", **facts: object) -> str:
    """A comment that is there for the answer."""
    return render_comment(of_kind(NoticeKind.ANSWERED), answer=answer(*codes, by=by, command=command, **facts))


def test_answers_every_code_has_its_words() -> None:
    """Nothing that can become of a command is without a sentence, nor without an example in these tests."""
    assert set(texts.REPLIES) | {ReplyCode.WHY} == set(ReplyCode) == set(REPLIES)
    assert set(STATES) == {status.value for status in EntryStatus if not status.final} | {"held", "not_queued"}


@pytest.mark.parametrize("code", REPLIES)
def test_answer_of_each_code_says_more_than_who_asked(code: ReplyCode) -> None:
    """The facts that the engine gives are those that the sentence takes."""
    assert len(comment(code).split("> \n")[0].splitlines()) > 0
    quoted = [line for line in comment(code).splitlines() if line.startswith("> ")]
    assert len(quoted) > 1


def test_answer_of_refusal_is_the_reasons_own_text() -> None:
    """The command's answer and the comment on the label say the same."""
    text = comment(ReplyCode.REFUSED, reason=Reason.BRANCH_LOCKED.value, label="", detail="")
    assert "`main` is locked: nothing can be merged into it. When `main` is unlocked" in text
    assert "set the label `merge-queue` again" in text


def test_answer_of_refusal_names_what_it_is_about() -> None:
    """Which label, which method, who objects: quoted, for others chose the words."""
    text = comment(ReplyCode.REFUSED, reason=Reason.BLOCKED_BY_LABEL.value, detail="ask @org")
    assert "keeps it out of the queue. Details: `ask @org`. Take that label off" in text


def test_answer_of_help_lists_the_catalogue() -> None:
    """Help is made from the table by which commands are understood."""
    text = comment(ReplyCode.HELP)
    assert [row.usage for row in CATALOGUE.values() if f"> - `{row.usage}`: " not in text] == []


def test_answers_to_several_commands_stand_in_their_order_below_what_imq_says() -> None:
    """The quotation comes after the paragraphs of the notice and before the story."""
    text = render_comment(of_kind(NoticeKind.QUEUED), answer=answer(ReplyCode.QUEUED, ReplyCode.NOT_PAUSED))
    places = [text.index(words) for words in ("To leave the queue", "Queued for `main`, position 2", "was not paused")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("happened", "minutes", "shown"),
    [
        *((word, -1, False) for word in ("landed", "failed", "cancelled", "refused", "queued", "held")),
        *((word, -1, True) for word in ("checking", "ready", "rerun", "priority")),
        ("landed", 0, True),
        ("queued", 5, True),
    ],
)
def test_answer_goes_when_the_pull_request_joins_or_leaves_after_it(happened: str, minutes: float, shown: bool) -> None:
    """Nobody reads "It stands still" below "Landed"; what the command itself brought about does not hide its answer."""
    given = answer(ReplyCode.NOT_PAUSED)
    text = render_comment(of_kind(NoticeKind.LANDED), events=(event(happened, minutes),), answer=given)
    assert ("was not paused" in text) == shown


def test_answer_of_another_version_of_imq_says_at_least_who_asked() -> None:
    """Facts that are missing or of another form cost the answer, not the comment."""
    text = comment(ReplyCode.STATUS, entries="none", depth=None)
    assert "> `bob` asked for `/queue` (2026-03-14 15:09 UTC):\n" in text
    assert text.startswith(MARKER)


@given(code=st.sampled_from(sorted(REPLIES)), by=NASTY, command=NASTY, foreign=NASTY)
@settings(max_examples=120, deadline=None)
def test_answer_hostile_words_change_nothing_but_code_spans(
    code: ReplyCode, by: str, command: str, foreign: str
) -> None:
    """Who typed what, and why, mentions nobody and adds no markup."""

    def rendered(by: str, command: str, words: str) -> str:
        named = ("detail", "argument", "usage", "label", "base_branch", "needs", "has")
        facts: dict[str, object] = {name: f"x{words}" for name in named if name in REPLIES[code]}
        if code is ReplyCode.WHY:
            halt = {"reason": "frozen", "detail": f"x{words}", "until": None}
            facts |= {"queued_by": f"x{words}", "awaited": [f"x{words}"], "halts": [halt]}
        return comment(code, by=by, command=f"x{command}", **facts)

    text = rendered(by, command, foreign)
    assert skeleton(text) == skeleton(rendered("bob", "queue", "words"))
    assert mentions(text) == set()
    assert text.count("<!--") == text.count(MARKER) == 1
    assert len(text) < GITHUB_LIMIT


@pytest.mark.parametrize(
    ("interrupts", "lost", "said"),
    [
        (12, 240, "It takes the turn of `#12`, whose checks begin anew afterwards: 4 min so far are lost."),
        (12, None, "It takes the turn of `#12`, whose checks begin anew afterwards.\n"),
        (None, None, None),
    ],
)
def test_answer_to_a_priority_says_whose_turn_it_takes_and_what_is_lost(
    interrupts: int | None, lost: int | None, said: str | None
) -> None:
    """Who asks for it sees what it costs; where nobody is interrupted nothing is said of it."""
    text = comment(ReplyCode.PRIORITY, interrupts=interrupts, lost=lost)
    assert said in text if said else "It takes the turn" not in text


def test_answer_to_a_resume_says_what_still_holds() -> None:
    """A pause is lifted, and the freeze under it shows."""
    text = comment(ReplyCode.RESUMED, still=Reason.FROZEN.value, detail="Release week")
    assert "The pause of the queue for `main` is lifted." in text
    assert "It stands still: `main` is frozen: nothing lands on it for now. Details: `Release week`" in text


def test_answer_to_a_misread_argument_says_what_is_wrong_with_it() -> None:
    """The fault ends a sentence; words in it mention nobody."""
    text = comment(ReplyCode.NOT_UNDERSTOOD, argument="until 2026-02-30", fault="has no such day: @org <b>")
    assert "`until 2026-02-30` has no such day&#58; " in text
    assert mentions(text) == set()
    assert "<b>" not in text
