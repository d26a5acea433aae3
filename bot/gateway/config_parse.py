"""Parse configuration files, each with its description for people; an invalid one affects its own repository only."""

import asyncio
from collections.abc import Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

import structlog
from cachetools import LRUCache

from queue_engine.config.document import ConfigError
from queue_engine.config.file import Config
from queue_engine.config.model import Policy
from queue_engine.config.parse import declared_mode, read
from queue_engine.config.shared import levels, not_reviewed
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode, SharedConfig
from queue_engine.store.repositories import ConfigFile

FILE = ".github/imq.yml"
SHARED = ".github"
"""The repository with an owner's shared configuration."""

MAX_FILES = 10_000
_MOST_PARSED = 1_000
"""Texts of which the parsed form is kept."""

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
        self._parsed: LRUCache[bytes, Config] = LRUCache(_MOST_PARSED)
        """Valid files by the hash of their text: repositories of one owner often have the same one."""

    async def read_ahead(self, texts: Collection[str]) -> None:
        """Parse these texts together in one thread, so that `parse` finds the valid ones parsed."""
        new = {key: text for text in texts if (key := _key(text)) not in self._parsed}
        if new:
            self._parsed.update(await asyncio.to_thread(self._valid_ones, new))

    def _valid_ones(self, texts: Mapping[bytes, str]) -> Mapping[bytes, Config]:
        found = {}
        for key, text in texts.items():
            with suppress(ConfigError):  # `parse` says what is wrong.
                found[key] = read(text, self._defaults)
        return found

    async def _valid(self, text: str) -> Config:
        """Return the parsed file. Raises ConfigError."""
        key = _key(text)
        config = self._parsed.get(key)
        if config is None:
            # In a thread, because a hostile file may take half a second.
            config = self._parsed[key] = await asyncio.to_thread(read, text, self._defaults)
        return config

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
            config = await self._valid(found.text)
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


def _key(text: str) -> bytes:
    return sha256(text.encode()).digest()
