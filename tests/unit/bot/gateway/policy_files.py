"""Configuration files that a test sets, and their reads counted."""

import asyncio
from collections.abc import Mapping, Sequence

from queue_engine.config.model import Policy
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.store import Store

DEFAULTS = Policy(trigger_labels=("go",), depth=7)


class Files:
    """GitHub as far as configurations go; counts what it is asked."""

    def __init__(self) -> None:
        self.own: dict[tuple[int, str | None], str | GitHubError] = {}
        self.shared: str | GitHubError | None = None
        self.together: GitHubError | None = None
        self.reviewed = True
        self.asked: list[str] = []
        self.began = asyncio.Event()
        self.gate: asyncio.Event | None = None

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        self.asked.append(f"{repository.name}:{base_branch or 'HEAD'}")
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        text = self.own.get((repository.id, base_branch))
        if isinstance(text, GitHubError):
            raise text
        return text

    async def configurations(self, repositories: Sequence[Repository]) -> Mapping[int, str | None]:
        self.asked.append(f"{len(repositories)} together")
        texts = {each.id: self.own.get((each.id, None)) for each in repositories}
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.together, GitHubError):
            raise self.together
        return {each: text for each, text in texts.items() if not isinstance(text, GitHubError)}

    async def organisation_configuration(self, repository: Repository) -> str | None:
        self.asked.append(".github")
        if isinstance(self.shared, GitHubError):
            raise self.shared
        return self.shared

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        self.asked.append("rules of .github")
        return self.reviewed


class Renewed:
    """What the engine does when a push says that a configuration changed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, repository: Repository) -> None:
        async with self._store.transaction() as tx:
            await tx.repositories.refresh(repository)
            await tx.repositories.renew_settings(repository.id)
