"""A GitHub with a manual clock, one repository and a few people."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from github_emulator import GitHub, ManualClock, RepositoryHandle

LINES = "".join(f"{number}\n" for number in range(1, 10))


class PublishedEvents:
    """Records every published event, in order."""

    def __init__(self, github: GitHub) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        github.webhooks.observers.append(lambda event, payload: self.events.append((event, payload)))

    def names(self) -> list[str]:
        """`event.action`, or the event alone when it has no action."""
        return [f"{event}.{body['action']}" if "action" in body else event for event, body in self.events]

    def last(self, event: str, action: str | None = None) -> dict[str, Any]:
        """The newest payload of an event."""
        return [body for name, body in self.events if name == event and body.get("action") == action][-1]


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    world = GitHub(ManualClock(), seed=7)
    yield world
    await world.close()


@pytest.fixture
def repository(github: GitHub) -> RepositoryHandle:
    people = {"ann": "write", "bob": "admin", "tim": "triage", "rea": "read"}
    return github.create_repository("octo/app", files={"lines.txt": LINES, "readme": "Hello\n"}, collaborators=people)


@pytest.fixture
def published(github: GitHub) -> PublishedEvents:
    return PublishedEvents(github)


def edited(number: int, text: str = "changed") -> str:
    """`LINES` with one line replaced."""
    return LINES.replace(f"{number}\n", f"{text}\n", 1)
