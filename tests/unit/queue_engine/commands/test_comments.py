"""Which lines of a comment are commands, and which command each is."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from queue_engine.commands.commands import (
    CATALOGUE,
    MAX_COMMANDS,
    CommandName,
    CommandRequest,
    ParseError,
    commands_in,
    may_withdraw,
    parse_priority,
    read,
)

FENCE = "```"
_PARSER = MarkdownIt("commonmark")


def test_line_that_people_see_as_text_is_a_command() -> None:
    """A command is a line that begins with a slash and a word of ours, perhaps misspelt."""
    for text, commands in [
        ("/queue", ("queue",)),
        ("Thanks, looks good!\n/queue", ("queue",)),
        ("/queue\n\nThanks!", ("queue",)),
        ("/pause the release is out\r\n/queue status\r\n", ("pause the release is out", "queue status")),
        ("/imq why", ("imq why",)),
        ("Uses `foo`.\n/queue\nAnd `bar`.", ("queue",)),
        ("a < b\n/queue", ("queue",)),
        (f"{FENCE}\ncode\n{FENCE}\n/queue", ("queue",)),
        ("> You said so.\n\n/queue", ("queue",)),
        ("<details>\n\n/queue\n\n</details>", ("queue",)),
        ("<details>\n/queue\n</details>", ("queue",)),
        ("See [the log](https://example.org/1).\n/queue", ("queue",)),
        ("# Ready\n/queue", ("queue",)),
        ("- [x] tests\n\n/queue", ("queue",)),
        ("<!-- a template's words -->\n/queue", ("queue",)),
        ("/QUEUE", ("QUEUE",)),
        ("/queue.", ("queue.",)),
        ("/unqueue!", ("unqueue!",)),
        (" /queue", ("queue",)),
        ("\u00a0/queue", ("queue",)),
        ("Fine.\n   /queue", ("queue",)),
        ("/queuex", ("queuex",)),
        ("/dequeue", ("dequeue",)),
    ]:
        assert commands_in(text) == commands, (text, commands)


def test_line_that_is_quoted_shown_or_hidden_is_no_command() -> None:
    """Who quotes a command, shows how it is written, or fills in a template does not give it."""
    for text in [
        "",
        "Type /queue to queue it.",
        "- a list\n /queue",
        "\t/queue",
        "    /queue",
        "/ queue",
        "//queue",
        "/queue.yml is missing",
        "/queue/of/jobs",
        "/rebase",
        "/merge",
        "/cause",
        "/help",
        "/assign @mona",
        "/lgtm",
        "> /queue",
        "> You said:\n/queue",
        "- > quoted\n/queue",
        ">/queue",
        f"{FENCE}\n/queue\n{FENCE}",
        f"{FENCE}sh\n/queue",
        "~~~\n/queue\n~~~",
        f"````\n{FENCE}\n/queue\n````",
        f"  {FENCE}\n/queue\n  {FENCE}",
        "`a span\n/queue\nover lines`",
        "``a ` b\n/queue\n``",
        "<!--\n/queue\n-->",
        "<!--\n\n/queue\n\n-->",
        "words <!-- more\n/queue\n-->",
        "<div><!--\n\n/queue\n\n-->",
        "<pre>\n/queue\n</pre>",
        "<pre>\n\n/queue\n</pre>",
        "<div><code>\n\n/queue\n\n</code></div>",
        "<blockquote>\n\n/queue\n\n</blockquote>",
        "<script>\n/queue\n</script>",
        "~~<del>\n/queue\n</del>",
        "[label]:\n/queue",
        "[a link](\n/queue\n)",
        '[a](b "c\n/queue\n")',
        '<a title="\n/queue\n">',
        "\u200b/queue",
    ]:
        assert commands_in(text) == (), text


def test_comment_with_many_commands_gives_one_more_than_are_carried_out() -> None:
    """Enough for the answer to say that there were too many."""
    assert len(commands_in("/queue\n" * 9000)) == MAX_COMMANDS + 1


_PIECES = st.one_of(
    st.sampled_from(["/queue", " /queue", "/why", "\n", "\n\n", "\r\n", "text", " ", "    ", "\t"]),
    st.sampled_from(["`", "``", "```", "~~~", "> ", ">", "- ", "1. ", "# ", "---", "**", "|", "\\"]),
    st.sampled_from(
        ["<!--", "-->", "<pre>", "</pre>", "<a ", "<details>", "</details>", "<code>", "</code>", "<?", "<!A"]
    ),
    st.sampled_from(["[a]", "(b", ")", "]:", "![", '"', "'", "&lt;"]),
)


def _as_shown(text: str) -> set[int]:
    """The lines, from 0, on which CommonMark's own reader shows a marked slash as plain text outside of any quote."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    marks = {number: chr(0xE000 + number) for number, line in enumerate(lines) if re.match(r" {0,3}/", line)}
    marked = "\n".join(
        line.replace("/", marks[number], 1) if number in marks else line for number, line in enumerate(lines)
    )
    shown, quotes = "", 0
    for token in _PARSER.parse(marked):
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if quotes:
            continue
        if token.type == "inline":
            shown += "".join(child.content for child in token.children or () if child.type == "text")
        elif token.type == "html_block" and not token.content.lstrip().lower().startswith(
            ("<!--", "<pre", "<?", "<!a")
        ):
            shown += token.content
    return {number for number, mark in marks.items() if mark in shown}


