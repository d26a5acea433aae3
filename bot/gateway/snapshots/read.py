"""Read a pull request and its surroundings by one GraphQL query, or by REST where GitHub has no GraphQL."""

from datetime import datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache

from bot.gateway import facts
from bot.gateway.http import graphql
from bot.gateway.http.answers import understood
from bot.gateway.http.client import owner_and_repo
from bot.gateway.http.connection import Connection
from bot.gateway.http.graphql import NotOffered, QueryAnswer
from bot.gateway.repository_api import RepositoryApi
from bot.gateway.schemas import PermissionAnswer, PullRequestAnswer, RepositoryAnswer
from bot.gateway.snapshots.schemas import (
    PULL_REQUEST,
    PULL_REQUEST_IN_STACK,
    THREADS,
    Answer,
    CommitPart,
    PullPart,
    RepositoryPart,
    Threads,
    ThreadsAnswer,
)
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import (
    Commit,
    Comparison,
    MergeMethod,
    Permission,
    PullRequest,
    Review,
    ReviewOutcome,
    Snapshot,
)
from queue_engine.domain.model import Repository

log = structlog.get_logger(__name__)

_MOST_PAGES = 10
"""Pages of a hundred conversations that are looked through; GitHub's refusal tells of those beyond."""
_KEPT = timedelta(hours=2)
_UNOFFERED_FOR = timedelta(hours=1)
_MERGEABLE = {"MERGEABLE": True, "CONFLICTING": False}


class Snapshots(RepositoryApi):
    """Reads pull requests. Part of `Gateway`."""

    def __init__(self, connection: Connection, clock: Clock, *, api_url: str, app_id: int) -> None:
        super().__init__(connection, app_id=app_id)
        self._api_url = api_url
        self._clock = clock
        self._unoffered_until: datetime | None = None
        self._no_stacks_until: datetime | None = None
        self._methods: LRUCache[int, tuple[datetime, tuple[MergeMethod, ...]]] = LRUCache(1000)
        """Which merge methods each repository allows, and until when that is believed."""

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        """`GET /repos/{owner}/{repo}/pulls/{pull_number}`."""
        template = "/repos/{owner}/{repo}/pulls/{pull_number}"
        variables = {**owner_and_repo(repository), "pull_number": str(number)}
        answer = await self._connection.get(repository, PullRequestAnswer, template, variables)
        return facts.pull_request(answer, self._remembered_methods(repository))

    async def permission(self, repository: Repository, login: str) -> Permission:
        """`GET /repos/{owner}/{repo}/collaborators/{username}/permission`, never from a cache."""
        template = "/repos/{owner}/{repo}/collaborators/{username}/permission"
        variables = {**owner_and_repo(repository), "username": login}
        try:
            answer = await self._connection.get(repository, PermissionAnswer, template, variables, fresh=True)
        except NotFound:
            return Permission.NONE
        return facts.permission(answer)

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """`POST /graphql`; REST for what it does not tell: other people's permissions, or all where GraphQL is missing.

        GraphQL lists collaborators alone: who reads a public repository, or is a bot, is asked for by REST.
        """
        now = self._clock.now()
        if self._unoffered_until is None or now >= self._unoffered_until:
            try:
                found = await self._query(repository, number, login, head_sha)
            except NotOffered as error:
                self._unoffered_until = now + _UNOFFERED_FOR
                log.warning("graphql_not_offered", message=str(error))
            else:
                return await self._completed(repository, found, login)
        return await self._by_rest(repository, number, login)

    def _forget_methods(self, repository_id: int) -> None:
        self._methods.pop(repository_id, None)

    async def _query(
        self, repository: Repository, number: int, login: str | None, head_sha: str | None
    ) -> RepositoryPart:
        variables = {
            "owner": repository.owner,
            "name": repository.name,
            "number": number,
            "login": login or "",
            "person": bool(login),
            "head": head_sha or "",
            "compared": head_sha is not None,
        }
        return understood(Answer, await self._asked(repository, variables)).repository

    async def _asked(self, repository: Repository, variables: dict[str, Any]) -> Any:
        """The query's answer, with stacks where GitHub's schema has them: Enterprise Server follows later."""
        now = self._clock.now()
        if self._no_stacks_until is None or now >= self._no_stacks_until:
            try:
                return await self._graphql(repository, PULL_REQUEST_IN_STACK, variables)
            except NotOffered as error:
                if "'stack'" not in str(error):
                    raise
                self._no_stacks_until = now + _UNOFFERED_FOR
        return await self._graphql(repository, PULL_REQUEST, variables)

    async def _graphql(self, repository: Repository, text: str, variables: dict[str, Any]) -> Any:
        call = graphql.query(self._api_url, text, variables)
        try:
            page = await self._connection.call(repository, call)
        except NotFound as error:
            raise NotOffered(error.message) from error
        answer = understood(QueryAnswer, page.data)
        graphql.check(answer, [("repository",), ("repository", "pullRequest")])
        return answer.data

    async def _completed(self, repository: Repository, found: RepositoryPart, login: str | None) -> Snapshot:
        pull = found.pull_request
        methods = _methods(found)
        self._methods[repository.id] = self._clock.now() + _KEPT, methods
        permission = _permission(found, login)
        if permission is None and login:
            permission = await self.permission(repository, login)
        threads = pull.review_threads
        return Snapshot(
            pull=_pull_request(found, methods),
            permission=permission,
            comparison=_comparison(pull),
            base_tip=pull.base_ref.compare.base_target.oid if pull.base_ref and pull.base_ref.compare else None,
            behind=pull.base_ref.compare.behind_by if pull.base_ref and pull.base_ref.compare else None,
            decision=_decision(pull.review_decision),
            reviews=_reviews(pull),
            resolved=None if threads is None else await self._resolved(repository, pull.number, threads),
        )

    async def _resolved(self, repository: Repository, number: int, threads: Threads) -> bool | None:
        """Whether every conversation is resolved; None if there are more than are looked through."""
        for _ in range(_MOST_PAGES):
            if any(thread is not None and not thread.is_resolved for thread in threads.nodes or ()):
                return False
            if not threads.page_info.has_next_page:
                return True
            variables = {
                "owner": repository.owner,
                "name": repository.name,
                "number": number,
                "after": threads.page_info.end_cursor,
            }
            data = await self._graphql(repository, THREADS, variables)
            threads = understood(ThreadsAnswer, data).repository.pull_request.review_threads
        return None

    async def _by_rest(self, repository: Repository, number: int, login: str | None) -> Snapshot:
        """What REST tells of it: neither decision nor conversations."""
        if self._remembered_methods(repository) is None:
            answer = await self._connection.get(
                repository, RepositoryAnswer, "/repos/{owner}/{repo}", owner_and_repo(repository)
            )
            self._methods[repository.id] = self._clock.now() + _KEPT, facts.methods(answer)
        pull = await self.pull_request(repository, number)
        return Snapshot(pull, await self.permission(repository, login) if login else None)

    def _remembered_methods(self, repository: Repository) -> tuple[MergeMethod, ...] | None:
        until, methods = self._methods.get(repository.id, (None, ()))
        return methods if until is not None and self._clock.now() < until else None


