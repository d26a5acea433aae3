"""Write comments, check runs and labels on GitHub. Implements `queue_engine.domain.port.Comments`."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from bot.gateway.http.client import Call, owner_and_repo, parse_answer, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import AppAnswer, CheckRunAnswer, CommentAnswer, IdAnswer
from queue_engine.domain.errors import NotFound, Refused
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
        """Return IMQ's login, `slug[bot]`, from `GET /app`; requested once."""
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
        """`POST /repos/{owner}/{repo}/issues/{issue_number}/comments`. Returns the comment's id."""
        template = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
        answer = await self._write(repository, "POST", template, {"body": body}, issue_number=str(number))
        return parse_answer(IdAnswer, answer).id

    async def update_comment(self, repository: Repository, comment_id: int, body: str) -> None:
        """`PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}`. Raises NotFound when somebody deleted it."""
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
        comments = await self._connection.items(
            repository,
            CommentAnswer,
            "/repos/{owner}/{repo}/issues/{issue_number}/comments?per_page=100",
            {**owner_and_repo(repository), "issue_number": str(number)},
        )
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
        """`POST /repos/{owner}/{repo}/check-runs`. Returns the check run's id."""
        answer = await self._write(repository, "POST", "/repos/{owner}/{repo}/check-runs", dict(check_run))
        return parse_answer(IdAnswer, answer).id

    async def update_check_run(self, repository: Repository, check_run_id: int, check_run: Mapping[str, Any]) -> None:
        """`PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}`."""
        template = "/repos/{owner}/{repo}/check-runs/{check_run_id}"
        await self._write(repository, "PATCH", template, dict(check_run), check_run_id=str(check_run_id))

    async def find_check_run(
        self, repository: Repository, head_sha: str, name: str, external_id: str, *, unfinished: bool = False
    ) -> int | None:
        """Find IMQ's own check run on this commit by its external id; return the newest id of several.

        With `unfinished` only of runs that have not ended.
        """
        runs = await self._connection.items(
            repository,
            CheckRunAnswer,
            "/repos/{owner}/{repo}/commits/{ref}/check-runs{?check_name,app_id,filter,per_page}",
            {
                **owner_and_repo(repository),
                "ref": head_sha,
                "check_name": name,
                "app_id": str(self._app_id),
                "filter": "all",
                "per_page": "100",
            },
            key="check_runs",
        )
        own = (run for run in runs if run.external_id == external_id and run.app and run.app.id == self._app_id)
        return max((run.id for run in own if not (unfinished and run.status == "completed")), default=None)

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """`POST /repos/{owner}/{repo}/issues/{issue_number}/labels`; one that is there already is no error."""
        template = "/repos/{owner}/{repo}/issues/{issue_number}/labels"
        await self._write(repository, "POST", template, {"labels": [label]}, issue_number=str(number))

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """`DELETE /repos/{owner}/{repo}/issues/{issue_number}/labels/{name}`; a missing label is no error."""
        template = "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}"
        with suppress(NotFound):
            await self._write(repository, "DELETE", template, None, issue_number=str(number), name=label)

    async def _is_own(self, comment: CommentAnswer) -> bool:
        if comment.performed_via_github_app is not None:
            return comment.performed_via_github_app.id == self._app_id
        return comment.user is not None and comment.user.login == await self.own_login()

    async def _write(self, repository: Repository, method: str, template: str, body: Any, **variables: str) -> Any:
        call = Call(method, template, {**owner_and_repo(repository), **variables}, body=body)
        return (await self._connection.call(repository, call)).data
