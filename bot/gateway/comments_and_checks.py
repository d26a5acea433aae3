"""Write comments, check runs and labels on GitHub. Implements `queue_engine.domain.port.Comments`.

A mutation costs five of the 2,000 points that GraphQL has for a minute, whatever it creates (GitHub's "Rate limits and
query limits for the GraphQL API"). By REST each check run costs five of 900. So REST creates a lone check run, and
mutations create the others while that one is under way, or while REST has no points left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from cachetools import LRUCache
from pydantic import Field

from bot.gateway.http.client import Call, ErrorAnswer, Unsupported, check, owner_and_repo, parse_answer, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import AppAnswer, CheckRunAnswer, CommentAnswer, IdAnswer, LabelAnswer
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound, RateLimitError, Refused, Unavailable
from queue_engine.domain.facts import OwnComment, OwnComments
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import MARKER

_MAX_PAGES = 3


class CommentApi:
    """Writes comments and check runs, removes labels, and finds IMQ's own comments and check runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._app_id = connection.app_id
        self._own_login: str | None = None
        self._login_lock = asyncio.Lock()
        """Concurrent callers share one request for IMQ's login."""

    async def own_login(self) -> str:
        async with self._login_lock:
            if self._own_login is None:
                try:
                    app = await self._connection.get(None, AppAnswer, "/app")
                except NotFound as missing:
                    # An App that GitHub does not know has no installations either: the answer is not GitHub's.
                    raise Refused(missing.message, status=missing.status) from missing
                self._own_login = f"{app.slug}[bot]"
        return self._own_login

    async def create_comment(self, repository: Repository, number: int, body: str) -> int:
        template = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
        answer = await self._write(repository, "POST", template, {"body": body}, issue_number=str(number))
        return parse_answer(IdAnswer, answer).id

    async def update_comment(self, repository: Repository, comment_id: int, body: str) -> None:
        template = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
        await self._write(repository, "PATCH", template, {"body": body}, comment_id=str(comment_id))

    async def delete_comment(self, repository: Repository, comment_id: int) -> bool:
        """`DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}`. Returns whether it was there.

        An App may delete its own comments with the permission by which it made them (docs, "Permissions required for
        GitHub Apps": issues or pull requests, write).
        """
        template = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
        try:
            await self._write(repository, "DELETE", template, None, comment_id=str(comment_id))
        except NotFound:
            return False
        return True

    async def find_comments(self, repository: Repository, number: int) -> Mapping[int, str]:
        """Find IMQ's own comments that have its marker, by id, oldest first; quotes by other people do not count."""
        template = "/repos/{owner}/{repo}/issues/{issue_number}/comments?per_page=100"
        comments = await self._connection.items(repository, CommentAnswer, template, {"issue_number": str(number)})
        return {
            comment.id: comment.body or ""
            for comment in sorted(comments, key=lambda comment: comment.id)
            if MARKER in (comment.body or "") and await self._is_own(comment)
        }

    async def own_comments(self, repository: Repository, since: datetime) -> OwnComments:
        """`GET /repos/{owner}/{repo}/issues/comments`, at most three pages, the latest change first."""
        template = "/repos/{owner}/{repo}/issues/comments{?sort,direction,since,per_page}"
        query = {"sort": "updated", "direction": "desc", "since": f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        call = Call("GET", template, {**owner_and_repo(repository), **query, "per_page": "100"})
        own: list[OwnComment] = []
        pages = 0
        async for page in self._connection.pages(repository.installation_id, call, "next"):
            listed = parse_list(CommentAnswer, page.data)
            for comment in listed:
                if comment.updated_at is not None and await self._is_own(comment):
                    number = int(comment.issue_url.rpartition("/")[2])
                    own.append(OwnComment(number, comment.body or "", comment.updated_at, comment.id))
            pages += 1
            if pages == _MAX_PAGES:
                since = max([since, *(each.updated_at for each in listed[-1:] if each.updated_at is not None)])
                break
        return OwnComments(tuple(own), since)

    async def create_check_run(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        answer = await self._write(repository, "POST", "/repos/{owner}/{repo}/check-runs", dict(check_run))
        return parse_answer(IdAnswer, answer).id

    async def update_check_run(self, repository: Repository, check_run_id: int, check_run: Mapping[str, Any]) -> None:
        template = "/repos/{owner}/{repo}/check-runs/{check_run_id}"
        await self._write(repository, "PATCH", template, dict(check_run), check_run_id=str(check_run_id))

    async def find_check_run(
        self, repository: Repository, head_sha: str, name: str, external_id: str, *, unfinished: bool = False
    ) -> int | None:
        """Find IMQ's own check run, or an `unfinished` one, on this commit by its external id: the newest."""
        runs = await self._connection.items(
            repository,
            CheckRunAnswer,
            "/repos/{owner}/{repo}/commits/{ref}/check-runs{?check_name,app_id,filter,per_page}",
            {"ref": head_sha, "check_name": name, "app_id": str(self._app_id), "filter": "all", "per_page": "100"},
            key="check_runs",
        )
        own = (run for run in runs if run.external_id == external_id and run.app and run.app.id == self._app_id)
        return max((run.id for run in own if not (unfinished and run.status == "completed")), default=None)

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        template = "/repos/{owner}/{repo}/issues/{issue_number}/labels"
        await self._write(repository, "POST", template, {"labels": [label]}, issue_number=str(number))

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        template = "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}"
        with suppress(NotFound):
            left = await self._write(repository, "DELETE", template, None, issue_number=str(number), name=label)
            # An answer that is not GitHub's took nothing off.
            parse_list(LabelAnswer, left)

    async def _is_own(self, comment: CommentAnswer) -> bool:
        if comment.performed_via_github_app is not None:
            return comment.performed_via_github_app.id == self._app_id
        return comment.user is not None and comment.user.login == await self.own_login()

    async def _write(self, repository: Repository, method: str, template: str, body: Any, **variables: str) -> Any:
        return (await self._connection.call(repository, Call(method, template, variables, body=body))).data


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
    """Creates check runs of several pull requests at once, a lone one by REST with `alone`."""

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
                answer = await self._connection.ask(repository, mutation(len(items)), variables)
            check(answer, [])
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
