"""Names are made of the words of the glossary in ARCHITECTURE.md, or of those in `plain_words.txt`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate import ROOT

MOST_WORDS = 180
"""Distinct words in the names of `queue_engine`: it had 306 before each concept got one word."""

PLAIN = set((ROOT / "tests/plain_words.txt").read_text(encoding="utf-8").split())
"""Technical words that mean here what they mean everywhere."""


def singular(word: str) -> str:
    """Fold a plural into its singular."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if re.search(r"(?:ss|x|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if re.search(r"[^sui]s$", word) else word


def words_of(name: str) -> set[str]:
    """Split a module's or a class's name; GitHub's own name is one word."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name.replace("GitHub", "Github"))
    return {singular(part.lower()) for part in parts}


def names(package: str) -> Iterator[str]:
    """Public class and module names of a package; migrations are named after what they change."""
    for path in sorted((ROOT / package).rglob("*.py")):
        if "versions" in path.parts:
            continue
        yield path.parent.name if path.stem == "__init__" else path.stem
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name


def glossary(page: Path = ROOT / "ARCHITECTURE.md") -> set[str]:
    """Read the words of the terms from the glossary's first column."""
    table = page.read_text(encoding="utf-8").partition("\n## Glossary\n")[2].partition("\n## ")[0]
    terms = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[2:]
    return {singular(word) for term in terms for word in re.findall(r"[a-z]+", term.lower())}


def test_names_of_the_engine_are_made_of_glossary_words() -> None:
    """A new name takes the glossary's word, or its concept gets a row in the glossary."""
    allowed = glossary() | PLAIN
    strange = {name: words_of(name) - allowed for name in names("queue_engine")}
    assert {name: words for name, words in strange.items() if words} == {}


def test_engine_needs_few_words() -> None:
    """One concept has one word: a stranger learns the names of the engine in an hour."""
    assert len({word for name in names("queue_engine") for word in words_of(name)}) < MOST_WORDS


def test_plain_words_are_used_and_are_not_in_the_glossary() -> None:
    """The list beside this test holds no word that a renaming left behind, and none twice."""
    used = {word for name in names("queue_engine") for word in words_of(name)}
    assert used >= PLAIN
    assert not PLAIN & glossary()
