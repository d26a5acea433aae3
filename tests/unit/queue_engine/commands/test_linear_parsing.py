"""Text that anybody may write is read in linear time: comments with commands, and descriptions of pull requests."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from queue_engine.commands.commands import commands_in
from queue_engine.config.merge_commit import commit_message, without_comments
from queue_engine.domain.facts import CommitHistory, MergeCommit
from tests.unit.queue_engine.examples import pull

SHORT, LONG = 16_000, 64_000

SHAPES = {
    "commands": "/queue\n",
    "parse_failure commands": "/queue 12345\n",
    "lines": "a\n",
    "tags": "<a\n/queue\n",
    "open HTML": "/queue\n<pre>\n",
    "HTML comments": "/queue\n<!-- x -->\n",
    "links": "/queue\n](\n",
    "ticks": "/queue `a ``b\n",
    "list items": "/queue\n- > 1. ",
    "trailers": "a-by-by: x\n",
}


def calls(work: Callable[[], object]) -> int:
    """How many calls, of Python's functions and of C's, this makes."""
    counted = 0
    work()  # Caches are filled by now.

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def filled(shape: str, size: int) -> str:
    """A comment of this size that begins with a command."""
    return "/queue\n" + SHAPES[shape] * (size // len(SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
def test_comment_four_times_as_long_is_four_times_the_work(shape: str) -> None:
    """Whatever it is made of: a comment has 64 kB at most, and anybody may write one."""
    short, long = (calls(partial(commands_in, filled(shape, size))) for size in (SHORT, LONG))
    assert long <= 4.5 * short + 100


@pytest.mark.parametrize("shape", SHAPES)
def test_description_of_any_length_is_made_a_commits_body_in_as_many_calls(shape: str) -> None:
    """Each of them goes over the text once; nothing loops over its parts and copies the rest each time."""
    templates = MergeCommit("{title}", "{body_text}\n\n{body}")
    short, long = (
        calls(
            partial(commit_message, templates, replace(pull(), body=filled(shape, size)), CommitHistory(), label="go")
        )
        for size in (SHORT, LONG)
    )
    assert long == short


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<!-- b -->c<!---->d", "acd"),
        ("a<!-- b\n<!-- c --> d", "a d"),
        ("a<!-- b", "a"),
        ("a<!-->b", "a"),
        ("-->", "-->"),
    ],
)
def test_html_comments_are_left_out_and_one_without_end_takes_the_rest(text: str, left: str) -> None:
    """As GitHub shows it."""
    assert without_comments(text) == left
