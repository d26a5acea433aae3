"""Read each base branch's policy: the operator's settings, changed by its repository's `.github/imq.yml`.

The file is read from the base branch, never from a pull request, else from the owner's repository `.github`. It is
cached for an hour, or for a day if there is none, and read again after a push that changes it. Processes share the
files that they read in the last minutes through the database. An invalid file affects its own repository only. The
owner's file counts as far as the operator allows, and only if changes to it need a review: otherwise anyone who may
create a repository would decide for all of them.

A repository's `generation` in the database counts changes, so that no process uses an old file after its next check.
An invalid file makes a policy with a `fault`: the repository's queues pause, the comment names the line, and no label
counts as removed in the meantime.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import accumulate
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache, TLRUCache

from bot.gateway.people import KnownTeams
from queue_engine.config.document import MAX_CHARACTERS, ConfigError, as_json
from queue_engine.config.file import Config, labels_of, policy_for, queue_only_labels_of
from queue_engine.config.model import Policy
from queue_engine.config.parse import declared_mode, read
from queue_engine.config.shared import levels, limited, not_reviewed
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError, Invalid, RateLimitError
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode, SharedConfig
from queue_engine.rules.eligibility import may_queue
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Store
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

    async def read_ahead(self, files: Iterable[ConfigFile]) -> None:
        """Parse these files together in one thread, so that `parse` finds the valid ones parsed."""
        texts = {found.text: found.parsed for found in files if found.text is not None}
        new = {key: (text, parsed) for text, parsed in texts.items() if (key := _key(text)) not in self._parsed}
        if new:
            self._parsed.update(await asyncio.to_thread(self._valid_ones, new))

    def _valid_ones(self, texts: Mapping[bytes, tuple[str, str | None]]) -> Mapping[bytes, Config]:
        found = {}
        for key, (text, parsed) in texts.items():
            with suppress(ConfigError):  # `parse` says what is wrong.
                found[key] = read(text, self._defaults, parsed=parsed)
        return found

    async def _valid(self, text: str, parsed: str | None) -> Config:
        """Return the parsed file. Raises ConfigError."""
        key = _key(text)
        config = self._parsed.get(key)
        if config is None:
            # In a thread, because a hostile file may take half a second.
            config = self._parsed[key] = await asyncio.to_thread(read, text, self._defaults, parsed=parsed)
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
            config = await self._valid(found.text, found.parsed)
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


class Files(Protocol):
    """Reads configuration files. The gateway implements it."""

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """Read the file at this branch, or at the default branch; None if there is none."""
        ...

    async def configurations(self, repositories: Sequence[Repository]) -> Mapping[int, str | None]:
        """Read the default branches' files of these repositories, by id; those that need a read alone are missing."""
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


_CACHED_FOR = timedelta(hours=1)
"""The bound on the effect of a lost webhook. A conditional request for an unchanged file costs nothing."""
_ABSENCE_CACHED_FOR = timedelta(hours=24)
"""The same for a missing file, for which each request counts."""
_SHARED_FOR = timedelta(minutes=10)
"""How long other processes may take a file from the database."""
_TOGETHER = 50
"""How many files are read ahead by one request, which shows hundreds of kilobytes at most (as configurations go)."""


@dataclass(frozen=True, slots=True)
class _CachedFile:
    """A file that was read, or None for a missing one, and its repository's generation at that time."""

    found: Found | None
    generation: int
    policies: dict[str, Policy] = field(default_factory=dict)
    """Of its branches, once they were asked for."""


def _until(key: Hashable, read: _CachedFile, now: float) -> float:
    """Return when a file is read again."""
    return now + (_ABSENCE_CACHED_FOR if read.found is None else _CACHED_FOR).total_seconds()


