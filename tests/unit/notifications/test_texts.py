"""The texts are complete, fillable and kind."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifications.render import replies, train_text
from notifications.texts import headlines, history, reason_texts, waiting
from queue_engine.commands.commands import CATALOGUE
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from tests.support.plain_words import faults


def test_texts_every_kind_reason_and_move_has_its_words() -> None:
    """Nothing that the engine can say is without a sentence for people."""
    assert set(headlines.KINDS) == set(NoticeKind)
    assert set(reason_texts.REASONS) == set(Reason)
    assert set(headlines.NEXT_STEP_FOR) == set(ReasonActor)


def test_texts_reason_is_whole_sentences_with_known_placeholders() -> None:
    """A sentence and a next step end as sentences do; branch and label are filled in, and the next step's fix label."""
    for reason in Reason:
        text = reason_texts.REASONS[reason]
        for sentence, known in ((text.sentence, {"base", "label"}), (text.next_step, {"base", "label", "fix"})):
            assert sentence.endswith((".", ".)")), reason
            assert {name for _, name, _, _ in string.Formatter().parse(sentence) if name} <= known, reason


def test_texts_reason_that_takes_the_label_off_says_to_set_it_again() -> None:
    """The next step says what to type and which label to set, unless the pull request can land no more."""
    for reason in [r for r in Reason if REASONS[r].label_off and REASONS[r].next_actor is not ReasonActor.NONE]:
        step = reason_texts.REASONS[reason].next_step.lower()
        assert "comment `/queue` or add the label {label}" in step or reason in {
            Reason.FORK_DELETED,
            Reason.BASE_CHANGED_AT_MERGE,
        }, reason


def test_texts_headline_has_one_symbol_at_most_and_title_nothing_foreign() -> None:
    """No walls of symbols; and the check run's title, which GitHub shows unrendered, holds no placeholder."""
    for kind in NoticeKind:
        text = headlines.KINDS[kind]
        symbols = re.findall(r"[^\x20-\x7e\ufe0f]", text.headline)
        assert len(symbols) <= 1, kind
        assert "{" not in text.title, kind


def test_texts_reason_blames_no_person() -> None:
    """No sentence scolds."""
    for reason in Reason:
        words = f"{reason_texts.REASONS[reason].sentence} {reason_texts.REASONS[reason].next_step}".lower()
        assert not re.search(r"\b(your fault|you broke|you must|invalid|illegal|wrong|bad|error)\b", words), reason


def _texts() -> Iterator[str]:
    """Every string that the modules of texts hold."""
    for module in (history, headlines, reason_texts, replies, train_text, waiting):
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize("kind", train_text.KINDS)
def test_texts_titles_of_trains_have_nothing_foreign(kind: NoticeKind) -> None:
    """The titles of a train's check run hold no placeholder either."""
    assert "{" not in train_text.KINDS[kind].title


def test_texts_are_short_sentences_in_plain_words() -> None:
    """No sentence is longer than 25 words, and none speaks in metaphors: the texts, and what help says of commands."""
    of_reasons = [f"{text.sentence} {text.next_step}" for text in reason_texts.REASONS.values()]
    of_commands = [text for command in CATALOGUE.values() for text in (command.help, command.right.value)]
    assert [fault for text in (*_texts(), *of_reasons, *of_commands) for fault in faults(text)] == []
