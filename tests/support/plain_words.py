"""What is held of every sentence that people read: short, and in the words of the glossary."""

import re
from collections.abc import Iterator

MOST_WORDS = 25

PRIVATE = re.compile(
    r"\b(?:whoever|nobody|anew|turns?|turned away|door|desk|wheel|knock\w*|courier|steer\w*|wish(?:es)?"
    r"|mend(?:s|ed|ing)?|(?<!dead[ -])letters?|standstills?|stand(?:s|ing)? (?:in|still)|stood still|in line"
    r"|hears?|heard|(?<!by )hand(?!-written)|lets? in|goes on|going by|once more|story|stories|told|tells)\b",
    re.IGNORECASE,
)
"""Words of the former private language, and metaphors: the glossary in ARCHITECTURE.md has a term of the field."""

_END = re.compile(r"(?<=[.!?])\)?\s+(?=[A-Z`{*\"])|\n\n")
_NO_WORD = re.compile(r"[^\w{}`/'.-]+")


def faults(text: str) -> Iterator[str]:
    """What is wrong with a text, each fault named."""
    for found in PRIVATE.finditer(text):
        yield f"{found[0]!r} in {text!r}"
    for sentence in _END.split(text):
        words = [word for word in _NO_WORD.split(sentence) if re.search(r"\w", word)]
        if len(words) > MOST_WORDS:
            yield f"{len(words)} words: {sentence!r}"
