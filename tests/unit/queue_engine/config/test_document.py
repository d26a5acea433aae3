"""YAML as people and enemies write it: values, lines, and a sentence for whatever cannot be read."""

from contextlib import suppress

import pytest

from queue_engine.config.document import ConfigError, parse


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse(text)
    (found,) = error.value.problems
    return str(found)


def test_parse_scalar_has_the_type_that_its_author_wrote() -> None:
    """No value becomes a truth or minutes against its author's intent."""
    for written, meant in [
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("12:30", "12:30"),
        ("2026-12-24", "2026-12-24"),
        ("012", 12),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("-3", -3),
        ("2.5", 2.5),
        (".inf", ".inf"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ('"true"', "true"),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("20m", "20m"),
    ]:
        assert parse(f"key: {written}\n").value == {"key": meant}, (written, meant)


def test_parse_declared_as_older_yaml_means_the_same() -> None:
    """A directive at the top brings YAML 1.1's surprises not back."""
    assert parse("%YAML 1.1\n---\non: 12:30\n").value == {"on": "12:30"}


def test_parse_knows_the_line_of_every_place() -> None:
    """A fault in a value is reported with the line of that value, or of what holds it."""
    document = parse("# rules\na:\n  - x\n  - b: 1\n\n    c: [1,\n      2]\n")
    assert [document.line(place) for place in [("a",), ("a", 1, "b"), ("a", 1, "c", 1), ("a", 1, "d"), ("z",)]] == [
        2,
        4,
        7,
        4,
        2,
    ]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "\ufeff"])
def test_parse_nothing_is_nothing(text: str) -> None:
    """An empty file is no mistake."""
    assert parse(text).value is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\tb: 1\n", "line 2: A tab indents this line: use spaces."),
        ("a: b: c\n", "line 1: A second `: ` on this line: quote a value that has a colon."),
        ("a: @b\n", 'line 1: A value cannot begin with "@": quote it.'),
        ("a: 1\n---\nb: 2\n", "line 2: A second document begins here: remove the `---`."),
        ("a: {{ b }}\n", "line 1: A list or a section cannot be a key: quote a text that has braces."),
        ("a: *b\n", 'line 1: The alias "b" has no anchor before it.'),
        ("a: &a [*a]\n", 'line 1: The alias "a" has no anchor before it.'),
        (
            "x: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\ny: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
            "z: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nw: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n",
            "line 4: The file has more than 10000 values, counting aliases.",
        ),
        ("a: 1\nb: \x07\n", "line 2: The file holds a character that YAML does not allow (0x07)."),
        ("x" * 65537, "line 1: The file is longer than 64 KiB."),
        (
            "a: [1\n",
            "line 2: This is not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'.",
        ),
    ],
)
def test_parse_what_is_not_yaml_is_explained(text: str, expected: str) -> None:
    """The author of the mistake reads where it is and what to do, not a parser's internals."""
    assert problem(text) == expected


def test_parse_oddities_are_all_reported_together() -> None:
    """After a repeated key, a merge key or a tag, the parser still reads on for further faults."""
    document = parse("a: 1\nb: &b {c: 1}\na: 2\nd:\n  <<: *b\ne: !!python/name:os.system x\n")
    assert [(found.line, found.sentence.split(":")[0]) for found in document.problems] == [
        (3, '"a" is a duplicate'),
        (5, "Merge keys (<<) are not supported"),
        (6, 'The tag "tag'),
    ]


def test_parse_alias_stands_for_its_anchor() -> None:
    """What is written once may be used twice."""
    assert parse("a: &x [1, {b: c}]\nd: *x\n").value == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "{" * 60_000,
        "- " * 30_000,
        "? " * 30_000,
        "[" + "a," * 30_000 + "]",
        "a: '" + "\n" * 60_000 + "'",
        "a: &a0 [1, 1, 1, 1]\n" + "".join(f"a{n}: &a{n + 1} [{f'*a{n}, ' * 4}]\n" for n in range(100)),
        "".join(f"k{n}: &a{n} 1\n" for n in range(4000)),
        "!" * 60_000,
    ],
    ids=["lists", "braces", "dashes", "keys", "values", "lines", "aliases", "anchors", "tags"],
)
def test_parse_hostile_file_costs_little(text: str) -> None:
    """P5: no file holds up the process: not by nesting, nor by aliases for billions of values, which take hours."""
    with suppress(ConfigError):
        parse(text)
