"""Escape text for consoles: control, formatting and invisible characters."""

from unicodedata import category

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of characters that control or format, of surrogates, and of separators of lines."""


def printable(text: str, *, keep: str = "\n\t") -> str:
    """Escape invisible characters in `text` as in JSON (`\\u001b`), except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each in keep or category(each) not in _INVISIBLE else _escaped(each) for each in text)


def on_one_line(text: str) -> str:
    """Escape line breaks and tabs as well."""
    return printable(text, keep="")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
