"""Branches by wildcards, titles by RE2, both in linear time."""

from dataclasses import replace

import pytest

from queue_engine.config.file import policy_for
from queue_engine.config.model import BlockRules, Policy
from queue_engine.config.parse import read
from queue_engine.config.patterns import (
    blocked_title,
    branch_matches,
    branch_pattern,
    is_specific,
    path_pattern,
    title_pattern,
)


def test_branch_matches_as_githubs_filters_do() -> None:
    """A pattern that people know from workflows and rulesets means the same here; all else stands for itself."""
    for pattern, matching, others in [
        ("main", ["main"], ["Main", "main2", "x/main"]),
        ("release/*", ["release/1", "release/"], ["release", "release/1/2", "xrelease/1"]),
        ("release/**", ["release/1", "release/1/2"], ["release", "releases/1"]),
        ("**", ["main", "a/b/c", ""], []),
        ("*", ["main", "v1.2"], ["a/b"]),
        ("**/next", ["next", "a/next", "a/b/next"], ["anext", "next/a"]),
        ("v?.x", ["v1.x"], ["v1yx", "v/.x", "v.x", "v10.x"]),
        ("v[0-9]", ["v1"], ["vx", "v"]),
        ("v[!0-9]", ["vx"], ["v1", "v/"]),
        ("a.b+c(d)|e$", ["a.b+c(d)|e$"], ["axb+c(d)|e$", "a.bbc(d)|e$"]),
        ("a[b", ["a[b"], ["ab"]),
        ("größe-*", ["größe-ä"], ["grosse-a"]),
        ("a\nb*", ["a\nbc"], ["ab"]),
        (r"[\]x]", [r"\x]"], ["]", "x"]),
    ]:
        assert [name for name in [*matching, *others] if branch_matches(pattern, name)] == matching, (
            pattern,
            matching,
            others,
        )


def test_branch_pattern_that_excludes_is_explained() -> None:
    """`!` is what GitHub's filters know and this file does in another way: that is said, not ignored."""
    with pytest.raises(ValueError, match="add an earlier rule"):
        branch_pattern("!main")


@pytest.mark.parametrize("pattern", ["[z-a]", "v[9-0]"])
def test_branch_pattern_that_cannot_be_followed_is_refused(pattern: str) -> None:
    """A range that runs backwards is found when the file is read, not when a branch is asked for."""
    with pytest.raises(ValueError, match="is not a pattern"):
        branch_pattern(pattern)


def test_blocked_title_names_the_first_pattern_found() -> None:
    """The rejection names the pattern; a title is searched, and case counts unless the pattern says otherwise."""
    policy = replace(Policy(), blocking=BlockRules(titles=("^WIP", r"(?i)\bdo not merge\b")))
    assert blocked_title(policy.blocking.titles, "WIP: Add a door") == "^WIP"
    assert blocked_title(policy.blocking.titles, "Add a door (DO NOT merge)") == r"(?i)\bdo not merge\b"
    assert blocked_title(policy.blocking.titles, "Add a wip door") is None


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "[", "(a{1000}){1000}", "x{1001}", "*"])
def test_title_pattern_that_re2_refuses_is_refused_with_its_words(pattern: str) -> None:
    """What could take exponential time, or is no expression at all, is found when the file is read."""
    with pytest.raises(ValueError, match=r"is not an RE2 expression: .+"):
        title_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*b", "(a*)*(a*)*(a*)*$b", ".*.*.*.*.*=.*", "(x+x+)+y"])
def test_blocked_title_hostile_pattern_and_title_cost_little(pattern: str) -> None:
    """P5: patterns that hang a backtracking matcher for years take no time, far beyond GitHub's longest title."""
    policy = replace(Policy(), blocking=BlockRules(titles=(title_pattern(pattern),)))
    for title in ("a" * 50_000 + "!", "x" * 50_000, "=" * 50_000):
        blocked_title(policy.blocking.titles, title)


@pytest.mark.parametrize("pattern", ["*" * 200 + "b", "*a" * 100, "**/" * 90 + "b"])
def test_branch_matches_hostile_pattern_costs_little(pattern: str) -> None:
    """P5: wildcards in a row are no way to hang the queue either."""
    branch_matches(pattern, "a" * 5_000)


@pytest.mark.parametrize("pattern", ["**", "**/*", "**/**", "***"])
def test_path_pattern_for_every_file_is_refused(pattern: str) -> None:
    """P1: with it, nothing would be tested on the newest base."""
    with pytest.raises(ValueError, match="matches every file"):
        path_pattern(pattern)


@pytest.mark.parametrize(("pattern", "words"), [("!docs/**", "only the files"), ("/docs/**", "top of the repository")])
def test_path_pattern_of_another_syntax_is_explained(pattern: str, words: str) -> None:
    """It would match nothing, without a word."""
    with pytest.raises(ValueError, match=words):
        path_pattern(pattern)


@pytest.mark.parametrize("pattern", ["*", "*.md", "docs/**", "**/package.json", "*/**"])
def test_path_pattern_for_some_files_is_taken(pattern: str) -> None:
    """Any that leaves out some files."""
    assert path_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "specific"),
    [("develop", True), ("release/*", True), ("**", False), ("*", False), ("*/*", False), ("**/[a-z]?", False)],
)
def test_pattern_of_wildcards_alone_names_no_branch(pattern: str, specific: bool) -> None:
    """A rule for all branches does not say that a topic branch is one to land on."""
    assert is_specific(pattern) is specific


def test_rule_of_a_branch_names_it_unless_the_rule_is_for_all_branches() -> None:
    """Then pull requests are meant to land on it, although it may be the head of another one."""
    config = read("branches: [{match: develop}, {match: 'release/*'}, {match: '**'}]\n")
    named = {branch: policy_for(config, Policy(), branch).is_named for branch in ("develop", "topic", "release/1")}
    assert named == {"develop": True, "topic": False, "release/1": True}
