"""Text for consoles: text of strangers cannot control an operator's terminal."""

import json
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bot
from bot.cli.console import echo
from bot.logs.printable import on_one_line, printable

ROOT = Path(bot.__file__).parent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ändern: 修复 🎉", "Ändern: 修复 🎉"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b]0;owned\x07\x1b[2J", r"\u001b]0;owned\u0007\u001b[2J"),
        ("\x9b2J\x7f", r"\u009b2J\u007f"),
        ("over\rwritten\b", r"over\u000dwritten\u0008"),
        ("safe\u202eelif", r"safe\u202eelif"),
        ("a\u2028b\u2066c", r"a\u2028b\u2066c"),
        ("half \ud800", r"half \ud800"),
        ("tag \U000e0041", r"tag \udb40\udc41"),
    ],
)
def test_text_shows_invisible_characters_and_keeps_the_rest(text: str, shown: str) -> None:
    """Escape sequences, C1 controls, carriage returns, reversed directions, lone surrogates, invisible tags."""
    assert printable(text) == shown


def test_text_on_one_line_has_no_line_of_its_own() -> None:
    """A title cannot add a row to a table, or an event to the log."""
    assert on_one_line("title\n2026-01-05 [info] forged") == r"title\u000a2026-01-05 [info] forged"


@given(st.text(st.characters(exclude_characters="\\")))
def test_text_that_is_shown_can_be_encoded_and_read_back(text: str) -> None:
    """It is JSON's own spelling, so that output for programs stays JSON."""
    shown = on_one_line(text)
    shown.encode()
    assert not {category(each) for each in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    read = json.loads('"' + shown.replace('"', r"\"") + '"')
    assert read == text


def test_commands_print_by_echo_only(capsys: pytest.CaptureFixture[str]) -> None:
    """So that no new command forgets it; the demo shows what it made up itself."""
    for path in ROOT.rglob("*.py"):
        if path.name not in {"console.py", "terminal.py"} and "demo" not in path.parts:
            assert "click.echo" not in path.read_text(encoding="utf-8"), path
    echo("a\x1b[31mb")
    echo("c\x1b", err=True)
    assert capsys.readouterr() == ("a\\u001b[31mb\n", "c\\u001b\n")
