"""Follow renames and transfers of repositories: a repository's id is its identity."""

from dataclasses import replace

import structlog

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.repositories")


def named_by(pull: PullRequest, repository: Repository) -> Repository:
    """Return the repository with the name that GitHub used in this pull request."""
    owner, _, name = pull.base_repository.partition("/")
    return replace(repository, owner=owner, name=name) if name else repository


async def remember_name(engine: Engine, repository: Repository) -> None:
    """Store the repository's new name, for its queues, entries and outbox items, too."""
    async with engine.change() as change:
        await change.tx.queues.refresh_repository(repository)
    _log.info("repository_renamed", repository=repository.full_name, id=repository.id)
