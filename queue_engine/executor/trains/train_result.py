"""Advance a queue in trains where its configuration asks for them, and say what is left to do without them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from queue_engine.domain.model import Queue
from queue_engine.domain.policy import Policy
from queue_engine.effects.context import Engine
from queue_engine.executor.trains.train_pass import TrainPass, TrainsUnavailable


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What a pass in trains leaves to the pass over one entry after the other."""

    ran: bool
    """Whether trains advanced the queue, so that nothing is left."""
    due: datetime | None = None
    once: bool = False
    """Whether only the entry whose update or merge has begun is left."""


async def advance_trains(engine: Engine, queue: Queue, held: Callable[[], bool], policy: Policy) -> TrainResult:
    """Advance a queue in trains; costs nothing where the configuration has none. Raises LeaseLost."""
    if policy.trains is None and not queue.in_trains:
        return TrainResult(ran=False)
    trains = TrainPass(engine, queue, held, policy)
    if policy.trains is None and policy.fault is None:
        due = await trains.leave()
        return TrainResult(ran=due is not None, due=due)
    try:
        return TrainResult(ran=True, due=await trains.run())
    except TrainsUnavailable as unavailable:
        return TrainResult(ran=False, once=unavailable.once)
