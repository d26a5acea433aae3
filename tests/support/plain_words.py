"""What is held of every sentence that people read: short, and in the words of the glossary."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

MOST_WORDS = 25

PRIVATE = re.compile(
    r"\b(?:whoever|nobody|anew|turns?|turned away|door|desk|wheel|knock\w*|courier|steer\w*|wish(?:es)?"
    r"|mend(?:s|ed|ing)?|(?<!dead[ -])letters?|standstills?|stand(?:s|ing)? (?:in|still)|stood still|in line"
    r"|hears?|heard|(?<!by )hand(?!-written)|lets? in|goes on|going by|once more|story|stories|told|tells)\b",
    re.IGNORECASE,
)
"""Words of the former private language, and metaphors: the glossary in CONTRIBUTING.md has a term of the field."""

PRIVATE_NAMES = re.compile(
    r"anew|anybody|bell|beat|courier|deed|desk|door|ear|errand|hears?|heard|hint|knock|(?:un)?labell(?:ed|ings?)|news"
    r"|looks?|looked|nobody|said|seen|sight|stay|steer|story|stories|tells?|telling|told|turns?|twins?|undone|unseen"
    r"|voice|vouch(?:ed)?|wheel|whoever|wish(?:es)?"
)
"""Words of that language of which no identifier is made: GitHub labels are `labeled`, loops have a `wakeup`."""

_END = re.compile(r"(?<=[.!?])\)?\s+(?=[A-Z`{*\"])|\n\n")
_NAMES = re.compile(r"[^\W\d]\w*")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
_NO_WORD = re.compile(r"[^\w{}`/'.-]+")


def faults(text: str) -> Iterator[str]:
    """What is wrong with a text, each fault named."""
    for found in PRIVATE.finditer(text):
        yield f"{found[0]!r} in {text!r}"
    for sentence in _END.split(text):
        words = [word for word in _NO_WORD.split(sentence) if re.search(r"\w", word)]
        if len(words) > MOST_WORDS:
            yield f"{len(words)} words: {sentence!r}"


def may_have_private(source: str) -> bool:
    """Whether a module may have a word of the private language at all: to parse each takes four times as long."""
    return any(map(_is_private, set(_NAMES.findall(source)))) or PRIVATE.search(source) is not None


def private_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The functions, classes, parameters, variables and attributes of a module with a word of the private language."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if _is_private(name):
            yield name


@cache
def _is_private(name: str) -> bool:
    return any(PRIVATE_NAMES.fullmatch(word.lower()) for word in _WORDS.findall(name))


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The docstrings of a module, its classes, functions and variables, each on one line."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield " ".join(node.value.value.split())