def _methods(found: RepositoryPart) -> tuple[MergeMethod, ...]:
    allowed = {
        MergeMethod.MERGE: found.merge_commit_allowed,
        MergeMethod.SQUASH: found.squash_merge_allowed,
        MergeMethod.REBASE: found.rebase_merge_allowed,
    }
    return tuple(method for method in MergeMethod if allowed[method])


def _permission(found: RepositoryPart, login: str | None) -> Permission | None:
    """The person's permission as a collaborator; None if this is not told."""
    edges = found.collaborators.edges if found.collaborators else None
    for edge in edges or ():
        if edge is not None and login and edge.node.login.casefold() == login.casefold():
            word = edge.permission.lower()
            return Permission(word) if word in set(Permission) else None
    return None


def _pull_request(found: RepositoryPart, methods: tuple[MergeMethod, ...]) -> PullRequest:
    pull = found.pull_request
    merged = pull.state == "MERGED"
    return PullRequest(
        number=pull.number,
        title=pull.title,
        author=pull.author.rest_login if pull.author else facts.GHOST,
        assignees=tuple(one.rest_login for one in pull.assignees.nodes or () if one is not None),
        open=pull.state == "OPEN",
        merged=merged,
        draft=pull.is_draft,
        head_sha=pull.head_ref_oid,
        head_repository=pull.head_repository.name_with_owner if pull.head_repository else None,
        base_branch=pull.base_ref_name,
        mergeable=_MERGEABLE.get(pull.mergeable),
        labels=frozenset(one.name for one in (pull.labels.nodes if pull.labels else None) or () if one is not None),
        merge_sha=pull.merge_commit.oid if merged and pull.merge_commit else None,
        maintainer_can_modify=pull.maintainer_can_modify,
        methods=methods,
        body=pull.body,
        head_branch=pull.head_ref_name,
        merge_state=pull.merge_state_status.lower(),
        updated_at=pull.updated_at,
        comments=pull.total_comments_count,
        stacked=pull.stack is not None,
        base_repository=found.name_with_owner,
        default_branch=found.default_branch_ref.name if found.default_branch_ref else "",
    )


def _comparison(pull: PullPart) -> Comparison | None:
    """The head against the base's tip, where the head contains it: GraphQL names no merge base, and that is it then."""
    compared = pull.base_ref.compare if pull.base_ref else None
    head = _head(pull)
    if compared is None or head is None or compared.behind_by > 0 or compared.head_target.oid != head.oid:
        return None
    tip = compared.base_target.oid
    parents = tuple(parent.oid for parent in head.parents.nodes or () if parent is not None)
    return Comparison(tip, tip, 0, Commit(head.oid, head.tree.oid, parents))


def _head(pull: PullPart) -> CommitPart | None:
    """The head's commit, if the list of commits is as new as the head."""
    last = [node.commit for node in (pull.commits.nodes if pull.commits else None) or () if node is not None]
    return last[-1] if last and last[-1].oid == pull.head_ref_oid else None


def _decision(word: str | None) -> ReviewOutcome | None:
    """GitHub's decision; a word that IMQ does not know decides nothing, and the reviews are counted."""
    small = (word or "").lower()
    return ReviewOutcome(small) if small in set(ReviewOutcome) else None


def _reviews(pull: PullPart) -> tuple[Review, ...] | None:
    """The verdicts of those who may write, as GitHub counts them."""
    opinions = pull.latest_opinionated_reviews
    if opinions is None:
        return None
    return tuple(
        Review(one.author.rest_login if one.author else None, facts.review_state(one.state), by_writer=True)
        for one in opinions.nodes or ()
        if one is not None
    )
