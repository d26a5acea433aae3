"""The demo's changes are what they are said to be, as the CI judges trees."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from imq_demo import project
from imq_demo.changes import CHANGES, Change

BY_KEY = {change.key: change for change in CHANGES}


def tip() -> dict[str, str]:
    """The base before the scenario."""
    files = dict(project.START)
    for commit in project.HISTORY:
        files |= commit.files
    return files


def applied(*changes: Change) -> Mapping[str, str]:
    """The base with these changes, which touch different files."""
    files: dict[str, str | None] = {**tip()}
    for change in changes:
        files |= {**change.files, **change.push}
    return {path: text for path, text in files.items() if text is not None}


def test_history_every_commit_is_green() -> None:
    """The repository was green all along, so a red commit can only be the queue's."""
    files = dict(project.START)
    for commit in project.HISTORY:
        files |= commit.files
        assert project.is_green(files), commit.message


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.key)
def test_change_alone_is_as_announced(change: Change) -> None:
    """By itself every change is green, except the one that is red until its fix; and each changes something."""
    assert project.is_green(applied(change)) is (change.key != "constant")
    assert project.is_green(applied(replace(change, push={**change.push, **change.fix})))
    assert any(tip().get(path) != text for path, text in change.files.items())


def test_rename_and_new_caller_together_are_red() -> None:
    """Two changes that merge without a conflict, each green, are red together."""
    infuse, litre = BY_KEY["infuse"], BY_KEY["litre"]
    assert not infuse.files.keys() & litre.files.keys()
    assert not project.passes_tests(applied(infuse, litre))


def test_teas_overlap_by_a_line() -> None:
    """Two changes write the same line differently: a conflict for the second to land."""
    oolong, rooibos = BY_KEY["oolong"].files["teapot/menu.py"], BY_KEY["rooibos"].files["teapot/menu.py"]
    before = tip()["teapot/menu.py"].splitlines()
    assert oolong is not None
    assert rooibos is not None
    changed = [
        {place for place, line in enumerate(text.splitlines()) if line != before[place]} for text in (oolong, rooibos)
    ]
    assert changed[0] == changed[1]
    assert oolong != rooibos


def test_lint_long_line_or_tab_is_red() -> None:
    """The second check judges something of its own."""
    assert not project.passes_lint({"a.py": "#" * 101})
    assert not project.passes_lint({"a.py": "if True:\n\tpass\n"})
    assert project.passes_lint({"README.md": "#" * 101})


def test_tests_module_that_cannot_be_read_is_red() -> None:
    """A tree with a syntax error does not pass."""
    assert not project.passes_tests({"teapot/brew.py": "def steep(:\n"})
