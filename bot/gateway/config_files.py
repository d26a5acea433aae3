"""Read configuration files, and name their rows in the database."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol

from queue_engine.domain.errors import Invalid
from queue_engine.domain.model import Repository
from queue_engine.store.config_files import ConfigFile


class Files(Protocol):
    """Reads configuration files. The gateway implements it."""

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """Read the file at this branch, or at the default branch; None if there is none."""
        ...

    async def organisation_configuration(self, repository: Repository) -> str | None:
        """Read the file in the owner's repository `.github`; None if it is missing or hidden."""
        ...

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        """Whether a change of that file needs an approving review."""
        ...


async def fetch_file(
    fetch: Callable[[], Awaitable[str | None]], reviewed: Callable[[], Awaitable[bool]] | None
) -> ConfigFile:
    """Read a file from GitHub, and whether a change of an existing one needs a review."""
    text, unreadable = None, None
    try:
        text = await fetch()
    except Invalid as error:
        unreadable = error.message
    there = text is not None or unreadable is not None
    return ConfigFile(text, unreadable, reviewed=not there or reviewed is None or await reviewed())


def row_of(key: Hashable) -> str:
    """Return the database key of a file: no owner's name has a colon."""
    return ":".join("" if part is None else str(part) for part in key) if isinstance(key, tuple) else str(key)
