"""The names of repositories, which follow renames and transfers: a repository's id is its identity."""

from dataclasses import replace

import structlog

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.repositories")


def named_by(pull: PullRequest, repository: Repository) -> Repository:
    """The repository as GitHub names it where it was read, which follows renames and transfers."""
    owner, _, name = pull.base_repository.partition("/")
    return replace(repository, owner=owner, name=name) if name else repository


async def remember_name(engine: Engine, repository: Repository) -> None:
    """This is how it is called now: its queues, entries and letters follow."""
    async with engine.change() as change:
        await change.tx.queues.refresh_repository(repository)
    _log.info("repository_renamed", repository=repository.full_name, id=repository.id)
