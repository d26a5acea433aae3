"""What every part of the domain shares."""

from dataclasses import dataclass

from sandbox.core.addresses import Addresses
from sandbox.core.behaviour import Behaviour
from sandbox.core.clock import Clock
from sandbox.core.randomness import Randomness
from sandbox.core.schedule import Schedule
from sandbox.core.timings import Timings
from sandbox.events.event_bus import EventBus
from sandbox.state import State


@dataclass(frozen=True, slots=True)
class Context:
    """Time, switches, records and the event bus. It holds no part of the domain."""

    clock: Clock
    schedule: Schedule
    randomness: Randomness
    timings: Timings
    behaviour: Behaviour
    addresses: Addresses
    state: State
    events: EventBus
