"""The repository of the demo: a small Python package with a history, and its CI."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

NAME = "tea-house/teapot"
CI_TEST = "ci/test"
CI_LINT = "ci/lint"
_LONGEST_LINE = 100

README = """# Teapot

Short and stout. `teapot.brew` makes tea, `teapot.menu` says which.
"""
KETTLE = '''"""The kettle."""

BOILING = 100


def heat(litres: float) -> int:
    """The temperature of that much water, once it is hot."""
    return BOILING if litres > 0 else 20
'''
BREW = '''"""Brewing."""

from teapot.kettle import heat


def steep(leaves: str, minutes: int, litres: float = 0.5) -> str:
    """A pot of tea."""
    return f"{leaves}, {minutes} minutes at {heat(litres)} degrees"
'''
MENU = '''"""What is on offer."""

TEAS = ["assam", "darjeeling", "sencha"]


def offers(tea: str) -> bool:
    """Whether a tea is on the menu."""
    return tea in TEAS
'''
SERVE = '''"""Serving."""

from teapot.brew import steep
from teapot.menu import offers


def serve(tea: str) -> str:
    """A pot of a tea that is on the menu."""
    if not offers(tea):
        raise LookupError(tea)
    return steep(tea, 4)
'''
TEST_KETTLE = """from teapot.kettle import BOILING, heat


def test_heat_some_water_boils() -> None:
    assert heat(0.5) == BOILING
"""
TEST_BREW = """from teapot.brew import steep


def test_steep_assam_names_the_leaves() -> None:
    assert steep("assam", 4).startswith("assam")
"""
PYPROJECT = """[project]
name = "teapot"
version = "0.3.0"
requires-python = ">=3.11"
"""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the history: its author (the n-th person), its message, and its files."""

    person: int
    message: str
    files: Mapping[str, str]


START: Mapping[str, str] = {"README.md": "# Teapot\n"}

HISTORY = (
    Commit(0, "Say what this is", {"README.md": "# Teapot\n\nShort and stout.\n"}),
    Commit(1, "Make it a package", {"pyproject.toml": PYPROJECT.replace("0.3.0", "0.1.0"), "teapot/__init__.py": ""}),
    Commit(1, "Heat water", {"teapot/kettle.py": KETTLE}),
    Commit(2, "Brew tea", {"teapot/brew.py": BREW.replace(", litres: float = 0.5", "").replace("(litres)", "(0.5)")}),
    Commit(2, "Test that water boils", {"tests/test_kettle.py": TEST_KETTLE}),
    Commit(0, "Release 0.2", {"pyproject.toml": PYPROJECT.replace("0.3.0", "0.2.0")}),
    Commit(3, "Brew more than half a litre", {"teapot/brew.py": BREW}),
    Commit(3, "Test that tea has leaves", {"tests/test_brew.py": TEST_BREW}),
    Commit(1, "Put three teas on the menu", {"teapot/menu.py": MENU}),
    Commit(2, "Serve what is on the menu", {"teapot/serve.py": SERVE}),
    Commit(0, "Release 0.3", {"pyproject.toml": PYPROJECT, "README.md": README}),
)
"""Twelve commits with the first one, which `START` makes."""


def passes_tests(files: Mapping[str, str]) -> bool:
    """Whether every module can be parsed, and every imported name exists."""
    try:
        modules = {_module(path): ast.parse(text) for path, text in files.items() if path.endswith(".py")}
    except SyntaxError:
        return False
    defined = {name: _defined(tree) for name, tree in modules.items()}
    return all(
        alias.name in defined.get(node.module or "", ())
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("teapot")
        for alias in node.names
    )


def passes_lint(files: Mapping[str, str]) -> bool:
    """Whether no line of code is too long, and none holds a tab."""
    lines = (line for path, text in files.items() if path.endswith(".py") for line in text.splitlines())
    return all(len(line) <= _LONGEST_LINE and "\t" not in line for line in lines)


CHECKS = {CI_TEST: passes_tests, CI_LINT: passes_lint}


def is_green(files: Mapping[str, str]) -> bool:
    """Whether every required check passes on this tree."""
    return all(judge(files) for judge in CHECKS.values())


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
