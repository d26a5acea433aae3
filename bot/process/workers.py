"""Build the worker of one process."""

from collections.abc import Mapping
from functools import partial

from queue_engine.core.jobs.dead_letters import FollowUp
from queue_engine.core.jobs.worker import Handler, ResultHandler, Worker, WorkerSettings
from queue_engine.domain.errors import attempt_level, is_retryable
from queue_engine.effects.context import Engine
from queue_engine.store import WakeupKind


def create_worker(engine: Engine, handlers: Mapping[str, Handler | ResultHandler], follow_up: FollowUp) -> Worker:
    """Create the worker that does the engine's jobs; `follow_up` names the jobs that a dead letter causes."""
    return Worker(
        engine.store.database,
        engine.clock,
        handlers,
        WorkerSettings(
            owner=engine.owner,
            random=engine.random,
            lease=engine.lease,
            is_retryable=is_retryable,
            attempt_level=attempt_level,
            meter=engine.meter,
            follow_up=follow_up,
        ),
        done=partial(engine.wakeup.notify, WakeupKind.JOBS),
    )
