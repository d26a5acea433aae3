"""Targets that are pure: a repository's configuration, and the commands in a comment."""

import re
import unicodedata
from pathlib import Path

from hypothesis import strategies as st

from queue_engine.commands.parse import LONGEST, commands_in, read
from queue_engine.commands.table import CATALOGUE, MAX_COMMANDS
from queue_engine.config import parse
from queue_engine.config.document import ConfigError
from queue_engine.config.file import Config
from tests.fuzz.edits import edited

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"

CONFIGURATIONS = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
"""The examples of the documentation."""

YAML = (
    *(
        ": ",
        "- ",
        "\n",
        "\n  ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!!python/object:x ",
        "<<: *a",
        "|",
        ">",
        "#",
        "'",
        '"',
    ),
    *(
        "true",
        "null",
        ".inf",
        "-1",
        "1e400",
        "0x10",
        "2026-02-30",
        "20m",
        "9999999999h",
        "(",
        "a{1000}",
        "\\",
        "%",
        "---",
    ),
    *(f"{key}: " for key in Config.model_fields),
)

COMMENTS = (
    *(f"/{name.value}" for name in CATALOGUE),
    *("Thanks!\n/queue priority=high\n", "> /queue\n\n/queue", "```\n/queue\n```\n/why", "<!-- /queue -->\n/status"),
    "/freeze until 2026-12-24 16:00",
)
MARKDOWN = (
    "`",
    "```",
    "~~~",
    "> ",
    "\n",
    "\n\n",
    "    ",
    "- ",
    "1. ",
    "<!--",
    "-->",
    "<pre>",
    "</pre>",
    "/",
    "/queue ",
    "\\",
)


def check_configuration(text: str) -> None:
    """A configuration, or every problem in one line of text, each with a line of the file."""
    content = text.encode("utf-8", "surrogatepass")
    try:
        parse.read(parse.decoded(content))
    except ConfigError as error:
        lines = content.count(b"\n") + content.count(b"\r") + 1
        for problem in error.problems:
            assert 0 <= problem.line <= lines + 1, problem
            assert not _hidden(str(problem)), problem
            assert len(problem.sentence) < 2_000, problem


def _hidden(sentence: str) -> bool:
    """Whether it has characters that move a cursor, break a line or change the direction of text."""
    return any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in sentence)


def check_commands(text: str) -> None:
    """Each command begins a line, after a slash; their number and length are bounded, and each can be read."""
    lines = re.split(r"\r\n|\n|\r", text)
    found = commands_in(text)
    assert len(found) <= MAX_COMMANDS + 1
    for command in found:
        assert len(command) <= LONGEST
        assert any(line.startswith(f"/{command}") for line in lines), command
        read(command)


def configurations() -> st.SearchStrategy[str]:
    """Examples of the documentation, edited."""
    return edited(CONFIGURATIONS, YAML)


def comments() -> st.SearchStrategy[str]:
    """Comments with commands, edited."""
    return edited(COMMENTS, MARKDOWN)
