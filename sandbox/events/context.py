"""What every part of the domain shares."""

from dataclasses import dataclass

from sandbox.events.event_bus import EventBus
from sandbox.ground.addresses import Addresses
from sandbox.ground.behaviour import Behaviour
from sandbox.ground.chance import Chance
from sandbox.ground.clock import Clock
from sandbox.ground.schedule import Schedule
from sandbox.ground.timings import Timings
from sandbox.state import State


@dataclass(frozen=True, slots=True)
class Context:
    """Time, switches, records and the event bus. It holds no part of the domain."""

    clock: Clock
    schedule: Schedule
    chance: Chance
    timings: Timings
    behaviour: Behaviour
    addresses: Addresses
    state: State
    events: EventBus
