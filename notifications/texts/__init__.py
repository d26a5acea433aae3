"""Every sentence that people read on GitHub, in one place; tests hold them complete for all that the engine can say.

The first sentence says what happened, the second what to do, in the imperative with the exact command. Text in braces
is escaped before it is filled in; `{base}` is the base branch, `{label}` the trigger label, `{fix}` the label of a
change that fixes a red base.

Lives here: texts. May not live here: code that chooses among them or fills them in.
"""
