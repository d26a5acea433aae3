"""Each base branch's policy: the operator's settings, and what its repository's `.github/imq.yml` makes of them.

The file is read from the base branch, never from a pull request, else from the owner's repository `.github`. It is
remembered, for an hour or where there is none for a day, and read anew when a push says that it changed. A broken one
harms its own repository only. The owner's file counts as far as the operator allows, and only where the rules ask for a
review before it changes: else anybody who may create a repository would decide for all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache, TLRUCache

from queue_engine.config.effective import labels_of, policy_for
from queue_engine.config.model import Config
from queue_engine.config.problems import ConfigError
from queue_engine.config.reading import read
from queue_engine.config.shared import levels, limited, not_reviewed
from queue_engine.core.clock import Clock
from queue_engine.door import may_queue
from queue_engine.errors import Invalid
from queue_engine.facts import Permission
from queue_engine.model import Repository
from queue_engine.policy import Policy, SharedConfig
from queue_engine.store import Store

FILE = ".github/imq.yml"
SHARED = ".github"
"""The repository in which an owner keeps what holds for all of its others."""

_REMEMBERED = timedelta(hours=1)
"""Webhooks tell of changes; this bounds how long one that was lost can mislead. Unchanged, it costs nothing to ask."""
_ABSENT_FOR = timedelta(hours=24)
"""The same where there is no file, as in most repositories: GitHub counts each time that it has to say so."""
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
    """Answers `queue_engine.policies.Policies` for every repository."""

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
        """Have the branch rules read anew, too, if they changed: whichever process heard of it.

        Whoever needs a branch's rules asks for its policy first, so that none goes by rules older than its policy.
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
                known = _Remembered(await self._ask(file, ask, reviewed), generation)
                self._cache[file.key] = known
            return known.found

    async def _ask(
        self, file: _File, ask: Callable[[], Awaitable[str | None]], reviewed: Callable[[], Awaitable[bool]] | None
    ) -> _Found | None:
        text, unreadable = None, None
        try:
            text = await ask()
        except Invalid as error:
            unreadable = error
        if text is None and unreadable is None:
            return None
        # Before anything else: a shared file that does not count stops nobody's queue, either.
        if reviewed is not None and not await reviewed():
            return self._unreviewed(file)
        if text is None:
            assert unreadable is not None
            return self._broken(file, (f" {unreadable.message.removeprefix(FILE).strip()}",))
        try:
            # In a thread: a hostile file may take half a second, in which all others go on.
            config = await asyncio.to_thread(read, text, self._defaults)
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
