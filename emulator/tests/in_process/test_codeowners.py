"""CODEOWNERS patterns, against the examples of GitHub's own page."""

import pytest

from github_emulator.domain.rules.codeowners import owners_of, read


@pytest.mark.parametrize(
    ("pattern", "owned", "free"),
    [
        ("*", ["a", "b/c"], []),
        ("*.js", ["a.js", "b/c.js"], ["a.jsx"]),
        ("/build/logs/", ["build/logs/a", "build/logs/b/c"], ["x/build/logs/a", "build/logs"]),
        ("docs/*", ["docs/getting-started.md"], ["docs/build-app/troubleshooting.md"]),
        ("apps/", ["apps/a", "x/apps/b"], ["apps"]),
        ("/docs/", ["docs/a"], ["x/docs/a"]),
        ("/scripts", ["scripts/a", "scripts"], ["x/scripts/a"]),
        ("**/logs", ["build/logs/a", "logs/b", "deeply/nested/logs/c"], ["logs.txt"]),
        ("src/**/x.py", ["src/x.py", "src/a/b/x.py"], ["x.py"]),
        ("file?.txt", ["file1.txt"], ["file.txt", "file12.txt"]),
    ],
)
def test_pattern_owns(pattern: str, owned: list[str], free: list[str]) -> None:
    """A directory is all below it; a slash in the pattern ties it to the root."""
    lines = read(f"{pattern} @ann")
    assert [path for path in owned + free if owners_of(lines, path)] == owned


def test_last_matching_line_counts_and_one_without_owners_frees() -> None:
    """Comments and empty lines say nothing; a line may have several owners."""
    lines = read("# who\n\n* @ann @bob # both\n/docs/ @cleo\n/docs/free.md\n")
    assert [owners_of(lines, path) for path in ("a", "docs/a", "docs/free.md")] == [("ann", "bob"), ("cleo",), ()]
