"""Strategies: seeds of real input, with random edits."""

from collections.abc import Sequence

from hypothesis import strategies as st

Edit = tuple[float, int, str]
"""Where (a share of the length), how many characters go, and what is put there."""

CONTROL = ("\x00", "\x1b[2J", "\r", "\u202e", "\ufeff", "\u2028", "\ud83d\ude00", "\t", "x" * 5_000, "é")


def edited(seeds: Sequence[str], fragments: Sequence[str], most: int = 8) -> st.SearchStrategy[str]:
    """A seed with at most `most` edits: a piece is removed, and a fragment or random text is put in its place."""
    piece = st.sampled_from([*fragments, *CONTROL]) | st.text(max_size=8)
    edit = st.tuples(st.floats(0, 1), st.integers(0, 20), piece)
    return st.builds(_apply, st.sampled_from(seeds), st.lists(edit, max_size=most))


def _apply(text: str, edits: list[Edit]) -> str:
    for place, removed, put in edits:
        at = round(place * len(text))
        text = text[:at] + put + text[at + removed :]
    return text
