"""The comments that authors meet, as the running renderer writes them, quoted for the documents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from notifications.render.comment import render_comment
from notifications.render.timeline_text import Events
from queue_engine.domain.culprit import BaseCommit, CommitResult, CulpritOutcome, CulpritRecord
from queue_engine.domain.departure import Cause, FailingCheckFacts, NewCommits
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.notice import FIRST_LINE, BlockerFacts, CommandReply, Notice, NoticeKind, Reply, ReplyKind
from queue_engine.domain.reasons import REASONS, Outcome, Reason

_JOINED = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
_HEAD = "8f14e45fceea167a5a36dedd4bea2543ffd1c0de"
_QUEUED_HEAD = "6e499df1fd2b2a94a3d6b1c3d1a2c5a0de6cf2a1"
_PUSHED = "9af3c1b02a5b4e0f8f3f2f3ad18e5c3bb4a2e6d0"
_LANDED = "45c48cce2e2d7fbdea1afc51c7c6ad26d9e0b3a1"
_KIND_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


@dataclass(frozen=True, slots=True)
class Screen:
    """One comment: its notice, the events before it, and the reply to a command."""

    notice: Notice
    events: Events = ()
    answer: CommandReply | None = None

    def __str__(self) -> str:
        """The comment as a quotation, without its hidden marker."""
        text = render_comment(self.notice, events=self.events, answer=self.answer)
        lines = FIRST_LINE.sub("", text, count=1).rstrip("\n").split("\n")
        return "".join(f"> {line}".rstrip() + "\n" for line in lines)


def _notice(kind: NoticeKind, minutes: float, **fields: Any) -> Notice:
    """A notice of a pull request by ada, queued by grace, so many minutes after it joined."""
    changes: dict[str, Any] = {
        "people": ("ada",),
        "enqueued_at": _JOINED,
        "started_at": _JOINED + timedelta(minutes=24),
        "queued_by": "grace",
    }
    at = _JOINED + timedelta(minutes=minutes)
    return Notice(kind=kind, number=42, base_branch="main", head_sha=_HEAD, at=at, **(changes | fields))


def _left(reason: Reason, minutes: float, **fields: Any) -> Notice:
    return _notice(_KIND_OF_OUTCOME[REASONS[reason].outcome], minutes, reason=reason, **fields)


def _check(name: str, conclusion: str, began: float, ended: float | None = None) -> CheckReport:
    return CheckReport(
        name=name,
        app_id=15368,
        state=CheckState.PENDING if ended is None else CheckState.FAILED,
        conclusion=conclusion,
        url=f"https://ci.example.com/{name}/1024",
        started_at=_JOINED + timedelta(minutes=began),
        completed_at=None if ended is None else _JOINED + timedelta(minutes=ended),
    )


def _queued() -> Notice:
    soon = (_JOINED + timedelta(minutes=25), _JOINED + timedelta(minutes=40))
    return _notice(NoticeKind.QUEUED, 0, position=2, depth=3, ahead=(37, 41), eta=soon)


def _checking() -> Notice:
    checks = (_check("test", "in_progress", 25), _check("lint", "queued", 25))
    return _notice(NoticeKind.CHECKING, 26, checks=checks)


def _landed() -> Notice:
    return _notice(NoticeKind.LANDED, 33, landed_sha=_LANDED)


def _failed(**known: Any) -> Notice:
    failure = FailingCheckFacts(_QUEUED_HEAD, ("test",), merged=True, reruns=1, **known)
    return _left(Reason.CHECKS_FAILED, 31, checks=(_check("test", "failure", 25, 31),), failure=failure)


def _together() -> Notice:
    return _failed(green=("test",), on_base=True, landed=(4, 10))


_BY_LINUS: dict[str, Any] = {"since": _JOINED + timedelta(minutes=20), "by": "linus", "position": 1}
_RED_SINCE: dict[str, Any] = {"since": _JOINED + timedelta(minutes=20), "position": 1}


def _event(name: str, minutes: float, *, number: int = 42, reason: Reason | None = None, **data: Any) -> TimelineEvent:
    at = _JOINED + timedelta(minutes=minutes)
    return TimelineEvent(at, name, 1, "main", number, reason=reason, data=data)


_EVENTS = (
    _event("queued", 0, by="grace", position=2),
    _event("paused", 5, number=0, reason=Reason.PAUSED_BY_HAND, by="linus"),
    _event("resumed", 9, number=0, reason=Reason.PAUSED_BY_HAND, by="linus"),
    _event("updating", 24),
    _event("checking", 25, head=_HEAD),
    _event("rerun", 28, checks=["test"]),
    _event("flaky", 32, checks=["test"]),
    _event("ready", 32, checks=420),
    _event("landed", 33, sha=_LANDED, checks=420),
)


def _answered(kind: NoticeKind, command: str, code: ReplyKind, *, accepted: bool = True, **facts: Any) -> Screen:
    notice = _queued() if kind is NoticeKind.QUEUED else _notice(kind, 2)
    reply = Reply(command=command, accepted=accepted, code=code, facts=facts)
    return Screen(notice, answer=CommandReply(at=_JOINED + timedelta(minutes=2), by="linus", replies=(reply,)))


_UNTIL = _JOINED + timedelta(days=2)
_CULPRIT = CulpritRecord(
    1,
    "test",
    (BaseCommit(_QUEUED_HEAD, 41), BaseCommit(_LANDED, 42)),
    tuple(
        CommitResult(
            place, place == 0, _JOINED + timedelta(minutes=minutes), f"https://ci.example.com/test/{minutes}", base
        )
        for place, minutes, base in ((1, 45, True), (1, 52, True), (0, 60, False), (1, 68, False))
    ),
    _JOINED,
    named=1,
    probability=0.97,
    outcome=CulpritOutcome.NAMED,
)

SCREENS: Mapping[str, Callable[[], Screen]] = {
    "Queued": lambda: Screen(_queued()),
    "First in the queue": lambda: Screen(_notice(NoticeKind.UPDATING, 24)),
    "Waiting for its checks": lambda: Screen(_checking()),
    "A check failed, and IMQ reran it": lambda: Screen(_checking(), _EVENTS[:6]),
    "A check that is listed as flaky failed, and IMQ reran it": lambda: Screen(
        _checking(), (*_EVENTS[:5], _event("rerun", 28, checks=["test"], listed={"test": "2026-03-31"}))
    ),
    "Landed, after a flaky check (its history unfolds)": lambda: Screen(_landed(), _EVENTS),
    "It passed alone, and fails together with what landed since": lambda: Screen(_together()),
    "A check failed": lambda: Screen(_failed(red=("test",))),
    "A check failed in a train": lambda: Screen(_failed(others=(37, 41))),
    "It conflicts with what landed before": lambda: Screen(_left(Reason.CONFLICT, 24)),
    "Somebody pushed to it while it was queued": lambda: Screen(
        _left(Reason.HEAD_CHANGED, 12, new_commits=NewCommits(_QUEUED_HEAD, "grace", _PUSHED), cause=Cause("linus"))
    ),
    "The label was removed": lambda: Screen(_left(Reason.LABEL_REMOVED, 12)),
    "A required check never reported": lambda: Screen(
        _left(
            Reason.CHECKS_TIMED_OUT, 144, checks=(CheckReport("docs", None, CheckState.PENDING, "", None, None, None),)
        )
    ),
    "It has the label before it is ready": lambda: Screen(
        _notice(
            NoticeKind.NOT_READY,
            0,
            reason=Reason.DRAFT,
            other_blockers=(BlockerFacts(reason=Reason.APPROVAL_MISSING, detail="0 of 1"),),
        )
    ),
    "It depends on another pull request": lambda: Screen(
        _notice(NoticeKind.NOT_READY, 0, reason=Reason.DEPENDENCY_OPEN, detail="#12")
    ),
    "It lands in a set": lambda: Screen(
        _notice(
            NoticeKind.NOT_READY,
            0,
            reason=Reason.SET_WAITING,
            detail="acme/app#3 has landed; acme/site#9 is not queued",
        )
    ),
    "An approval is missing": lambda: Screen(_left(Reason.APPROVAL_MISSING, 0, detail="0 of 1")),
    "Labeled by somebody who may not merge": lambda: Screen(_left(Reason.LABEL_WITHOUT_RIGHT, 0, queued_by="linus")),
    "The queue is full": lambda: Screen(_left(Reason.QUEUE_FULL, 0)),
    "It waits for a scarce runner": lambda: Screen(
        _notice(NoticeKind.BLOCKED, 20, reason=Reason.RUNNERS_BUSY, detail="gpu: 2 of 2 busy")
    ),
    "A maintainer paused the queue": lambda: Screen(
        _left(Reason.PAUSED_BY_HAND, 20, detail="new runners", **_BY_LINUS)
    ),
    "The base branch is frozen": lambda: Screen(
        _left(Reason.FROZEN, 20, detail="Release week", until=_UNTIL, **_BY_LINUS)
    ),
    "The base branch itself is red": lambda: Screen(_left(Reason.BASE_RED, 20, detail="test", **_RED_SINCE)),
    "No commit has a required check": lambda: Screen(
        _left(Reason.CHECK_NEVER_REPORTED, 20, detail="ci/misspelt", **_RED_SINCE)
    ),
    "A maintainer paused the queue, and the base branch is red": lambda: Screen(
        _left(
            Reason.PAUSED_BY_HAND,
            20,
            detail="new runners",
            other_blockers=(BlockerFacts(reason=Reason.BASE_RED, detail="test"),),
            **_BY_LINUS,
        )
    ),
    "The configuration cannot be used": lambda: Screen(
        _left(Reason.MISCONFIGURED, 20, detail=".github/imq.yml of main, line 2: enabeld is unknown")
    ),
    "What landed is not what was tested": lambda: Screen(
        _landed().model_copy(
            update={"reason": Reason.TREE_MISMATCH, "detail": "landed tree 45c48cc, tested tree 6e499df"}
        )
    ),
    "What landed before it is not what was tested": lambda: Screen(_left(Reason.TREE_MISMATCH, 20, **_RED_SINCE)),
    "A reply to a command": lambda: _answered(
        NoticeKind.QUEUED,
        "queue priority=high",
        ReplyKind.PRIORITY,
        base_branch="main",
        priority=10,
        position=1,
        depth=3,
        overtakes=[[41, 540]],
    ),
    "The result of a test by `/try`": lambda: _answered(
        NoticeKind.ANSWERED, "try", ReplyKind.TRY_FAILED, head=_HEAD, on="main@89abcde", detail="test"
    ),
    "It broke the base branch after it landed": lambda: Screen(_landed().model_copy(update={"culprit": _CULPRIT})),
    "Later runs contradict that it broke the base branch": lambda: Screen(
        _landed().model_copy(update={"culprit": replace(_CULPRIT, outcome=CulpritOutcome.UNCERTAIN)})
    ),
    "A refused command, where nothing is queued": lambda: _answered(
        NoticeKind.ANSWERED, "pause", ReplyKind.NOT_ALLOWED, accepted=False, needs="maintain", has="write"
    ),
    "The repository's own text": lambda: Screen(
        _landed().model_copy(update={"text": "Thank you! It is on {base} **now**."})
    ),
}
"""The comments that authors meet most, in the order in which they meet them."""


def comments() -> str:
    """All of them, each under its title."""
    return "\n".join(f"## {title}\n\n{make()}" for title, make in SCREENS.items())


def trial() -> str:
    """The first and the last comment of a pull request that is alone in its queue, and lands."""
    return "\n".join(str(Screen(notice)) for notice in (_checking(), _landed()))


def failure() -> str:
    """The comment of one that passed alone, and cannot land."""
    return str(Screen(_together()))
