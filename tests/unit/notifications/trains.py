"""Notices about trains, for tests of the texts."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from queue_engine.domain.departure import FailingCheckFacts
from queue_engine.domain.notice import Notice, NoticeKind, TrainLanding, TrainNotice, TrainProgress
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.notices import check, of_kind, of_reason

FAILED = FailingCheckFacts("1" * 40, ("build",), merged=True, others=())
RUN: Mapping[str, Any] = {
    "run": 31,
    "branch": "imq/main/31",
    "url": "https://github.example/octo/garden/commits/imq/main/31",
}


def member(kind: NoticeKind, step: TrainProgress, members: tuple[int, ...] = (), **facts: Any) -> Notice:
    """A notice of octo/garden#42 as a member of a train."""
    train = TrainNotice(progress=step, members=members, **facts)
    return of_kind(kind).model_copy(update={"train": train, "eta": None})


def landed(members: tuple[int, ...], **facts: Any) -> Notice:
    """A notice of octo/garden#42, which landed by a train."""
    landing = TrainLanding(members=members, **facts)
    return of_kind(NoticeKind.LANDED).model_copy(update={"landed_with": landing})


TRAINS: Mapping[str, Notice] = {
    "building": member(NoticeKind.UPDATING, TrainProgress.BUILDING, (41, 42, 43)),
    "building alone": member(NoticeKind.UPDATING, TrainProgress.BUILDING, (42,)),
    "testing": member(NoticeKind.CHECKING, TrainProgress.TESTING, (41, 42, 43), **RUN),
    "testing, with many": member(NoticeKind.CHECKING, TrainProgress.TESTING, tuple(range(30, 50)), **RUN),
    "testing alone": member(NoticeKind.CHECKING, TrainProgress.TESTING, (42,), **RUN),
    "bisecting": member(NoticeKind.CHECKING, TrainProgress.BISECTING, (41, 42), failed=(41, 42, 43, 44), **RUN),
    "bisecting another part": member(NoticeKind.QUEUED, TrainProgress.BISECTING, failed=(41, 42, 43, 44)),
    "suspected, tested alone": member(NoticeKind.CHECKING, TrainProgress.ALONE, (42,), failed=(41, 42), **RUN),
    "qualified": member(NoticeKind.QUEUED, TrainProgress.QUALIFIED),
    "held back": member(NoticeKind.QUEUED, TrainProgress.HELD_BACK, conflict=41),
    "held back by one of two": member(NoticeKind.QUEUED, TrainProgress.HELD_BACK, conflicts=(40, 41)),
    "for more pull requests": member(NoticeKind.QUEUED, TrainProgress.FILLING),
    "held back by an unknown one": member(NoticeKind.QUEUED, TrainProgress.HELD_BACK),
    "that was queued alone": member(NoticeKind.QUEUED, TrainProgress.OWN_HEAD, own_head="asked"),
    "of an unreviewed fork": member(NoticeKind.QUEUED, TrainProgress.OWN_HEAD, own_head="unreviewed"),
    "of a fork that changes workflows": member(NoticeKind.QUEUED, TrainProgress.OWN_HEAD, own_head="workflows"),
    "passed": member(NoticeKind.READY, TrainProgress.PASSED, (41, 42, 43), **RUN),
    "passed alone": member(NoticeKind.READY, TrainProgress.PASSED, (42,), **RUN),
    "failed": of_reason(Reason.CHECKS_FAILED).model_copy(
        update={
            "train": TrainNotice(progress=TrainProgress.FAILED_ALONE, members=(42,), **RUN),
            "checks": (check(),),
            "failure": FAILED,
        }
    ),
    "landed": landed((41, 42, 43), runs_saved=2, ci_saved=timedelta(minutes=48)),
    "landed, one run saved": landed((41, 42), runs_saved=1),
    "landed, one run and its time saved": landed((41, 42), runs_saved=1, ci_saved=timedelta(minutes=24)),
    "landed, without a history": landed((41, 42, 43, 44), runs_saved=3),
    "landed alone": landed((42,)),
}
