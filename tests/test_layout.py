"""The layout of the code: each module has a test, and packages say what lives there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("bot", "notifications", "queue_engine")


def sources(*folders: str) -> dict[str, str]:
    """The text of each module, by its path."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def covered() -> dict[str, str]:
    """The modules that docstrings of test modules name after "Covers", each with a test that names it."""
    found: dict[str, str] = {}
    for path, text in sources("tests").items():
        words = ast.get_docstring(ast.parse(text)) or "" if Path(path).name.startswith("test_") else ""
        for module in re.findall(r"`([\w/]+\.py)`", words.partition("Covers ")[2]):
            found[module] = path
    return found


def homes(module: str) -> list[str]:
    """Where the test of a module stands by its name; the store's tests run on both databases."""
    path = Path(module)
    found = [Path("tests/unit") / path.parent]
    if path.is_relative_to("queue_engine/store"):
        found.append("tests/store" / path.parent.relative_to("queue_engine/store"))
    return [(folder / f"test_{path.name}").as_posix() for folder in found]


def test_modules_have_a_test_of_their_name_or_are_named_in_one() -> None:
    """A contributor who changes a module finds its test without a search. A revision is tested with all others."""
    named = covered()
    modules = [path for path in sources(*PRODUCT) if Path(path).stem != "__init__" and "/migrations/" not in path]
    assert len(modules) > 200
    assert [
        each for each in modules if each not in named and not any((ROOT / home).is_file() for home in homes(each))
    ] == []


def test_modules_named_in_a_test_exist() -> None:
    """A docstring does not name a module that was moved or removed."""
    assert {module: test for module, test in covered().items() if not (ROOT / module).is_file()} == {}


def test_packages_say_what_may_not_live_there() -> None:
    """A newcomer learns from the docstring of a package what belongs elsewhere."""
    packages = {path: text for path, text in sources(*PRODUCT).items() if Path(path).stem == "__init__"}
    silent = [path for path, text in packages.items() if "may not live" not in text.replace("\n", " ").lower()]
    assert silent == []
