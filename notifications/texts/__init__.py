"""Every sentence that people read, in one place; tests hold them complete for all that the engine can say.

The voice: short, plain, kind. It tells what happened, never who is to blame, and ends in one next step. What stands in
braces is escaped before it is filled in; `{base}` is the base branch, `{label}` the trigger label, `{fix}`
the label that marks what mends a red base.

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
