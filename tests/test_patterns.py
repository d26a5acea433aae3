"""The regular expressions of the product match alike under every Python that it promises."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("bot", "demo", "emulator/github_emulator", "notifications", "queue_engine")
POSSESSIVE = r"(?:[*+?]|\{\d*,?\d*\})\+"
MISMATCHED = re.compile(rf"(?<!\\)\){POSSESSIVE}|\A{POSSESSIVE}|\(\?>")
"""A possessive group, also one that an f-string puts in, and an atomic group."""


def mismatched(source: str) -> Iterator[str]:
    """The texts of a module that have such a group."""
    tree = ast.parse(source)
    yield from (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MISMATCHED.search(node.value)
    )


@pytest.mark.parametrize("folder", PRODUCT)
def test_no_pattern_has_a_possessive_or_atomic_group(folder: str) -> None:
    """CPython before 3.11.5 (Debian 12's) matches them wrongly: gh-106052. A single character may be possessive."""
    modules = list((ROOT / folder).rglob("*.py"))
    assert modules
    found = {path.relative_to(ROOT).as_posix(): list(mismatched(path.read_text(encoding="utf-8"))) for path in modules}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_forms_of_such_groups_are_found() -> None:
    """The single characters and escaped parentheses that resemble them are not."""
    for pattern in ("(?:a|b)*+", "(a|b)++c", "(?:ab)?+", "(ab){2,3}+", "(?>a|b)"):
        assert list(mismatched(f"A = re.compile(r'{pattern}')")) == [pattern]
    assert list(mismatched("A = rf'{GROUP}*+'")) == ["*+"]
    assert list(mismatched(r"A = r'[ab]*+\)++(?:a++|b)+c'")) == []
