"""Read each base branch's policy: the operator's settings, changed by its repository's `.github/imq.yml`.

The file is read from the base branch, never from a pull request, else from the owner's repository `.github`. It is
remembered, for an hour or where there is none for a day, and read again when a push says that it changed. What one
process has read in the last minutes others take from the database: a process that starts reads nothing. A broken one
harms its own repository only. The owner's file counts as far as the operator allows, and only where the rules ask for a
review before it changes: else anybody who may create a repository would decide for all of them.

A repository's `generation` in the database counts changes, so that no process uses an old file beyond its next look.
A file that cannot be used makes a policy with a `fault`: the repository's queues pause, the comment names the line,
and no label counts as removed meanwhile. The last ten minutes' files are shared between processes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache, TLRUCache

from queue_engine.config.model import Config
from queue_engine.config.parse import read
from queue_engine.config.policy import labels_of, policy_for
from queue_engine.config.problems import ConfigError
from queue_engine.config.shared import levels, limited, not_reviewed
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Invalid
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy, SharedConfig
from queue_engine.rules.eligibility import may_queue
from queue_engine.store import Store
from queue_engine.store.operations.config_files import ConfigFile

FILE = ".github/imq.yml"
SHARED = ".github"
"""The repository in which an owner keeps what holds for all of its others."""

_REMEMBERED = timedelta(hours=1)
"""Webhooks tell of changes; this bounds how long one that was lost can mislead. Unchanged, it costs nothing to ask."""
_ABSENT_FOR = timedelta(hours=24)
"""The same where there is no file, as in most repositories: GitHub counts each time that it has to say so."""
_SHARED_FOR = timedelta(minutes=10)
"""For how long other processes go by what one has read; each of them then remembers it."""
_MOST_FILES = 10_000

_log = structlog.get_logger("imq.policies")


class Files(Protocol):
    """Where configurations are read. Answered by the gateway."""

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """The text at this branch, or at the default branch; None if there is none."""
        ...

    async def organisation_configuration(self, repository: Repository) -> str | None:
        """The text in the owner's repository `.github`; None if there is none to be read."""
        ...

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        """Whether that file changes only with an approving review."""
        ...


@dataclass(frozen=True, slots=True)
class _File:
    """One file: what it is remembered by, whose it is, and as what people know it."""

    key: Hashable
    repository: str
    where: str
    shared: bool = False
    """Whether it is the owner's, for all of its repositories."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file as far as it can be followed: with a fault it is the last one that had none."""

    config: Config
    fault: str | None
    shared: bool = False
    not_followed: tuple[str, ...] = ()
    """Why the file as a whole does not count."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What was read, or that there is no file, and the generation of its repository that it was read under."""

    found: _Found | None
    generation: int


def _until(key: Hashable, read: _Remembered, now: float) -> float:
    """When this is to be read again."""
    return now + (_ABSENT_FOR if read.found is None else _REMEMBERED).total_seconds()