@settings(max_examples=150)
@given(st.lists(_PIECES, min_size=2, max_size=25).map("".join).filter(lambda text: len(text.splitlines()) < 40))
def test_nothing_is_a_command_that_commonmark_does_not_show_as_text(text: str) -> None:
    """Measured by a full reader of CommonMark: whatever is written around it, what is no plain text is no command."""
    found = commands_in(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = [lines[number].lstrip(" ")[1:] for number in sorted(_as_shown(text))]
    remaining = iter(shown)
    assert all(command in remaining for command in found), (found, shown)


@settings(max_examples=100)
@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Anybody may write a comment."""
    for command in commands_in(f"{text}\n\n/queue {text}"):
        read(command)


def test_longest_comment_is_read_in_no_time_whatever_is_in_it() -> None:
    """P5: a matcher that backtracks would take hours for these 65,536 characters, and meet the limit of a test."""
    for piece in [
        "/queue\n",
        "<a\n/queue\n",
        "`" + "\n",
        "[a](b\n/queue\n",
        "<pre></pre>\n/queue\n",
        "- ",
        "\\",
        "\\`",
        "<q>",
        "<q></s>",
        "<!--",
        "# a\n/why\n",
        "> /queue\n",
    ]:
        text = (piece * 65_536)[:65_536] + "\n/queue"
        commands_in(text)


def test_command_is_read_with_its_argument() -> None:
    """Case and spaces do not matter; free text is kept as it was typed."""
    for line, name, argument in [
        ("queue", CommandName.QUEUE, ""),
        ("imq queue", CommandName.QUEUE, ""),
        ("Queue  STATUS", CommandName.STATUS, ""),
        ("imq status", CommandName.STATUS, ""),
        ("imq", CommandName.HELP, ""),
        ("imq help", CommandName.HELP, ""),
        ("queue help", CommandName.HELP, ""),
        ("queue.", CommandName.QUEUE, ""),
        ("queue!", CommandName.QUEUE, ""),
        ("queue: now", CommandName.QUEUE, ""),
        ("queue now, please!", CommandName.QUEUE, ""),
        ("queue high", CommandName.PRIORITY, "high"),
        ("queue=high", CommandName.PRIORITY, "high"),
        ("queue, high!", CommandName.PRIORITY, "high"),
        ("queue high priority", CommandName.PRIORITY, "high"),
        ("queue prio 5", CommandName.PRIORITY, "5"),
        ("queue 5 prio", CommandName.PRIORITY, "5"),
        ("queue \U0001f680 :rocket: now…", CommandName.QUEUE, ""),
        ("queue。", CommandName.QUEUE, ""),
        ("queue: LOW.", CommandName.PRIORITY, "low"),
        ("unqueue please", CommandName.UNQUEUE, ""),
        ("queue --priority=high", CommandName.PRIORITY, "high"),
        ("queue asap, thank you!", CommandName.QUEUE, ""),
        ("resume it", CommandName.RESUME, ""),
        ("why?", CommandName.WHY, ""),
        ("imq: queue", CommandName.QUEUE, ""),
        ("pause: the disk is full.", CommandName.PAUSE, "the disk is full."),
        ("queue priority=high", CommandName.PRIORITY, "high"),
        ("queue priority = -20", CommandName.PRIORITY, "-20"),
        ("queue Priority: Low", CommandName.PRIORITY, "low"),
        ("unqueue", CommandName.UNQUEUE, ""),
        ("requeue", CommandName.REQUEUE, ""),
        ("why", CommandName.WHY, ""),
        ("pause", CommandName.PAUSE, ""),
        ("pause Release   day", CommandName.PAUSE, "Release day"),
        ("resume", CommandName.RESUME, ""),
        ("freeze until 2026-12-24 08:00 holidays", CommandName.FREEZE, "until 2026-12-24 08:00 holidays"),
    ]:
        found = read(line)
        assert isinstance(found, CommandRequest), (line, name, argument)
        assert (found.command.name, found.argument) == (name, argument), (line, name, argument)


def test_argument_that_a_command_does_not_take_is_reported_with_the_right_usage() -> None:
    """Nothing is guessed: the answer shows how it is written."""
    for line, name in [
        ("queue tomorrow", CommandName.QUEUE),
        ("queue 5", CommandName.QUEUE),
        ("queuex", CommandName.QUEUE),
        ("dequeue", CommandName.UNQUEUE),
        ("resum", CommandName.RESUME),
        ("queue priority=urgent", CommandName.PRIORITY),
        ("queue priority=1001", CommandName.PRIORITY),
        ("queue priority=", CommandName.PRIORITY),
        ("queue stauts", CommandName.QUEUE),
        ("unqueue all", CommandName.UNQUEUE),
        ("freeze", CommandName.FREEZE),
        ("freeze tomorrow", CommandName.FREEZE),
        ("imq dance", CommandName.HELP),
    ]:
        found = read(line)
        assert isinstance(found, ParseError), (line, name)
        assert found.command == CATALOGUE[name], (line, name)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *[("high", 10), ("LOW", -10), ("normal", 0), ("+7", 7), ("-1000", -1000), ("1000", 1000), ("1001", None)],
        *[("\u0663", None), ("1e3", None), ("", None), ("9" * 400, None)],
    ],
)
def test_points_are_words_or_numbers_within_bounds(word: str, meant: int | None) -> None:
    """Other scripts' digits and huge numbers are no points."""
    assert parse_priority(word) == meant


@pytest.mark.parametrize(
    ("text", "withdrawn"),
    [
        ("/unqueue", "pull_request"),
        ("/queue\n/imq unqueue, please", "pull_request"),
        ("/unqueue\n/pause now", "repository"),
        ("/freeze until 2h", "repository"),
        ("/unqueue everything", None),
        ("/requeue\n/why\n/resume", None),
    ],
)
def test_commands_that_may_keep_something_from_landing(text: str, withdrawn: str | None) -> None:
    """P4: a landing waits for these alone; what is not understood withdraws nothing."""
    assert may_withdraw(commands_in(text)) == withdrawn
