"""One webhook event before it is addressed to an app."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from github_emulator.events.events import RepositoryEvent
from github_emulator.payloads.source import Source
from github_emulator.state import App

Content = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Message:
    """GitHub's name of an event, its action, and what makes its own fields; with `only` it concerns that app alone."""

    name: str
    action: str | None
    content: Content
    only: App | None = None


Composer = Callable[[Source, Any], Iterable[Message]]
"""Makes the messages of an event of one class."""
Composers = Mapping[type[RepositoryEvent], Composer]
