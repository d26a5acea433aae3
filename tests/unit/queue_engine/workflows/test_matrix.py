"""Combinations of a matrix, by the rules of GitHub's documentation."""

from queue_engine.workflows.matrix import combinations


def test_combinations_with_include_are_as_githubs_documentation_has_them() -> None:
    """An `include` extends what it fits, without overwriting an axis, and else is one of its own."""
    found = combinations(
        {
            "fruit": ["apple", "pear"],
            "animal": ["cat", "dog"],
            "include": [
                {"color": "green"},
                {"color": "pink", "animal": "cat"},
                {"fruit": "apple", "shape": "circle"},
                {"fruit": "banana"},
                {"fruit": "banana", "animal": "cat"},
            ],
        }
    )
    assert found == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_combinations_of_an_include_alone_are_its_entries() -> None:
    """Without axes each entry is a job."""
    assert combinations({"include": [{"a": 1}, {"a": 2}]}) == [{"a": 1}, {"a": 2}]


def test_combinations_leave_excluded_ones_out() -> None:
    """An exclusion may name a part of a combination."""
    assert combinations({"a": [1, 2], "b": [1, 2], "exclude": [{"a": 1}]}) == [{"a": 2, "b": 1}, {"a": 2, "b": 2}]


def test_combinations_that_an_expression_computes_are_unknown() -> None:
    """They are unknown before the run; a matrix beyond GitHub's limit makes no work either."""
    assert combinations("${{ fromJSON(needs.a.outputs.b) }}") is None
    assert combinations({"a": "${{ fromJSON(needs.a.outputs.b) }}"}) is None
    assert combinations({name: list(range(100)) for name in "abcd"}) is None
    assert combinations({"a": [1], "exclude": [{"a": 1}]}) is None
