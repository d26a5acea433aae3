"""Blockers of a queue with what people ask about them: since when, by whom, and who has to act."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.model import Queue
from queue_engine.domain.reasons import Reason
from queue_engine.domain.wait_reasons import PullRequestActor
from queue_engine.queries.pull_request_status import whose_move


@dataclass(frozen=True, slots=True)
class BlockerState:
    """A blocker, since when it holds, and who set it, if a person did."""

    blocker: Blocker
    since: datetime | None
    by: str | None = None

    failing: tuple[FailingCheck, ...] = ()
    """The checks that fail on a red base."""

    @property
    def whose_move(self) -> PullRequestActor:
        """Who can end it."""
        return whose_move(self.blocker.reason)


def blocker_states(queue: Queue, blockers: tuple[Blocker, ...]) -> tuple[BlockerState, ...]:
    """Describe the blockers of a queue."""
    return tuple(_state(queue, blocker) for blocker in blockers)


def _state(queue: Queue, blocker: Blocker) -> BlockerState:
    if blocker.recorded and (pause := queue.pause(blocker.reason)) is not None:
        return BlockerState(blocker, pause.since, pause.by)
    if blocker.reason in (Reason.BASE_RED, Reason.TIP_UNTESTED) and queue.red is not None:
        return BlockerState(blocker, queue.red.since, failing=queue.red.failing)
    if queue.stall is not None and blocker.reason in (Reason.CHECKS_NOT_STARTING, Reason.CHECK_NEVER_REPORTED):
        return BlockerState(blocker, queue.stall.since)
    announced = BlockerNotices.from_json(queue.announced)
    same = [each for each in (announced.blockers if announced else ()) if each.announces(blocker)]
    return BlockerState(blocker, min((each.since for each in same if each.since is not None), default=None))
