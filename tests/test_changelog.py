"""The changelog has one entry per gain, as users and operators read it."""

import re

from tests.support.documents import read
from tests.test_docs import SETTINGS

MOST_SENTENCES = 5
"""An entry with more has details that belong to another document."""


def entries() -> list[str]:
    """The entries, each on one line."""
    found = re.findall(r"^- (.*?)(?=^- |^$|\Z)", read("CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    return [" ".join(entry.split()) for entry in found]


def test_entries_are_short_whole_sentences_and_none_is_there_twice() -> None:
    """A user reads each change once, and reads it to the end."""
    found = entries()
    assert len(found) == len(set(found)) > 0
    assert [each for each in found if not each.endswith(".")] == []
    assert [each for each in found if len(re.findall(r"[.:](?:\*\*)?(?= |$)", each)) > MOST_SENTENCES] == []


def test_settings_exist() -> None:
    """An operator who follows the changelog finds the name in the program."""
    assert set(re.findall(r"`(IMQ_[A-Z_]+)[=`]", " ".join(entries()))) <= set(SETTINGS)
