"""Decide whether pull requests are meant to land on a branch: one answer for clean-up, stacks and admission."""

from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.rules.stacks import is_ruled


async def is_landed_on(engine: Engine, repository: Repository, branch: str, default_branch: str) -> bool:
    """Whether pull requests are meant to land on this branch, although it may be the head of a pull request.

    So is the default branch, one that the configuration names, one with rules, and one whose queue IMQ has used.
    Raises GitHubError.
    """
    if branch == default_branch or await is_named_or_used(engine, repository, branch):
        return True
    return is_ruled(await engine.github.branch_rules(repository, branch))


async def is_named_or_used(engine: Engine, repository: Repository, branch: str) -> bool:
    """Whether the configuration names the branch, or its queue has entries, or IMQ has landed a pull request on it."""
    if (await engine.policies.of(repository, branch)).is_named:
        return True
    async with engine.store.reading() as tx:
        queue = await tx.queues.find(repository.id, branch)
        if queue is not None and await tx.entries.count(queue.id):
            return True
        return await tx.timeline.has_event(repository.id, branch, "landed")