class Policies:
    """Implements `queue_engine.rules.policies.Policies`."""

    def __init__(
        self,
        files: Files,
        store: Store,
        defaults: Policy,
        clock: Clock,
        *,
        forget_rules: Callable[[int], None],
        teams: KnownTeams,
        shared: SharedConfig = SharedConfig.TIGHTEN,
    ) -> None:
        """`defaults` is the operator's policy.

        `forget_rules` drops the cached branch rules of a repository, by its id. `teams` adds the members of teams.
        `shared` limits the effect of an owner's shared configuration.
        """
        self._files = files
        self._shared = shared
        self._forget_rules = forget_rules
        self._teams = teams
        self._used_generations: LRUCache[int, int] = LRUCache(MAX_FILES)
        """The newest generation of each repository that this process has used."""
        self._store = store
        self._defaults = defaults
        self._clock = clock
        self._forgotten: LRUCache[str, datetime] = LRUCache(MAX_FILES)
        """When each file was dropped: older versions in the database are not used, either."""
        self._cache: TLRUCache[Hashable, _CachedFile] = TLRUCache(
            MAX_FILES, ttu=_until, timer=lambda: clock.now().timestamp()
        )
        self._reader = ConfigReader(defaults, shared)
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        """One lock per file, so that concurrent callers share one read."""

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """Return the policy of this base branch; with a `fault` if its file is invalid. Raises GitHubError."""
        policy = self._policy(await self._found(repository, base_branch), base_branch)
        return await self._teams.apply(policy, repository, file=f"{FILE} of {base_branch}")

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        """Return the policy if the files are cached at these generations, the own one first; else None."""
        known = self._cached_for((repository, base_branch, generations))
        if known is None:
            return None
        if base_branch not in known.policies:
            known.policies[base_branch] = self._policy(known.found, base_branch)
        return known.policies[base_branch]

    def _cached_for(self, wanted: PolicyKey) -> _CachedFile | None:
        """Return the file that decides, if it is cached."""
        repository, base_branch, (own, shared) = wanted
        known = self._cached((repository.id, base_branch), own)
        if known is not None and known.found is None and self._shared is not SharedConfig.OFF:
            known = self._cached(repository.owner.casefold(), shared)
        return known

    async def recall(self, wanted: Sequence[PolicyKey]) -> Collection[PolicyKey]:
        """Cache these policies as far as processes shared their files through the database; sends no request.

        Parses no more text at a time than one file may have: other queues wait for that.
        """
        files, now = self._uncached(wanted), self._clock.now()
        generations = {row: generation for row, (_, generation) in files.items()}
        async with self._store.reading() as tx:
            shared = _as_much_as_one_file(await tx.configuration_files.some(generations, since=now - _SHARED_FOR))
        await self._reader.read_ahead(shared.values())
        for row, loaded in shared.items():
            file, generation = files[row]
            found = await self._reader.parse(file, loaded)
            # A webhook may have dropped the file in the last minutes, or while it was parsed.
            if self._forgotten.get(row, now - _SHARED_FOR) <= now - _SHARED_FOR:
                self._cache[file.key] = _CachedFile(found, generation)
        return {key for key in wanted if self._cached_for(key) is not None}

    async def read_ahead(self, repositories: Sequence[Repository]) -> None:
        """Read the default branches' files of one installation together, and share them through the database."""
        for start in range(0, len(repositories), _TOGETHER):
            try:
                await self._read_together(repositories[start : start + _TOGETHER])
            except RateLimitError:
                raise
            except GitHubError as error:
                _log.info("configurations_read_singly", error=error.message)
                return

    async def _read_together(self, repositories: Sequence[Repository]) -> None:
        rows, now = {each.id: row_of(own_file(each, None).key) for each in repositories}, self._clock.now()
        async with self._store.reading() as tx:
            generations = await tx.repositories.generations(rows)
            of_rows = {row: generations[each] for each, row in rows.items()}
            # What is nearly too old would be read again by each job of a sweep.
            known = await tx.configuration_files.some(of_rows, since=now - _SHARED_FOR / 2)
        unknown = [each for each in repositories if rows[each.id] not in known]
        texts = await self._files.configurations(unknown) if unknown else {}
        found = await _parsed_once(ConfigFile(text) for text in texts.values())
        async with self._store.transaction() as tx:
            for each, file in zip(texts, found, strict=True):
                await tx.configuration_files.put(rows[each], generations[each], file, now)

    def _uncached(self, wanted: Sequence[PolicyKey]) -> dict[str, tuple[File, int]]:
        """Return the files of these policies that are not cached, with their generations, by their rows."""
        files = dict[str, tuple[File, int]]()
        for repository, branch, (own, shared) in wanted:
            self._forget_outdated_rules(repository.id, own)
            of_owner = () if self._shared is SharedConfig.OFF else ((shared_file(repository), shared),)
            for file, generation in ((own_file(repository, branch), own), *of_owner):
                if self._cached(file.key, generation) is None:
                    files[row_of(file.key)] = file, generation
        return files

    def _policy(self, found: Found | None, base_branch: str) -> Policy:
        if found is None:
            return self._defaults
        policy = policy_for(found.config, self._defaults, base_branch)
        ignored = found.not_followed
        if found.shared:
            policy = limited(policy, self._defaults, self._shared)
            ignored += policy.not_followed
        return replace(policy, fault=found.fault, not_followed=ignored)

    async def mode(self, repository: Repository) -> Mode | None:
        """Return the mode that the default branch's file asks for; None if a faulty file names none."""
        found = await self._found(repository, None)
        if found is not None and found.fault is not None:
            return found.mode
        wanted = None if found is None else found.config.mode
        return self._defaults.mode if wanted is None else Mode(wanted)

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Return every trigger label in the default branch's file. Raises GitHubError."""
        found = await self._found(repository, None)
        if found is None or (found.shared and self._shared is not SharedConfig.TRUST):
            # A shared configuration that may only tighten adds no label.
            return self._defaults.trigger_labels
        return labels_of(found.config, self._defaults)

    async def testing_labels(self, repository: Repository) -> tuple[str, ...]:
        """Return every testing label in the default branch's file. Raises GitHubError."""
        found = await self._found(repository, None)
        if found is None or (found.shared and self._shared is SharedConfig.OFF):
            return ()
        if not found.shared or self._shared is SharedConfig.TRUST:
            return queue_only_labels_of(found.config, self._defaults)
        # A shared configuration that may only tighten can ask for checks, and not for a label of its own.
        return (self._defaults.checks.testing_label,) if queue_only_labels_of(found.config, self._defaults) else ()

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether the default branch's file lets this reader queue for any branch. Raises GitHubError."""
        found = await self._found(repository, None)
        policies = [self._defaults]
        if found is not None:
            allowed = self._shared if found.shared else SharedConfig.TRUST
            policies = [policy for _, policy in levels(found.config, self._defaults, allowed)]
        policies = [await self._teams.apply(policy, repository, file=FILE) for policy in policies]
        return any(may_queue(policy, login, Permission.READ) is None for policy in policies)

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """Whether this branch's own file, or its absence, is cached."""
        return (repository_id, base_branch) in self._cache

    def forget(self, repository_id: int) -> None:
        """Drop the cached files of this repository."""
        for key in [key for key in self._cache if isinstance(key, tuple) and key[0] == repository_id]:
            self._cache.pop(key, None)
            self._forgotten[row_of(key)] = self._clock.now()

    async def _found(self, repository: Repository, branch: str | None) -> Found | None:
        own, shared = await self._generations(repository)
        self._forget_outdated_rules(repository.id, own)
        fetch = partial(self._files.configuration, repository, branch)
        found = await self._read(own_file(repository, branch), own, partial(fetch_file, fetch, None))
        if found is not None or self._shared is SharedConfig.OFF:
            return found
        fetch = partial(self._files.organisation_configuration, repository)
        reviewed = partial(self._files.organisation_configuration_is_reviewed, repository)
        return await self._read(shared_file(repository), shared, partial(fetch_file, fetch, reviewed))

    async def _generations(self, repository: Repository) -> tuple[int, int]:
        """Return the generations of the repository and of the shared one, which any process may have increased."""
        own, shared_id, shared = await self._store.read(lambda tx: tx.repositories.settings(repository, SHARED))
        if shared_id is not None:
            self._forget_outdated_rules(shared_id, shared)
        return own, shared

    def _forget_outdated_rules(self, repository_id: int, generation: int) -> None:
        """Drop the branch rules as well if the generation has increased: none is older than the policy."""
        if generation > self._used_generations.get(repository_id, -1):
            self._used_generations[repository_id] = generation
            self._forget_rules(repository_id)

    async def _read(self, file: File, generation: int, fetch: Callable[[], Awaitable[ConfigFile]]) -> Found | None:
        async with self._locks.setdefault(file.key, asyncio.Lock()):
            known = self._cached(file.key, generation)
            if known is None:
                loaded = await self._load(file, generation, fetch)
                known = _CachedFile(await self._reader.parse(file, loaded), generation)
                self._cache[file.key] = known
            return known.found

    def _cached(self, key: Hashable, generation: int) -> _CachedFile | None:
        known: _CachedFile | None = self._cache.get(key)
        return known if known is not None and known.generation == generation else None

    async def _load(self, file: File, generation: int, fetch: Callable[[], Awaitable[ConfigFile]]) -> ConfigFile:
        """Load the file from the database, else from GitHub."""
        row, now = row_of(file.key), self._clock.now()
        since = max(now - _SHARED_FOR, self._forgotten.get(row, now - _SHARED_FOR))
        found = await self._store.read(lambda tx: tx.configuration_files.find(row, generation, since=since))
        if found is None:
            (found,) = await _parsed_once([await fetch()])
            await self._store.write(lambda tx: tx.configuration_files.put(row, generation, found, now))
        return found


async def _parsed_once(files: Iterable[ConfigFile]) -> Sequence[ConfigFile]:
    """Parse each text of these files for all processes, in a thread, because a hostile one may take half a second."""
    files = tuple(files)
    texts = {found.text for found in files if found.text is not None}
    parsed = await asyncio.to_thread(lambda: {text: as_json(text) for text in texts})
    return [found if found.text is None else replace(found, parsed=parsed[found.text]) for found in files]


def _as_much_as_one_file(files: Mapping[str, ConfigFile]) -> Mapping[str, ConfigFile]:
    """Return the first of these files, with no more text than one file may have."""
    sizes = accumulate(len(loaded.text or "") for loaded in files.values())
    return {row: loaded for (row, loaded), size in zip(files.items(), sizes, strict=True) if size <= MAX_CHARACTERS}
