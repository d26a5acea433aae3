"""What workflow files say: filters of branches and paths, and messages that skip workflows."""

import pytest

from github_emulator import Trigger
from github_emulator.ci.workflows import matches, skips_ci


@pytest.mark.parametrize(
    ("text", "patterns", "taken"),
    [
        ("main", ["main"], True),
        ("feature/a", ["*"], False),
        ("feature/a/b", ["feature/**"], True),
        ("docs/a/b.md", ["docs/*"], False),
        ("README.md", ["**/README.md"], True),
        ("js/README.md", ["**/README.md"], True),
        ("v2", ["v[12]"], True),
        ("v3", ["v[12]"], False),
        ("page.jsx", ["*.jsx?"], True),
        ("releases/1-alpha", ["releases/**", "!releases/**-alpha"], False),
        ("main", ["!main"], False),
    ],
)
def test_filter_pattern_of_a_workflow(text: str, patterns: list[str], taken: bool) -> None:
    """The examples of GitHub's "Filter pattern cheat sheet"."""
    assert matches(text, patterns) is taken


@pytest.mark.parametrize(
    ("trigger", "files", "admitted"),
    [
        (Trigger("push", paths=["src/**"]), ["docs/a", "src/a"], True),
        (Trigger("push", paths=["src/**"]), ["docs/a"], False),
        (Trigger("push", paths_ignore=["docs/**"]), ["docs/a", "src/a"], True),
        (Trigger("push", paths_ignore=["docs/**"]), ["docs/a", "docs/b"], False),
        (Trigger("push", branches_ignore=["main"]), ["a"], False),
        (Trigger("push", paths=["src/**"]), ["docs/a"] * 300 + ["src/a"], False),
        (Trigger("pull_request"), ["a"], False),
    ],
)
def test_trigger_admits_by_branch_and_changed_paths(trigger: Trigger, files: list[str], admitted: bool) -> None:
    """One changed file suffices for `paths`; all of them must be ignored for `paths-ignore`; 300 are looked at."""
    assert trigger.admits("push", "", "main", lambda: files) is admitted


@pytest.mark.parametrize("word", ["[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]"])
def test_message_with_a_command_skips_workflows(word: str) -> None:
    """Each of GitHub's five, wherever it stands."""
    assert skips_ci(f"Typo\n\n{word} please")


@pytest.mark.parametrize(
    ("message", "skipped"),
    [
        ("Typo\n\n\nskip-checks: true", True),
        ("Typo\n\n\nSigned-off-by: Ann\nskip-checks:true\n", True),
        ("Typo\n\n\nskip-checks: true\n\nand more", False),
        ("skip-checks: true", False),
        ("skip ci", False),
    ],
)
def test_message_with_a_trailer_skips_workflows(message: str, skipped: bool) -> None:
    """`skip-checks` counts as the last trailer only."""
    assert skips_ci(message) is skipped
