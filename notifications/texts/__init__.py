"""Every sentence that people read on GitHub, in one place; tests hold them complete for all that the engine can say.

The first sentence says what happened, the second what to do, in the imperative with the exact command. Text in braces
is escaped before it is filled in; `{base}` is the base branch, `{label}` the trigger label, `{fix}` the label of a
change that fixes a red base.

Lives here: words, by what they are for. May not live here: what chooses among them or fills them in.
"""

from notifications.texts.kinds import KINDS, MISMATCH, SUPERSEDED_SUMMARY, SUPERSEDED_TITLE, KindText
from notifications.texts.reasons import ASK, ASK_SOMEBODY, MOVES, NO_FIX_LABEL, REASONS, YOUR_MOVE
from notifications.texts.story import STORY

__all__ = [
    "ASK",
    "ASK_SOMEBODY",
    "KINDS",
    "MISMATCH",
    "MOVES",
    "NO_FIX_LABEL",
    "REASONS",
    "STORY",
    "SUPERSEDED_SUMMARY",
    "SUPERSEDED_TITLE",
    "YOUR_MOVE",
    "KindText",
]
