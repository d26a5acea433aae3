"""Golden files: the whole comment for all that the engine can say, so that a changed word shows in review.

`IMQ_GOLDEN=write` writes them anew.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from notifications.comment import render_comment
from queue_engine.commands.codes import ReplyCode
from queue_engine.notice import NoticeKind
from queue_engine.reasons import Reason
from tests.notifications.notices import (
    FLAKY_STORY,
    LANDED_STORY,
    NOW,
    REPLIES,
    WHY,
    answer,
    event,
    of_kind,
    of_reason,
    why,
)

GOLDEN = Path(__file__).parent / "golden"
CASES: Mapping[str, str] = (
    {f"kind_{kind}": render_comment(of_kind(kind)) for kind in NoticeKind}
    | {f"reason_{reason}": render_comment(of_reason(reason)) for reason in Reason}
    | {f"answer_{code}": render_comment(of_kind(NoticeKind.ANSWERED), answer=answer(code)) for code in REPLIES}
    | {
        "answer_held_priority": render_comment(
            of_kind(NoticeKind.HELD),
            answer=answer(ReplyCode.HELD, by="carol", command="queue priority=high", priority=10),
        )
    }
    | {f"why_{name}": render_comment(of_kind(NoticeKind.ANSWERED), answer=why(name)) for name in WHY}
    | {
        "story_landed": render_comment(of_kind(NoticeKind.LANDED), events=LANDED_STORY),
        "story_run_again": render_comment(of_kind(NoticeKind.CHECKING), events=FLAKY_STORY[:6]),
        "story_failed_and_queued_again": render_comment(
            of_kind(NoticeKind.QUEUED),
            events=(
                event("held", 190, reason=Reason.QUEUE_FULL),
                event("queued", 180, by="bob", position=0),
                event("pending", 170, yields_to=7, head="3" * 40),
                event("failed", 120, reason=Reason.CHECKS_FAILED, checks=["build"], head="3" * 40),
                event("queued", 0, by="carol", position=2),
            ),
            answer=answer(*list(REPLIES)[:2]),
        ),
        "retrying": render_comment(
            of_kind(NoticeKind.UPDATING).model_copy(
                update={"retrying_since": NOW - timedelta(minutes=4), "next_try": NOW + timedelta(minutes=1)}
            )
        ),
        "own_words_queued": render_comment(
            of_kind(NoticeKind.QUEUED).model_copy(update={"text": "You are number {position} for {base}."})
        ),
        "own_words_conflict": render_comment(
            of_reason(Reason.CONFLICT).model_copy(
                update={
                    "text": "### Conflict\n\nPlease rebase onto {base}; see [our guide](https://dev.example/rebase)."
                }
            )
        ),
        "landed_mismatch": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(
                update={"reason": Reason.TREE_MISMATCH, "detail": "landed tree 2222222, tested tree 3333333"}
            ),
        ),
        "own_words_landed": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(update={"text": "Thank you! It is on {base} now. {{:}}"})
        ),
    }
)


@pytest.mark.parametrize("name", CASES)
def test_comment_of_each_case_is_as_in_its_golden_file(name: str) -> None:
    """What people read changes only on purpose."""
    path = GOLDEN / f"{name}.md"
    if os.environ.get("IMQ_GOLDEN") == "write":
        path.write_text(CASES[name], encoding="utf-8")
    assert CASES[name] == path.read_text(encoding="utf-8")


def test_golden_files_are_exactly_those_of_the_cases() -> None:
    """No golden file outlives its case."""
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(CASES)
