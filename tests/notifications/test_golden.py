"""Golden files: the whole comment for every kind and every reason, so that a changed word shows in review.

`IMQ_GOLDEN=write` writes them anew.
"""

import os
from pathlib import Path

import pytest

from notifications.comment import render_comment
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import Reason
from tests.notifications.notices import of_kind, of_reason

GOLDEN = Path(__file__).parent / "golden"
CASES: dict[str, Notice] = {f"kind_{kind}": of_kind(kind) for kind in NoticeKind} | {
    f"reason_{reason}": of_reason(reason) for reason in Reason
}


@pytest.mark.parametrize("name", CASES)
def test_comment_of_each_case_is_as_in_its_golden_file(name: str) -> None:
    """What people read changes only on purpose."""
    path = GOLDEN / f"{name}.md"
    text = render_comment(CASES[name])
    if os.environ.get("IMQ_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_golden_files_are_exactly_those_of_the_cases() -> None:
    """No golden file outlives its case."""
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(CASES)
