"""Text for consoles: nothing in it moves the cursor, changes colours, hides itself, or begins a line of its own."""

from unicodedata import category

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of characters that control or format, of surrogates, and of separators of lines."""


def printable(text: str, *, keep: str = "\n\t") -> str:
    """`text` with its unseen characters as JSON writes them (`\\u001b`); those in `keep` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in keep or category(each) not in _UNSEEN else _escaped(each) for each in text)


def on_one_line(text: str) -> str:
    """The same without any line or tab of its own."""
    return printable(text, keep="")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
