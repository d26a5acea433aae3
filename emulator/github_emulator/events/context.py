"""What every part of the domain shares."""

from dataclasses import dataclass

from github_emulator.core.addresses import Addresses
from github_emulator.core.behaviour import Behaviour
from github_emulator.core.clock import Clock
from github_emulator.core.randomness import Randomness
from github_emulator.core.schedule import Schedule
from github_emulator.core.timings import Timings
from github_emulator.events.event_bus import EventBus
from github_emulator.state import State


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
