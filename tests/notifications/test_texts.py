"""The texts are complete, fillable and kind."""

import re
import string

import pytest

from notifications import texts
from queue_engine.notice import NoticeKind
from queue_engine.reasons import REASONS, Move, Reason


def test_texts_every_kind_reason_and_move_has_its_words() -> None:
    """Nothing that the engine can say is without a sentence for people."""
    assert set(texts.KINDS) == set(NoticeKind)
    assert set(texts.REASONS) == set(Reason)
    assert set(texts.MOVES) == set(Move)


@pytest.mark.parametrize("reason", Reason)
def test_texts_reason_is_whole_sentences_with_known_placeholders(reason: Reason) -> None:
    """A sentence and a next step end as sentences do; branch and label are filled in, and the next step's fix label."""
    text = texts.REASONS[reason]
    for sentence, known in ((text.sentence, {"base", "label"}), (text.next_step, {"base", "label", "fix"})):
        assert sentence.endswith((".", ".)"))
        assert {name for _, name, _, _ in string.Formatter().parse(sentence) if name} <= known


@pytest.mark.parametrize("reason", [r for r in Reason if REASONS[r].label_off and REASONS[r].move is not Move.NOBODY])
def test_texts_reason_that_takes_the_label_off_says_to_set_it_again(reason: Reason) -> None:
    """The next step says what to type and which label to set, unless the pull request can land no more."""
    step = texts.REASONS[reason].next_step.lower()
    assert "comment `/queue` or set the label {label}" in step or reason in {
        Reason.FORK_DELETED,
        Reason.BASE_CHANGED_AT_MERGE,
    }


@pytest.mark.parametrize("kind", NoticeKind)
def test_texts_headline_has_one_symbol_at_most_and_title_nothing_foreign(kind: NoticeKind) -> None:
    """No walls of symbols; and the check run's title, which GitHub shows unrendered, holds no placeholder."""
    text = texts.KINDS[kind]
    symbols = re.findall(r"[^\x20-\x7e\ufe0f]", text.headline)
    assert len(symbols) <= 1
    assert "{" not in text.title


@pytest.mark.parametrize("reason", Reason)
def test_texts_reason_blames_nobody(reason: Reason) -> None:
    """No sentence scolds."""
    words = f"{texts.REASONS[reason].sentence} {texts.REASONS[reason].next_step}".lower()
    assert not re.search(r"\b(your fault|you broke|you must|invalid|illegal|wrong|bad|error)\b", words)
