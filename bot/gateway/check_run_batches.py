"""Create check runs, several by one GraphQL mutation where many come at once.

A mutation costs five of the 2,000 points that GraphQL has for a minute, whatever it creates (GitHub's "Rate limits and
query limits for the GraphQL API"). By REST each check run costs five of 900. So REST creates a lone check run, and
mutations create the others while that one is under way, or while REST has no points left.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from cachetools import LRUCache
from pydantic import Field

from bot.gateway.http import graphql
from bot.gateway.http.client import parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.http.graphql import ErrorAnswer, QueryAnswer, Unsupported
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound, RateLimitError, Unavailable
from queue_engine.domain.model import Repository


class _CheckRun(ReadModel):
    number: int | None = Field(default=None, alias="databaseId")


class _Created(ReadModel):
    check_run: _CheckRun | None = Field(default=None, alias="checkRun")


MOST = 10
"""The most check runs in one mutation: GitHub ends a request after ten seconds."""
_MAX_BATCHES = 1_000
_SECONDARY = (403, 429)
"""How GitHub refuses a mutation for a secondary limit; for the hour's points it answers 200."""
_Item = tuple[Repository, Mapping[str, Any]]
_Create = Callable[[Repository, Mapping[str, Any]], Awaitable[int]]


def mutation(count: int) -> str:
    """Return the mutation that creates so many check runs."""
    declared = ", ".join(f"$run_{index}: CreateCheckRunInput!" for index in range(count))
    created = " ".join(
        f"run_{index}: createCheckRun(input: $run_{index}) {{ checkRun {{ databaseId }} }}" for index in range(count)
    )
    return f"mutation CreateCheckRuns({declared}) {{ {created} }}"


class CheckRunBatches:
    """Creates check runs. `alone` creates one by REST; `node_id` returns a repository's id in GraphQL."""

    def __init__(self, connection: Connection, alone: _Create, node_id: Callable[[Repository], Awaitable[str]]) -> None:
        self._connection = connection
        self._alone = alone
        self._node_id = node_id
        self._under_way: set[int] = set()
        """The repositories in which REST creates a check run now."""
        self._together: LRUCache[int, MicroBatch[_Item, int | GitHubError | None]] = LRUCache(_MAX_BATCHES)

    async def create(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        """Create a check run, and return its id."""
        if self._connection.limits.counts_check_runs(repository.installation_id):
            return await self._alone(repository, check_run)
        if repository.id not in self._under_way:
            self._under_way.add(repository.id)
            try:
                return await self._alone(repository, check_run)
            except RateLimitError as limited:
                if limited.status is not None:
                    raise
            finally:
                self._under_way.discard(repository.id)
        if (batch := self._together.get(repository.id)) is None:
            batch = self._together[repository.id] = MicroBatch(self._create_together, most=MOST)
        found = await batch((repository, check_run))
        if isinstance(found, GitHubError):
            raise found
        return await self._alone(repository, check_run) if found is None else found

    async def _create_together(self, items: Sequence[_Item]) -> list[int | GitHubError | None]:
        """Create check runs of one repository: the id of each, its refusal, or None where GraphQL cannot create it."""
        repository = items[0][0]
        try:
            with working(RequestPriority.BACKGROUND):  # It leaves a share of GraphQL's points to merges.
                node = await self._node_id(repository)
                variables = {f"run_{index}": _input(node, run) for index, (_, run) in enumerate(items)}
                call = graphql.query(self._connection.api_url, mutation(len(items)), variables)
                answer = parse_answer(QueryAnswer, (await self._connection.call(repository, call)).data)
            graphql.check(answer, [])
        except (Unsupported, Forbidden, NotFound):
            return [None] * len(items)
        except GitHubError as error:
            if isinstance(error, RateLimitError) and error.status in _SECONDARY:
                self._connection.limits.count_check_runs(repository.installation_id)
            return [error] * len(items)
        refused = {str(error.path[0]): error for error in answer.errors if error.path}
        created = answer.data or {}
        return [_result(created.get(name), refused.get(name)) for name in variables]


def _result(created: Any, refused: ErrorAnswer | None) -> int | GitHubError:
    if refused is not None:
        kind = Invalid if refused.type == "UNPROCESSABLE" else Unavailable
        return kind(refused.message)
    run = parse_answer(_Created, created or {}).check_run
    if run is None or run.number is None:
        # Created, or not: the next try searches for it by its external id.
        return Unavailable("the answer lacks the number of a check run")
    return run.number


def _input(node: str, check_run: Mapping[str, Any]) -> dict[str, Any]:
    """Return GraphQL's input for the fields of REST's body."""
    names = {"head_sha": "headSha", "external_id": "externalId"}
    names |= {"started_at": "startedAt", "completed_at": "completedAt"}
    upper = {name: check_run[name].upper() for name in ("status", "conclusion") if name in check_run}
    return {"repositoryId": node} | {names.get(name, name): value for name, value in {**check_run, **upper}.items()}
