"""Parse configuration files, each with its description for people; an invalid one affects its own repository only."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

import structlog
from cachetools import LRUCache

from queue_engine.config.model import Config
from queue_engine.config.parse import declared_mode, read
from queue_engine.config.problems import ConfigError
from queue_engine.config.shared import levels, not_reviewed
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode, Policy, SharedConfig
from queue_engine.store.operations.config_files import ConfigFile

FILE = ".github/imq.yml"
SHARED = ".github"
"""The repository with an owner's shared configuration."""

MAX_FILES = 10_000

_log = structlog.get_logger("imq.policies")


@dataclass(frozen=True, slots=True)
class File:
    """A file: its cache key, its repository, and its description for people."""

    key: Hashable
    repository: str
    where: str
    shared: bool = False
    """Whether it is the owner's shared file."""


@dataclass(frozen=True, slots=True)
class Found:
    """A parsed file; with a fault it is the last valid one."""

    config: Config
    fault: str | None
    shared: bool = False
    not_followed: tuple[str, ...] = ()
    """Why the whole file is ignored."""
    mode: Mode | None = None
    """The mode that a faulty file asks for."""


def own_file(repository: Repository, branch: str | None) -> File:
    """Return the file of the repository itself, on this branch or on the default branch."""
    return File((repository.id, branch), repository.full_name, f"{FILE} of {branch or 'the default branch'}")


def shared_file(repository: Repository) -> File:
    """Return the file that the owner of this repository shares."""
    name = f"{repository.owner}/{SHARED}"
    return File(repository.owner.casefold(), name, f"{FILE} of {name}", shared=True)


class ConfigReader:
    """Parses files. `defaults` is the operator's policy; `shared` limits an owner's shared configuration."""

    def __init__(self, defaults: Policy, shared: SharedConfig) -> None:
        self._defaults = defaults
        self._shared = shared
        self._last_valid: LRUCache[Hashable, Config] = LRUCache(MAX_FILES)
        """The last valid version of each file, used while the current one is invalid."""

    async def parse(self, file: File, found: ConfigFile) -> Found | None:
        """Parse a file that was read; None for a missing one."""
        if found.text is None and found.unreadable is None:
            return None
        # Before parsing: an ignored shared file must not pause any queue.
        if not found.reviewed:
            return self._unreviewed(file)
        if found.text is None:
            assert found.unreadable is not None
            return self._broken(file, (f" {found.unreadable.removeprefix(FILE).strip()}",))
        try:
            # In a thread, because a hostile file may take half a second.
            config = await asyncio.to_thread(read, found.text, self._defaults)
        except ConfigError as error:
            mode = declared_mode(found.text)
            return self._broken(file, tuple(f", {problem}" for problem in error.problems), mode)
        self._last_valid[file.key] = config
        if file.shared:
            self._log_ignored(file, config)
        return Found(config, None, file.shared)

    def _unreviewed(self, file: File) -> Found:
        why = not_reviewed(file.repository)
        _log.warning("shared_configuration_ignored", repository=file.repository, why=why)
        return Found(Config(), None, file.shared, (why,))

    def _log_ignored(self, file: File, config: Config) -> None:
        found = levels(config, self._defaults, self._shared)
        if ignored := dict.fromkeys(sentence for _, policy in found for sentence in policy.not_followed):
            _log.warning("shared_configuration_limited", repository=file.repository, ignored=tuple(ignored))

    def _broken(self, file: File, problems: tuple[str, ...], mode: Mode | None = None) -> Found:
        messages = tuple(f"{file.where}{problem}" for problem in problems)
        _log.warning("configuration_broken", repository=file.repository, problems=messages)
        return Found(self._last_valid.get(file.key, Config()), messages[0], file.shared, mode=mode)
