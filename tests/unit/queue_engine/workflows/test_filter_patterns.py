"""GitHub's filter patterns, by the examples of its documentation and of act's tests, in words of our own."""

from queue_engine.workflows.filter_patterns import ignored, matches


def test_matches_is_as_github_matches() -> None:
    """A branch or path is taken in, left out, or the pattern cannot be read."""
    for patterns, text, taken in [
        (["main"], "main", True),
        (["main"], "maintenance", False),
        (["feature/*"], "feature/a", True),
        (["feature/*"], "feature/a/b", False),
        (["feature/**"], "feature/a/b", True),
        (["*"], "imq/main/1", False),
        (["**"], "imq/main/1", True),
        (["**/main/*"], "imq/main/1", True),
        (["**/main/*"], "main/1", True),
        (["v[12].[0-9]+"], "v1.10", True),
        (["v[12].[0-9]+"], "v3.1", False),
        (["*.jsx?"], "page.js", True),
        (["*.jsx?"], "page.jsx", True),
        (["*.jsx?"], "page.jsxx", False),
        (["a+b"], "aab", True),
        ([r"a\+b"], "a+b", True),
        ([r"a\*"], "ax", False),
        (["**", "!imq/**"], "imq/main/1", False),
        (["**", "!imq/**", "imq/main/**"], "imq/main/1", True),
        (["!imq/**"], "other", False),
        (["+a"], "a", None),
        (["a**+"], "a", None),
        (["[a"], "[a", None),
        (["*" * 21], "a", None),
        (["x" * 300], "x" * 300, None),
    ]:
        assert matches(text, patterns) is taken, (patterns, text, taken)


def test_ignored_with_an_exclusion_is_unknown() -> None:
    """GitHub allows no `!` in a list to ignore."""
    assert ignored("imq/main/1", ["!imq/**"]) is None
    assert ignored("imq/main/1", ["imq/**"]) is True
