"""Requests of the tests of errors."""

from bot.gateway import Gateway
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository

MERGE = "/repos/ada/engine/pulls/3/merge"
PULL = "/repos/ada/engine/pulls/3"


async def _merge(gateway: Gateway, repository: Repository) -> str:
    return await gateway.merge(repository, 3, "h1", MergeMethod.SQUASH)
