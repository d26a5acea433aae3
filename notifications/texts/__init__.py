"""Every sentence that people read on GitHub, in one place; tests hold them complete for all that the engine can say.

The first sentence says what happened, the second what to do, in the imperative with the exact command. Text in braces
is escaped before it is filled in; `{base}` is the base branch, `{label}` the trigger label, `{fix}` the label of a
change that fixes a red base.

Lives here: texts. May not live here: code that chooses among them or fills them in.
"""

from notifications.texts.headlines import (
    ASK,
    ASK_SOMEBODY,
    KINDS,
    MISMATCH,
    NEXT_STEP_FOR,
    NEXT_STEP_FOR_PEOPLE,
    NEXT_STEP_FOR_PEOPLE_OR_MAINTAINER,
    NO_FIX_LABEL,
    SUPERSEDED_SUMMARY,
    SUPERSEDED_TITLE,
    KindText,
)
from notifications.texts.history import HISTORY
from notifications.texts.reason_texts import AFTER_UPDATE, BOT, CAUSED, REASONS, WHO

__all__ = [
    "AFTER_UPDATE",
    "ASK",
    "ASK_SOMEBODY",
    "BOT",
    "CAUSED",
    "KINDS",
    "MISMATCH",
    "NEXT_STEP_FOR",
    "NO_FIX_LABEL",
    "REASONS",
    "WHO",
    "HISTORY",
    "SUPERSEDED_SUMMARY",
    "SUPERSEDED_TITLE",
    "NEXT_STEP_FOR_PEOPLE",
    "NEXT_STEP_FOR_PEOPLE_OR_MAINTAINER",
    "KindText",
]
