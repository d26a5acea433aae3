"""Follow people who change their logins, and repositories that are renamed: their numbers are their identity.

After a rename anybody can take the former login, so GitHub's answer about that login may be about somebody else.
"""

from dataclasses import replace

import structlog

from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.logins")


def is_somebody_else(entry: Entry, taken: Snapshot) -> bool:
    """Whether GitHub's answer about the login is not about the account that queued this entry."""
    return entry.queued_by_id is not None and taken.person_id != entry.queued_by_id


async def followed_login(engine: Engine, entry: Entry, taken: Snapshot | None) -> Entry | None:
    """Return the entry with the present login of who queued it, None if unchanged. Raises GitHubError, StaleRecord."""
    if taken is None or entry.queued_by_id is None or not is_somebody_else(entry, taken):
        return None
    login = await engine.github.login_of(entry.repository, entry.queued_by_id)
    if login is None or login == entry.queued_by:
        return None
    async with engine.change() as change:
        saved = await change.tx.entries.save(replace(entry, queued_by=login))
        await change.tx.queues.wake(entry.queue_id, change.now)
    _log.info("login_changed", repository=entry.repository.full_name, number=entry.number, by=login)
    return saved


def named_by(pull: PullRequest, repository: Repository) -> Repository:
    """Return the repository with the name that GitHub used in this pull request."""
    owner, _, name = pull.base_repository.partition("/")
    return replace(repository, owner=owner, name=name) if name else repository


async def remember_name(engine: Engine, repository: Repository) -> None:
    """Store the repository's new name, for its queues, entries and outbox items, too."""
    await engine.write(lambda change: change.tx.repositories.refresh(repository))
    _log.info("repository_renamed", repository=repository.full_name, id=repository.id)
