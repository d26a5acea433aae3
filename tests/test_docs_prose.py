"""Everything that people read about IMQ is in short sentences, and in the words of the glossary."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from ruamel.yaml import YAML

from docs.generate import ROOT
from tests.support.documents import read
from tests.support.plain_words import MOST_WORDS, PRIVATE

PAGES = sorted(
    str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"))
)
ALERTS = "deploy/prometheus/alerts.yml"
HOSTING = ("Dockerfile", "render.yaml", "fly.toml", "deploy/compose/compose.yaml", "deploy/compose/Caddyfile")
DEPLOYED = (
    "deploy/kubernetes/imq.yaml",
    "deploy/nginx/imq.conf",
    "deploy/systemd/imq.service",
    "deploy/github/imq-verify.yml",
    "deploy/helm/imq/values.yaml",
    ".github/workflows/release.yml",
)
COMMENTED = ("app.yml", ALERTS, "Procfile", "Makefile", *HOSTING, *DEPLOYED)
"""Files whose comments an operator or a contributor reads."""

LOOSE = re.compile(
    r"\b(?:anybody|everybody|whatever|talkative|for ever|all the same|sign of life|told apart"
    r"|let(?:s|ting)? (?:\w+ )?through|called off|taken off|take \w+ off|such as (?:stood|stand))\b",
    re.IGNORECASE,
)
"""Further words that a document replaces by a person, a thing, or the glossary's verb."""


def prose(text: str) -> Iterator[str]:
    """The sentences of a page, without code, addresses of links, and quoted comments, which have tests of their own."""
    text = re.sub(r"^```.*?^```$|^>[^\n]*$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from sentences(re.split(r"\n\n|\n *(?:- |\d+\. |#)|\n?\|", text))


def sentences(pieces: list[str]) -> Iterator[str]:
    """The sentences of paragraphs, cells and list items."""
    for piece in pieces:
        text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]+`", "`code`", " ".join(piece.split())))
        yield from re.split(r"(?<=[.!?])(?:\*\*)?\)?\s+", text)


def comments(source: str) -> Iterator[str]:
    """The comments of a file, those of neighbouring lines as one."""
    lines = [line.strip() for line in source.splitlines()]
    for is_comment, block in groupby(lines, lambda line: line.startswith("#")):
        if is_comment:
            yield " ".join(line.lstrip("# ") for line in block)


def faults(found: Iterator[str]) -> list[str]:
    """The sentences that are too long, or have a word that a stranger does not know."""
    return [
        sentence
        for sentence in found
        if PRIVATE.search(sentence) or LOOSE.search(sentence) or len(sentence.split()) > MOST_WORDS
    ]


def test_prose_of_a_document_uses_the_words_of_the_field_in_short_sentences() -> None:
    """A reader meets no metaphor and no private word, and no sentence that has to be read twice."""
    for name in PAGES:
        assert faults(prose(read(name))) == [], name


def test_comments_of_a_file_use_the_words_of_the_field_in_short_sentences() -> None:
    """An operator who opens the manifest or the alert rules reads the language of the documents."""
    for name in COMMENTED:
        assert faults(sentences(list(comments(read(name))))) == [], name


def test_alerts_use_the_words_of_the_field_in_short_sentences() -> None:
    """An operator who is woken by an alert understands it at once."""
    groups: list[dict[str, Any]] = YAML(typ="safe").load(read(ALERTS))["groups"]
    written = [rule["annotations"][part] for each in groups for rule in each["rules"] for part in _READ]
    assert written
    assert faults(sentences(written)) == []


_READ = ("summary", "description")


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever set the label reads it.",
        "Everybody knows it.",
        "IMQ lets it through.",
        f"{'word ' * (MOST_WORDS + 1)}.",
    ],
)
def test_faulty_sentence_is_found(sentence: str) -> None:
    """A sentence in the former language, or one that is too long, fails these tests."""
    assert faults(sentences([f"**Good.** {sentence} And so on."])) == [sentence.strip()]


def test_faulty_sentence_below_a_quote_is_found() -> None:
    """A quoted comment ends with its last line: the page below it is read as well."""
    assert faults(prose("Good.\n\n> Nobody.\n> Quoted.\n\nNobody waits.\n\n> Quoted.\n")) == ["Nobody waits."]
