from collections.abc import Iterator
from typing import Any

from github_emulator import GitHub
from github_emulator.events.event_bus import EventBus

_PARTS = (
    "github_emulator.domain.",
    "github_emulator.events.",
    "github_emulator.facade.",
    "github_emulator.payloads.",
    "github_emulator.webhooks.",
)


def test_parts_of_github_hold_neither_the_whole_nor_each_other_in_a_circle(github: GitHub) -> None:
    """A part reaches its siblings one way only; the bus calls its subscribers back, and is no part."""
    parts = [value for value in vars(github).values() if _is_part(value)]
    assert len(parts) > 15
    for part in parts:
        _walk(part, (github,))


def _walk(part: Any, way: tuple[Any, ...]) -> None:
    assert all(one is not part for one in way), f"{part} is reached from itself"
    for one in _held(part):
        _walk(one, (*way, part))


def _held(part: Any) -> Iterator[Any]:
    names = [*getattr(part, "__dict__", ()), *getattr(part, "__slots__", ())]
    return (one for one in (getattr(part, name) for name in names) if _is_part(one))


def _is_part(value: Any) -> bool:
    return value.__class__.__module__.startswith(_PARTS) and not isinstance(value, EventBus)
