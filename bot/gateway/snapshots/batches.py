"""Read the snapshots of several pull requests by one GraphQL query, with an alias for each.

GitHub ends a query after ten seconds (docs, "Rate limits and query limits for the GraphQL API"), and large ones fail so
(cli/cli #12715, raycast/extensions #10278). So a query asks for few pull requests, and after a failure IMQ reads each
with a query of its own for a while.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache

from bot.gateway.http.client import parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.snapshots.queries import of_several
from bot.gateway.snapshots.read import Snapshots, person_id
from bot.gateway.snapshots.schemas import RepositoryPart
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import JOB_HOLDER, current_work
from queue_engine.domain.errors import GitHubError, NotFound, RateLimitError
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import SnapshotRequest

log = structlog.get_logger(__name__)

MOST = 10
"""The most pull requests in one query: each costs GitHub a comparison."""
_MAX_BATCHES = 1_000
_Item = tuple[Repository, SnapshotRequest]
_SINGLY_FOR = timedelta(minutes=5)
"""How long IMQ reads the pull requests of a repository one by one after GitHub failed with several of them."""


class SnapshotBatches(Snapshots):
    """Reads several pull requests at once. Part of `Gateway`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._singly_until: dict[int, datetime] = {}
        """Until when IMQ reads each pull request by itself, by the id of the repository."""
        self._alone: set[int] = set()
        """The repositories of which a job reads one pull request now."""
        self._together: LRUCache[int, MicroBatch[_Item, Snapshot | Exception]] = LRUCache(_MAX_BATCHES)
        """The reads that share requests, by the id of the repository."""

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """Read one pull request. Reads by jobs share the next request if they come while one is under way.

        So labels that are set at once cost few requests. A pass reads alone, since its merge waits for the answer.
        """
        if head_sha is None or not (current_work().holder or "").startswith(JOB_HOLDER):
            return await super().snapshot(repository, number, login=login, head_sha=head_sha)
        if repository.id not in self._alone:
            self._alone.add(repository.id)
            try:
                return await super().snapshot(repository, number, login=login, head_sha=head_sha)
            finally:
                self._alone.discard(repository.id)
        if (batch := self._together.get(repository.id)) is None:
            batch = self._together[repository.id] = MicroBatch(self._read_together, most=MOST)
        found = await batch((repository, SnapshotRequest(number, login or "", head_sha)))
        if isinstance(found, Exception):
            raise found
        return found

    async def _read_together(self, items: Sequence[_Item]) -> list[Snapshot | Exception]:
        """Read each of these pull requests of one repository; of one asked for twice, the first by the shared query."""
        first: dict[int, SnapshotRequest] = {}
        for _, request in items:
            first.setdefault(request.number, request)
        shown: Mapping[int, Snapshot] = {}
        if len(first) > 1:
            try:
                shown = await SnapshotBatches.snapshots(self, items[0][0], tuple(first.values()))
            except Exception as error:
                return [error] * len(items)
        return [
            shown[request.number]
            if request.number in shown and first[request.number] == request
            else await self._read_alone(repository, request)
            for repository, request in items
        ]

    async def _read_alone(self, repository: Repository, request: SnapshotRequest) -> Snapshot | Exception:
        try:
            login = request.login or None
            return await super().snapshot(repository, request.number, login=login, head_sha=request.head_sha)
        except Exception as error:
            return error

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """`POST /graphql` for ten pull requests each. Those that GitHub does not show are missing."""
        found: dict[int, Snapshot] = {}
        for start in range(0, len(requests), MOST):
            asked = requests[start : start + MOST]
            now = self._clock.now()
            until = self._singly_until.get(repository.id)
            if len(asked) < 2 or (until is not None and now < until):
                break
            try:
                found |= await self._several(repository, asked)
            except RateLimitError:
                raise
            except GitHubError as error:
                if not isinstance(error, NotFound):
                    self._singly_until = {each: end for each, end in self._singly_until.items() if end > now}
                    self._singly_until[repository.id] = now + _SINGLY_FOR
                log.info("snapshots_read_singly", repository=repository.full_name, message=str(error))
                break
        return found

    async def _several(self, repository: Repository, asked: Sequence[SnapshotRequest]) -> dict[int, Snapshot]:
        logins = list(dict.fromkeys(each.login for each in asked if each.login))
        variables: dict[str, Any] = {"owner": repository.owner, "name": repository.name}
        variables |= {f"number_{index}": each.number for index, each in enumerate(asked)}
        variables |= {f"head_{index}": each.head_sha for index, each in enumerate(asked)}
        variables |= {f"login_{index}": login for index, login in enumerate(logins)}
        query = of_several(len(asked), len(logins))
        shown: dict[str, Any] = (await self._query_with_stacks(repository, query, variables))["repository"]
        permissions: dict[str, tuple[Permission | None, int | None]] = {"": (None, None)}
        found: dict[int, Snapshot] = {}
        for index, each in enumerate(asked):
            if (pull := shown.get(f"pull_{index}")) is None:
                continue
            people = shown.get(f"collaborators_{logins.index(each.login)}") if each.login else None
            part = parse_answer(RepositoryPart, shown | {"pullRequest": pull, "collaborators": people})
            if each.login not in permissions:
                shown_as = await self._permission(repository, part, each.login), person_id(part, each.login)
                permissions[each.login] = shown_as
            taken = await self._complete(repository, part, None)
            permission, person = permissions[each.login]
            found[each.number] = replace(taken, permission=permission, person_id=person)
        return found
