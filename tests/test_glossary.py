"""Names are made of the words of the glossary in CONTRIBUTING.md, or of plain technical ones.

`plain_words.txt` has those of the engine, `plain_words_edges.txt` those of HTTP, GitHub's API and the command line.
`plain_words_emulator.txt` has GitHub's own nouns, and those of a simulation, which only the emulator needs.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from docs.generate import ROOT
from tests.support.plain_words import PRIVATE, docstrings, may_have_private, private_names

MOST_WORDS = 229
"""Distinct words in the names of `queue_engine`: it had 306 before each concept got one word, 187 before trains, and
196 before stacks, teams and candidates, 227 before culprits and reverts."""

EDGES = ("bot", "notifications")

EMULATOR = "emulator/github_emulator"

DESCRIBED = (
    *(*EDGES, "queue_engine", "benchmarks", "docs", EMULATOR, "emulator/tests", "demo"),
    *(f"tests/{each}" for each in ("acceptance", "campaign", "fuzz", "guard", "process", "store", "support", "unit")),
)
"""Trees in which no identifier and no docstring has a word of the private language."""


def listed(name: str) -> set[str]:
    """The words in one of the lists beside this test."""
    return set((ROOT / "tests" / name).read_text(encoding="utf-8").split())


PLAIN = listed("plain_words.txt")
"""Technical words that mean in the engine what they mean everywhere."""
PLAIN_AT_EDGES = listed("plain_words_edges.txt")
"""Further ones of the packages around the engine."""
PLAIN_IN_EMULATOR = listed("plain_words_emulator.txt")
"""Further ones of the simulated GitHub."""


def singular(word: str) -> str:
    """Fold a plural into its singular."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if re.search(r"(?:ss|tus|x|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if re.search(r"[^sui]s$", word) else word


def words_of(name: str) -> set[str]:
    """Split a module's or a class's name; GitHub's own name is one word."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+", name.replace("GitHub", "Github"))
    return {singular(part.lower()) for part in parts}


@cache
def names(package: str) -> frozenset[str]:
    """Public class and module names of a package; migrations are named after what they change, and by Alembic."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        if "versions" in path.parts or path.match("migrations/env.py"):
            continue
        found.add(path.parent.name if path.stem == "__init__" else path.stem)
        found |= set(re.findall(r"^ *class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE))
    return frozenset(found)


def glossary(page: Path = ROOT / "CONTRIBUTING.md") -> set[str]:
    """Read the words of the terms from the glossary's first column."""
    table = page.read_text(encoding="utf-8").partition("\n## Glossary\n")[2].partition("\n## ")[0]
    terms = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[2:]
    return {singular(word) for term in terms for word in re.findall(r"[a-z]+", term.lower())}


def words_in(*packages: str) -> set[str]:
    """The distinct words in the names of these packages."""
    return {word for package in packages for name in names(package) for word in words_of(name)}


@pytest.mark.parametrize(
    ("package", "plain"),
    [
        ("queue_engine", PLAIN),
        *((package, PLAIN | PLAIN_AT_EDGES) for package in (*EDGES, "demo")),
        (EMULATOR, PLAIN | PLAIN_AT_EDGES | PLAIN_IN_EMULATOR),
    ],
)
def test_names_of_a_package_are_made_of_glossary_words(package: str, plain: set[str]) -> None:
    """A new name takes the glossary's word, or its concept gets a row in the glossary."""
    allowed = glossary() | plain
    strange = {name: words_of(name) - allowed for name in names(package)}
    assert {name: words for name, words in strange.items() if words} == {}


def test_engine_needs_few_words() -> None:
    """One concept has one word: a stranger learns the names of the engine in an hour."""
    assert len(words_in("queue_engine")) < MOST_WORDS


def test_plain_words_are_used_and_are_not_in_the_glossary() -> None:
    """The lists beside this test hold no word that a renaming left behind, and none twice."""
    assert words_in("queue_engine") >= PLAIN
    assert words_in(*EDGES, "demo") >= PLAIN_AT_EDGES
    assert words_in(EMULATOR) >= PLAIN_IN_EMULATOR
    assert not glossary() & (PLAIN | PLAIN_AT_EDGES | PLAIN_IN_EMULATOR)
    assert not PLAIN & PLAIN_AT_EDGES
    assert not PLAIN_IN_EMULATOR & (PLAIN | PLAIN_AT_EDGES)


@pytest.mark.thorough
def test_identifiers_and_docstrings_have_no_private_word() -> None:
    """A stranger reads functions, parameters and docstrings without a dictionary."""
    for package in DESCRIBED:
        found: dict[str, list[str]] = {}
        for path in sorted((ROOT / package).rglob("*.py")):
            if not may_have_private(source := path.read_text(encoding="utf-8")):
                continue
            nodes = list(ast.walk(ast.parse(source)))
            # Migrations are frozen: only their docstrings may still be corrected.
            names_found = () if "versions" in path.parts else private_names(nodes)
            faults = [*names_found, *(text for text in docstrings(nodes) if PRIVATE.search(text))]
            if faults:
                found[str(path.relative_to(ROOT))] = faults
        assert found == {}, package
