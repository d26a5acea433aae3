"""Repositories in shadow mode, and their pull requests."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import BindParameter, Row, Select, bindparam, delete, or_, select, update

from queue_engine.core.database.database import TableStore, Upsert
from queue_engine.core.read_model import adapter
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.shadow_pull import ShadowPull
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.repositories import REPOSITORY_FIELDS, remember, repository_of
from queue_engine.store.tables import outbox, rejections, repositories, shadow_pulls

_ID: BindParameter[int] = bindparam("its_repository")
_OF_REPOSITORY = shadow_pulls.c.repository_id == _ID
_MODE = select(repositories.c.mode).where(repositories.c.id == _ID)
_MODES = select(repositories.c.id, repositories.c.mode).where(
    repositories.c.id.in_(bindparam("its_repositories", expanding=True))
)
_SET_MODE = update(repositories).where(repositories.c.id == _ID).values(mode=bindparam("its_mode"))
_IN_SHADOW = select(*REPOSITORY_FIELDS).where(repositories.c.mode == Mode.SHADOW.value).order_by(repositories.c.id)
_PULLS = select(shadow_pulls.c.record, shadow_pulls.c.version, *REPOSITORY_FIELDS).join(
    repositories, repositories.c.id == shadow_pulls.c.repository_id
)
_IN_ORDER = _PULLS.order_by(shadow_pulls.c.repository_id, shadow_pulls.c.number)
_FIND = _PULLS.where(_OF_REPOSITORY, shadow_pulls.c.number == bindparam("its_number"))
_OF_COMMIT = _IN_ORDER.where(
    _OF_REPOSITORY,
    or_(shadow_pulls.c.head_sha == bindparam("its_sha"), shadow_pulls.c.merge_sha == bindparam("its_sha")),
)
_DUE = _IN_ORDER.where(_OF_REPOSITORY, shadow_pulls.c.due_at <= bindparam("now"))
_OPEN = _IN_ORDER.where(_OF_REPOSITORY, shadow_pulls.c.due_at.is_not(None))
_OF_BRANCH = _IN_ORDER.where(_OF_REPOSITORY, shadow_pulls.c.base_branch == bindparam("its_branch"))
_CHANGED = _IN_ORDER.where(shadow_pulls.c.changed_at >= bindparam("since"))
_PURGE = delete(shadow_pulls).where(shadow_pulls.c.changed_at < bindparam("before"))
_ADD = Upsert(shadow_pulls, lambda insert: insert.on_conflict_do_nothing().returning(shadow_pulls.c.number))
_SAVE = (
    update(shadow_pulls)
    .where(
        _OF_REPOSITORY,
        shadow_pulls.c.number == bindparam("its_number"),
        shadow_pulls.c.version == bindparam("its_version"),
    )
    .returning(shadow_pulls.c.number)
)


class Shadow(TableStore):
    """Modes of repositories, and shadowed pull requests, on one connection."""

    async def mode(self, repository_id: int) -> Mode | None:
        """Return the stored mode of a repository; None if its configuration was never read."""
        found = (await self._connection.execute(_MODE, {"its_repository": repository_id})).scalar_one_or_none()
        return None if found is None else Mode(found)

    async def modes(self, repository_ids: Collection[int]) -> dict[int, Mode]:
        """Return the stored modes of these repositories, by their ids."""
        rows = await self._connection.execute(_MODES, {"its_repositories": list(repository_ids)})
        return {row.id: Mode(row.mode) for row in rows if row.mode is not None}

    async def set_mode(self, repository: Repository, mode: Mode) -> None:
        await remember(self._connection, repository)
        await self._connection.execute(_SET_MODE, {"its_repository": repository.id, "its_mode": mode.value})

    async def repositories(self) -> tuple[Repository, ...]:
        """Return the repositories in shadow mode."""
        return tuple(map(repository_of, await self._connection.execute(_IN_SHADOW)))

    async def forget_writes(self, repository_id: int) -> None:
        """Forget everything that IMQ meant to write in this repository, and its rejections.

        Comments and check runs that exist stay on GitHub, and so do their ids here: IMQ corrects them when it may write
        again.
        """
        of_repository = outbox.c.repository_id == repository_id
        unwanted = {"due_at": None, "notice": None, "dead": False, "error": None, "attempts": 0}
        await self._connection.execute(
            update(outbox).where(of_repository).values(**unwanted, version=outbox.c.version + 1)
        )
        labels = delete(outbox).where(of_repository, outbox.c.kind == OutboxKind.LABEL)
        for statement in (labels, delete(rejections).where(rejections.c.repository_id == repository_id)):
            await self._connection.execute(statement)

    async def put(self, pull: ShadowPull, now: datetime) -> None:
        """Store a pull request. Raises StaleRecord if it changed since it was read."""
        await remember(self._connection, pull.repository)
        own = {"repository_id": pull.repository.id, "number": pull.number}
        values = {
            "version": pull.version + 1,
            "base_branch": pull.base_branch,
            "head_sha": pull.head_sha,
            "merge_sha": pull.landing.sha if pull.landing else None,
            "due_at": pull.due_at,
            "changed_at": now,
            "record": adapter(ShadowPull).dump_python(pull, mode="json", exclude_computed_fields=True),
        }
        if pull.version == 0:
            stored = await self._connection.execute(_ADD.on(self._connection), {**own, **values})
        else:
            its_own = {"its_repository": pull.repository.id, "its_number": pull.number, "its_version": pull.version}
            stored = await self._connection.execute(_SAVE, {**values, **its_own})
        if stored.first() is None:
            raise StaleRecord(f"the shadowed pull request {pull.number} changed since it was read")

    async def interrupt(self, repository_id: int, now: datetime) -> None:
        """End the would-be entries of a repository that leaves shadow mode; what was decided about them stays."""
        for pull in await self._many(_IN_ORDER.where(_OF_REPOSITORY), its_repository=repository_id):
            if pull.entry is not None or pull.due_at is not None:
                await self.put(replace(pull, entry=None, due_at=None), now)

    async def find(self, repository_id: int, number: int) -> ShadowPull | None:
        found = await self._many(_FIND, its_repository=repository_id, its_number=number)
        return next(iter(found), None)

    async def of_commit(self, repository_id: int, sha: str) -> tuple[ShadowPull, ...]:
        """Return the pull requests with this head, and those that landed as this commit."""
        return await self._many(_OF_COMMIT, its_repository=repository_id, its_sha=sha)

    async def of_branch(self, repository_id: int, base_branch: str) -> tuple[ShadowPull, ...]:
        return await self._many(_OF_BRANCH, its_repository=repository_id, its_branch=base_branch)

    async def would_be_entries(self, repository_id: int) -> tuple[Entry, ...]:
        """Return the entries that pull requests of a repository would have now, in their queues or outside of them."""
        found = await self._many(_OPEN, its_repository=repository_id)
        return tuple(pull.entry for pull in found if pull.entry is not None)

    async def sharing(self, repository_id: int, number: int, head_branch: str) -> tuple[Entry, ...]:
        """Return the would-be entries of other pull requests with this head branch."""
        found = await self.would_be_entries(repository_id)
        return tuple(each for each in found if each.head_branch == head_branch and each.number != number)

    async def due(self, repository_id: int, now: datetime) -> tuple[ShadowPull, ...]:
        """Return the pull requests of a repository that are to be judged again."""
        return await self._many(_DUE, its_repository=repository_id, now=now)

    async def changed_since(
        self, since: datetime, *, repository_ids: Collection[int] | None = None
    ) -> tuple[ShadowPull, ...]:
        """Return the pull requests that changed since, of these repositories or of all."""
        found = _CHANGED
        if repository_ids is not None:
            found = found.where(shadow_pulls.c.repository_id.in_(repository_ids))
        return await self._many(found, since=since)

    async def purge(self, before: datetime) -> int:
        """Delete the pull requests that did not change since. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount

    async def _many(self, statement: Select[Any], **its_own: object) -> tuple[ShadowPull, ...]:
        rows = await self._connection.execute(statement, its_own)
        return tuple(pull for row in rows if (pull := _pull(row)) is not None)


def _pull(row: Row[Any]) -> ShadowPull | None:
    """Read a row; None for one of another version of IMQ: its pull request is judged again with its next event.

    The repository may have another name by now, or another installation.
    """
    own = {"repository": repository_of(row), "version": row.version}
    try:
        pull: ShadowPull = adapter(ShadowPull).validate_python({**row.record, **own})
    except ValidationError:
        return None
    return pull if pull.entry is None else replace(pull, entry=replace(pull.entry, repository=pull.repository))
