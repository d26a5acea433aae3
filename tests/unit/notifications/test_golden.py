"""Golden files: the whole comment for all that the engine can say, so that a changed word shows in review.

A file each for reasons, kinds, replies and `/why`; one file for each group of what differs in a few lines only.
`IMQ_GOLDEN=write` rewrites them.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from notifications.render.comment import content, render_check_run, render_comment
from notifications.render.timeline_text import history_lines
from notifications.texts.history import HISTORY
from queue_engine.domain.departure import Cause, FailingCheckFacts
from queue_engine.domain.notice import BlockerFacts, Notice, NoticeKind, ReplyKind
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.notices import (
    FAILING_CHECKS,
    FLAKY_EVENTS,
    LANDED_EVENTS,
    NOW,
    PUSHED,
    REPLIES,
    STATUS,
    TOGETHER,
    WHY,
    answer,
    check,
    event,
    facts,
    of_kind,
    of_reason,
    why,
)
from tests.unit.notifications.trains import TRAINS

GOLDEN = Path(__file__).parent / "golden"


def _group(parts: Iterable[tuple[str, str]]) -> str:
    """Several texts in one file, each under its title."""
    return "\n".join(f"## {title}\n\n{text.strip()}\n" for title, text in parts)


def _check_run(notice: Notice) -> str:
    """What people see of a check run: its state, its title and its summary."""
    run = render_check_run(notice, external_id="-")
    state = run.get("conclusion", run["status"])
    return f"{state}: {run['output']['title']}\n\n{run['output']['summary']}"


_FACTS: Mapping[str, Any] = {
    "position": 2,
    "by": "carol",
    "head": "3" * 40,
    "sha": "4" * 40,
    "yields_to": 7,
    "delays": [4, 9],
    "delay": 720,
    "priority": 10,
    "until": "2026-03-16T08:00:00+00:00",
    "members": [41, 42, 43],
    "outcome": "base_moved",
    "order": ["acme/app#3", "acme/site#9"],
    "member": "acme/app#3",
    "why": "checks failed",
    "on": "main@4444444",
    "detail": "build",
}
_CHECKS: Mapping[str, Any] = {"ready": 1440, "rerun": ["build"], "flaky": ["build", "docs"]}


def _history_line(name: str) -> str:
    data = {fact: _FACTS[fact] for fact in HISTORY[name].also if fact in _FACTS}
    if name in _CHECKS:
        data["checks"] = _CHECKS[name]
    return "\n".join(history_lines([event(name, 5, **data)]))


def _reply(code: ReplyKind, **changes: Any) -> str:
    return content(render_comment(of_kind(NoticeKind.ANSWERED), answer=answer(code, **changes)))


def _status(**changes: Any) -> str:
    asked = facts(queue=replace(STATUS, entries=(), blockers=(), **changes))
    return content(render_comment(of_kind(NoticeKind.ANSWERED), answer=answer(ReplyKind.STATUS), facts=asked))


_STILL: Mapping[str, Any] = {"blockers": [{"reason": Reason.BASE_RED.value, "detail": "build", "until": None}]}
REPLY_VARIANTS: Mapping[str, str] = {
    "paused, and frozen": _reply(ReplyKind.PAUSED, then="2026-03-16T08:00:00+00:00"),
    "frozen, and paused": _reply(ReplyKind.FROZEN, paused=True),
    "resumed, and blocked": _reply(ReplyKind.RESUMED, **_STILL),
    "not paused, and blocked": _reply(ReplyKind.NOT_PAUSED, **_STILL),
    "priority, delaying nobody": _reply(ReplyKind.PRIORITY, overtakes=[], preempts=None),
    "priority, preempting what has just begun": _reply(ReplyKind.PRIORITY, lost=None),
    "status of an empty queue": _status(without_room=()),
    "not ready, with a priority": _reply(ReplyKind.NOT_READY, priority=10),
    "status with others outside the queue": _status(without_room=(), outside=(STATUS.entries[0].entry,) * 2),
    "on a merged pull request": _reply(ReplyKind.CLOSED, merged=True),
    "an argument is missing": _reply(ReplyKind.NOT_UNDERSTOOD, argument=""),
    "an argument has a fault": _reply(ReplyKind.NOT_UNDERSTOOD, fault="has passed already"),
}

FAILURES: Mapping[str, FailingCheckFacts] = {
    "together": TOGETHER,
    "together, in a train": replace(TOGETHER, pushed=False, others=()),
    "together, in a train with others": replace(TOGETHER, pushed=False, others=(41, 43), landed=(), outside=True),
    "together, from a fork": replace(TOGETHER, on_base=False, reruns=0, landed=None, fork=True),
    "together, after many landings": replace(TOGETHER, pushed=False, landed=tuple(range(1, 16))),
    "up to date": FailingCheckFacts(TOGETHER.head_sha, ("build",), reruns=2),
    "before the update, too": FailingCheckFacts(TOGETHER.head_sha, ("build", "lint"), red=("build",), merged=True),
    "in part before": FailingCheckFacts(
        TOGETHER.head_sha, ("build", "lint"), green=("build",), red=("lint",), merged=True
    ),
}
_LATER = NOW - timedelta(minutes=65)
KIND_VARIANTS: Mapping[str, Notice] = {
    "queued, before others": of_kind(NoticeKind.QUEUED).model_copy(update={"later": (44, 45), "eta": None}),
    "queued, edited later": of_kind(NoticeKind.QUEUED).model_copy(update={"enqueued_at": _LATER}),
    "queued, next": of_kind(NoticeKind.QUEUED).model_copy(update={"position": 0, "ahead": (), "eta": None}),
    "queued, without the numbers ahead": of_kind(NoticeKind.QUEUED).model_copy(update={"ahead": (), "eta": None}),
    "queued, without a position": of_kind(NoticeKind.QUEUED).model_copy(
        update={"position": None, "ahead": (), "eta": None}
    ),
    "checking, before the first report": of_kind(NoticeKind.CHECKING).model_copy(update={"checks": (), "eta": None}),
    "checking, with progress": of_kind(NoticeKind.CHECKING).model_copy(update={"progress": (2, 5), "eta": None}),
    "held, first": of_kind(NoticeKind.HELD).model_copy(update={"position": 0}),
    "held, second": of_kind(NoticeKind.HELD).model_copy(update={"position": 1}),
    "not ready, for want of one thing": of_kind(NoticeKind.NOT_READY).model_copy(
        update={"reason": Reason.CODE_OWNER_MISSING, "other_blockers": ()}
    ),
    **{
        f"not ready, {reason}": of_reason(reason).model_copy(update={"kind": NoticeKind.NOT_READY})
        for reason in (
            *(Reason.STACKED_ABOVE, Reason.STACK_LANDED, Reason.HEAD_SHARED),
            *(Reason.DEPENDENCY_OPEN, Reason.DEPENDENCY_HIDDEN, Reason.SET_WAITING),
        )
    },
    "not ready, checks_failed": of_reason(Reason.CHECKS_FAILED).model_copy(
        update={"kind": NoticeKind.NOT_READY, "checks": (), "failing": FAILING_CHECKS}
    ),
    **{
        f"failed, {name}": of_reason(Reason.CHECKS_FAILED).model_copy(update={"failure": failure, "checks": (check(),)})
        for name, failure in FAILURES.items()
    },
    "failed, on a base whose name a shell reads": of_reason(Reason.CHECKS_FAILED).model_copy(
        update={"failure": TOGETHER, "checks": (), "base_branch": "release/$(x)"}
    ),
    "pushed": of_reason(Reason.HEAD_CHANGED).model_copy(
        update={"new_commits": PUSHED, "cause": Cause("mallory"), "queued_by": "grace"}
    ),
    "pushed, nobody knows what": of_reason(Reason.HEAD_CHANGED).model_copy(
        update={"new_commits": replace(PUSHED, pushed=None), "queued_by": "grace"}
    ),
    "frozen by a person": of_reason(Reason.FROZEN).model_copy(
        update={"by": "carol", "since": NOW - timedelta(minutes=50)}
    ),
    "with a shared configuration": of_kind(NoticeKind.READY).model_copy(update={"not_followed": ("depth is ignored",)}),
    "base red, without a label for fixes": of_reason(Reason.BASE_RED).model_copy(update={"fix_labels": ()}),
    "refused, to an author without the right": of_reason(Reason.HEAD_CHANGED).model_copy(
        update={"kind": NoticeKind.REFUSED}
    ),
}
CASES: Mapping[str, str] = (
    {f"kind_{kind}": render_comment(of_kind(kind)) for kind in NoticeKind}
    | {f"reason_{reason}": render_comment(of_reason(reason)) for reason in Reason}
    | {
        f"answer_{code}": render_comment(of_kind(NoticeKind.ANSWERED), answer=answer(code), facts=facts())
        for code in REPLIES
    }
    | {
        "answer_held_priority": render_comment(
            of_kind(NoticeKind.HELD),
            answer=answer(ReplyKind.HELD, by="carol", command="queue priority=high", priority=10),
        )
    }
    | {f"why_{name}": render_comment(of_kind(NoticeKind.ANSWERED), answer=why(), facts=facts(name)) for name in WHY}
    | {
        "check_runs": _group(
            [(f"kind {kind}", _check_run(of_kind(kind))) for kind in NoticeKind if kind is not NoticeKind.ANSWERED]
            + [(f"reason {reason}", _check_run(of_reason(reason))) for reason in Reason]
        ),
        "history_lines": _group((name, _history_line(name)) for name in HISTORY),
        "reply_variants": _group(REPLY_VARIANTS.items()),
        "kind_variants": _group((name, content(render_comment(each))) for name, each in KIND_VARIANTS.items()),
        "trains": _group((name, content(render_comment(each))) for name, each in TRAINS.items()),
        "trains_check_runs": _group((name, _check_run(each)) for name, each in TRAINS.items()),
        "history_landed": render_comment(of_kind(NoticeKind.LANDED), events=LANDED_EVENTS),
        "history_run_again": render_comment(of_kind(NoticeKind.CHECKING), events=FLAKY_EVENTS[:6]),
        "history_failed_and_queued_again": render_comment(
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
        "paused_and_more": render_comment(
            of_reason(Reason.PAUSED_BY_HAND).model_copy(
                update={
                    "other_blockers": (
                        BlockerFacts(reason=Reason.FROZEN, detail="Release week", until=NOW + timedelta(days=2)),
                        BlockerFacts(reason=Reason.BASE_RED, detail="build"),
                    )
                }
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
        "landed_untested_paths": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(
                update={"untested_paths": ("CHANGELOG.md", "docs/a`b.md"), "more_paths": 3}
            ),
        ),
        "landed_with_newer_commits": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(update={"unlanded_head": "5" * 40})
        ),
        "landed_with_another_base_now": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(update={"unlanded_base": "release"})
        ),
        "landed_closed_unmerged": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(update={"closed_unmerged": True})
        ),
        "own_words_landed": render_comment(
            of_kind(NoticeKind.LANDED).model_copy(update={"text": "Thank you! It is on {base} now. {{:}}"})
        ),
    }
)


def test_comment_of_each_case_is_as_in_its_golden_file() -> None:
    """What people read changes only on purpose."""
    for name in CASES:
        path = GOLDEN / f"{name}.md"
        if os.environ.get("IMQ_GOLDEN") == "write":
            path.write_text(CASES[name], encoding="utf-8")
        assert CASES[name] == path.read_text(encoding="utf-8"), name


def test_golden_files_are_exactly_those_of_the_cases() -> None:
    """No golden file outlives its case."""
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(CASES)