class Policies:
    """Answers `queue_engine.rules.policies.Policies` for every repository."""

    def __init__(
        self,
        files: Files,
        store: Store,
        defaults: Policy,
        clock: Clock,
        *,
        forget_rules: Callable[[int], None],
        shared: SharedConfig = SharedConfig.TIGHTEN,
    ) -> None:
        """`defaults` is the operator's policy, which holds where no file says otherwise.

        `forget_rules` drops what this process remembers of a repository's branch rules, by the repository's id.
        `shared` is what the operator lets the configuration in an owner's repository `.github` do.
        """
        self._files = files
        self._shared = shared
        self._forget_rules = forget_rules
        self._seen: LRUCache[int, int] = LRUCache(_MOST_FILES)
        """The newest generation of each repository that this process has gone by."""
        self._store = store
        self._defaults = defaults
        self._clock = clock
        self._forgotten: LRUCache[str, datetime] = LRUCache(_MOST_FILES)
        """When each file was forgotten: what was read before is not taken from the database, either."""
        self._cache: TLRUCache[Hashable, _Remembered] = TLRUCache(
            _MOST_FILES, ttu=_until, timer=lambda: clock.now().timestamp()
        )
        self._good: LRUCache[Hashable, Config] = LRUCache(_MOST_FILES)
        """The last of each file that could be used: a broken one must not make queued labels mean nothing."""
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        """One lock per file while somebody reads it: who comes meanwhile takes that answer."""

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """The policy of this base branch; with a `fault` if its file cannot be used. Raises GitHubError."""
        found = await self._found(repository, base_branch)
        if found is None:
            return self._defaults
        policy = policy_for(found.config, self._defaults, base_branch)
        ignored = found.not_followed
        if found.shared:
            policy = limited(policy, self._defaults, self._shared)
            ignored += policy.not_followed
        return replace(policy, fault=found.fault, not_followed=ignored)

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Every trigger label of this repository, as its default branch's file has them. Raises GitHubError."""
        found = await self._found(repository, None)
        if found is None or (found.shared and self._shared is not SharedConfig.TRUST):
            # A shared configuration that may only tighten adds no label.
            return self._defaults.trigger_labels
        return labels_of(found.config, self._defaults)

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether some branch's policy in the default branch's file lets them. Raises GitHubError."""
        found = await self._found(repository, None)
        policies = [self._defaults]
        if found is not None:
            allowed = self._shared if found.shared else SharedConfig.TRUST
            policies = [policy for _, policy in levels(found.config, self._defaults, allowed)]
        return any(may_queue(policy, login, Permission.READ) is None for policy in policies)

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """Whether this branch's own file, or that there is none, is remembered."""
        return (repository_id, base_branch) in self._cache

    def forget(self, repository_id: int) -> None:
        """Drop what is remembered of this repository's own files."""
        for key in [key for key in self._cache if isinstance(key, tuple) and key[0] == repository_id]:
            self._cache.pop(key, None)
            self._forgotten[_row(key)] = self._clock.now()

    async def _found(self, repository: Repository, branch: str | None) -> _Found | None:
        own, shared = await self._generations(repository)
        self._follow(repository.id, own)
        asking = partial(self._files.configuration, repository, branch)
        where = f"{FILE} of {branch or 'the default branch'}"
        found = await self._read(_File((repository.id, branch), repository.full_name, where), own, asking)
        if found is not None or self._shared is SharedConfig.OFF:
            return found
        asking = partial(self._files.organisation_configuration, repository)
        name = f"{repository.owner}/{SHARED}"
        file = _File(repository.owner.casefold(), name, f"{FILE} of {name}", shared=True)
        reviewed = partial(self._files.organisation_configuration_is_reviewed, repository)
        return await self._read(file, shared, asking, reviewed)

    async def _generations(self, repository: Repository) -> tuple[int, int]:
        """How often the repository's own files have changed, and its owner's: any process may have heard of it."""
        async with self._store.reading() as tx:
            shared = await tx.queues.repository(repository.owner, SHARED)
            own = await tx.queues.generation(repository.id)
            generation = await tx.queues.generation(shared.id) if shared else 0
        if shared:
            self._follow(shared.id, generation)
        return own, generation

    def _follow(self, repository_id: int, generation: int) -> None:
        """Have the branch rules read again, too, if they changed, by whichever process received that.

        A caller asks for a branch's policy before its rules, so that the rules are never older than the policy.
        """
        if generation > self._seen.get(repository_id, -1):
            self._seen[repository_id] = generation
            self._forget_rules(repository_id)

    async def _read(
        self,
        file: _File,
        generation: int,
        ask: Callable[[], Awaitable[str | None]],
        reviewed: Callable[[], Awaitable[bool]] | None = None,
    ) -> _Found | None:
        async with self._turns.setdefault(file.key, asyncio.Lock()):
            known: _Remembered | None = self._cache.get(file.key)
            if known is None or known.generation != generation:
                known = _Remembered(
                    await self._understood(file, await self._fetched(file, generation, ask, reviewed)), generation
                )
                self._cache[file.key] = known
            return known.found

    async def _fetched(
        self,
        file: _File,
        generation: int,
        ask: Callable[[], Awaitable[str | None]],
        reviewed: Callable[[], Awaitable[bool]] | None,
    ) -> ConfigFile:
        """The file as some process read it in the last minutes, else as GitHub shows it now."""
        row, now = _row(file.key), self._clock.now()
        since = max(now - _SHARED_FOR, self._forgotten.get(row, now - _SHARED_FOR))
        async with self._store.reading() as tx:
            found = await tx.configuration_files.find(row, generation, since=since)
        if found is None:
            found = await _ask(ask, reviewed)
            async with self._store.transaction() as tx:
                await tx.configuration_files.put(row, generation, found, now)
        return found

    async def _understood(self, file: _File, found: ConfigFile) -> _Found | None:
        if found.text is None and found.unreadable is None:
            return None
        # Before anything else: a shared file that does not count stops nobody's queue, either.
        if not found.reviewed:
            return self._unreviewed(file)
        if found.text is None:
            assert found.unreadable is not None
            return self._broken(file, (f" {found.unreadable.removeprefix(FILE).strip()}",))
        try:
            # In a thread: a hostile file may take half a second, in which all others go on.
            config = await asyncio.to_thread(read, found.text, self._defaults)
        except ConfigError as error:
            return self._broken(file, tuple(f", {problem}" for problem in error.problems))
        self._good[file.key] = config
        if file.shared:
            self._tell_loosening(file, config)
        return _Found(config, None, file.shared)

    def _unreviewed(self, file: _File) -> _Found:
        why = not_reviewed(file.repository)
        _log.warning("shared_configuration_ignored", repository=file.repository, why=why)
        return _Found(Config(), None, file.shared, (why,))

    def _tell_loosening(self, file: _File, config: Config) -> None:
        found = levels(config, self._defaults, self._shared)
        if ignored := dict.fromkeys(sentence for _, policy in found for sentence in policy.not_followed):
            _log.warning("shared_configuration_limited", repository=file.repository, ignored=tuple(ignored))

    def _broken(self, file: _File, problems: tuple[str, ...]) -> _Found:
        told = tuple(f"{file.where}{problem}" for problem in problems)
        _log.warning("configuration_broken", repository=file.repository, problems=told)
        return _Found(self._good.get(file.key, Config()), told[0], file.shared)


async def _ask(ask: Callable[[], Awaitable[str | None]], reviewed: Callable[[], Awaitable[bool]] | None) -> ConfigFile:
    """What GitHub shows of a file now; of one that is there, whether it changes only with a review."""
    text, unreadable = None, None
    try:
        text = await ask()
    except Invalid as error:
        unreadable = error.message
    there = text is not None or unreadable is not None
    return ConfigFile(text, unreadable, reviewed=not there or reviewed is None or await reviewed())


def _row(key: Hashable) -> str:
    """What a file is stored by: no owner's name holds a colon."""
    return ":".join("" if part is None else str(part) for part in key) if isinstance(key, tuple) else str(key)
