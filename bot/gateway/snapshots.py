"""Read snapshots of pull requests, alone or several at once; and the reports on a commit: checks, statuses, suites.

GitHub Enterprise Server 3.16 has every field of a snapshot but stacks (its schema in github/docs, `src/graphql/data`).
The newest are `canBeRebased` and `mergeStateStatus`, public since April 2024 (octokit/graphql-schema #931).

GitHub ends a query after ten seconds (docs, "Rate limits and query limits for the GraphQL API"), and large ones fail so
(cli/cli #12715, raycast/extensions #10278). So a query asks for few pull requests, and after a failure IMQ reads each
with a query of its own for a while.
"""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache

from bot.gateway import conversions
from bot.gateway.http.client import Call, Unsupported, check, parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.repository_api import RepositoryApi
from bot.gateway.schemas import (
    AnnotationAnswer,
    ArtifactAnswer,
    CheckRunAnswer,
    CheckSuiteAnswer,
    ConcurrencyGroupAnswer,
    JobAnswer,
    PermissionAnswer,
    PullRequestAnswer,
    StatusAnswer,
    WorkflowRunAnswer,
)
from bot.gateway.snapshot_schemas import (
    PULL_REQUEST,
    THREADS,
    Answer,
    CommitPart,
    OwnChecksPart,
    OwnRunPart,
    PullPart,
    RepositoryName,
    RepositoryPart,
    ReviewRequestPart,
    Threads,
    ThreadsAnswer,
    of_several,
    own_check_runs,
    with_stacks,
)
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import JOB_HOLDER, current_work
from queue_engine.domain.errors import Forbidden, GitHubError, NotFound, RateLimitError, Unavailable
from queue_engine.domain.facts import (
    OWN_CHECK,
    CheckReport,
    CheckSuite,
    Commit,
    Comparison,
    MergeMethod,
    OwnCheckRun,
    Permission,
    PullRequest,
    RequiredCheck,
    Review,
    ReviewOutcome,
    Snapshot,
    StackMember,
    WorkflowRun,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import SnapshotRequest
from queue_engine.known.pulls import statuses_matter
from queue_engine.rules.checks import matches
from queue_engine.rules.landing_order import order_lines

_MAX_PAGES = 10
"""Pages of a hundred conversations that IMQ reads; beyond them GitHub may refuse the merge."""
_METHODS_CACHED_FOR = timedelta(hours=2)
_NO_STACKS_FOR = timedelta(hours=1)
_STACK_NAMES = ("'stack'", "'PullRequestStack'")
"""A field and a type that a schema without stacks, or with other ones, does not have."""
_MERGEABLE = {"MERGEABLE": True, "CONFLICTING": False}


class Snapshots(RepositoryApi):
    """Reads pull requests. Part of `Gateway`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._clock = connection.clock
        self._no_stacks_until: datetime | None = None
        self._methods: LRUCache[int, tuple[datetime, tuple[MergeMethod, ...]]] = LRUCache(1000)
        """The merge methods of each repository, and until when they are cached."""

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        template = "/repos/{owner}/{repo}/pulls/{pull_number}"
        answer = await self._connection.get(repository, PullRequestAnswer, template, {"pull_number": str(number)})
        return conversions.pull_request(answer, self._remembered_methods(repository))

    async def permission(self, repository: Repository, login: str) -> Permission:
        """`GET /repos/{owner}/{repo}/collaborators/{username}/permission`, never from a cache."""
        template = "/repos/{owner}/{repo}/collaborators/{username}/permission"
        try:
            answer = await self._connection.get(repository, PermissionAnswer, template, {"username": login}, fresh=True)
        except NotFound:
            return Permission.NONE
        return conversions.permission(answer)

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """`POST /graphql`; REST for permissions of people who are no collaborators, such as bots and mere readers."""
        found = await self._query(repository, number, login, head_sha)
        return await self._complete(repository, found, login)

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
        return parse_answer(Answer, await self._query_with_stacks(repository, PULL_REQUEST, variables)).repository

    async def _query_with_stacks(self, repository: Repository, text: str, variables: dict[str, Any]) -> Any:
        """Send the query, with stacks if GitHub's schema has them, which Enterprise Server may lack."""
        now = self._clock.now()
        try:
            if self._no_stacks_until is None or now >= self._no_stacks_until:
                try:
                    return await self._graphql(repository, with_stacks(text), variables)
                except Unsupported as error:
                    if not any(name in str(error) for name in _STACK_NAMES):
                        raise
                    self._no_stacks_until = now + _NO_STACKS_FOR
            return await self._graphql(repository, text, variables)
        except Unsupported as error:
            log.warning("graphql_not_offered", message=str(error))
            raise Unavailable(f"this GitHub's GraphQL API does not answer IMQ's queries: {error}") from error

    async def _graphql(self, repository: Repository, text: str, variables: dict[str, Any]) -> Any:
        answer = await self._connection.ask(repository, text, variables)
        check(answer, [("repository",), ("repository", "pullRequest")])
        return answer.data

    async def _complete(self, repository: Repository, found: RepositoryPart, login: str | None) -> Snapshot:
        pull = found.pull_request
        methods = _methods(found)
        self._methods[repository.id] = self._clock.now() + _METHODS_CACHED_FOR, methods
        threads = pull.review_threads
        compared = pull.base_ref.compare if pull.base_ref else None
        return Snapshot(
            pull=_pull_request(found, methods),
            permission=await self._permission(repository, found, login) if login else None,
            person_id=person_id(found, login),
            comparison=_comparison(pull),
            base_tip=compared.base_target.oid if compared else None,
            behind=compared.behind_by if compared else None,
            ahead=compared.ahead_by if compared and compared.head_target.oid == pull.head_ref_oid else None,
            below=_below(found),
            decision=_decision(pull.review_decision),
            reviews=_reviews(pull),
            code_owners=tuple(name for each in pull.review_requests if each.as_code_owner and (name := _name(each))),
            review_requests=tuple(_name(each) or "a team or bot" for each in pull.review_requests),
            failing=_is_failing(_head(pull)),
            base_changed_at=max((each.created_at for each in pull.timeline_items), default=None),
            open_conversations=await self._open_conversations(repository, pull.number, threads),
        )

    async def _permission(self, repository: Repository, found: RepositoryPart, login: str) -> Permission:
        """Return a person's permission, by REST if the person is no collaborator."""
        shown = _permission(found, login)
        return await self.permission(repository, login) if shown is None else shown

    async def _open_conversations(
        self, repository: Repository, number: int, threads: Threads | None
    ) -> tuple[str, ...] | None:
        """Return the open conversations of the first page that has any; None if there are more pages than IMQ reads."""
        for _ in range(_MAX_PAGES):
            if threads is None:
                break
            found = tuple(each.id for each in threads.nodes or () if each is not None and not each.is_resolved)
            if found or not threads.page_info.has_next_page:
                return found
            variables = {
                "owner": repository.owner,
                "name": repository.name,
                "number": number,
                "after": threads.page_info.end_cursor,
            }
            data = await self._graphql(repository, THREADS, variables)
            threads = parse_answer(ThreadsAnswer, data).repository.pull_request.review_threads
        return None

    async def stack_members(self, repository: Repository, branch: str) -> tuple[StackMember, ...]:
        template = "/repos/{owner}/{repo}/pulls?state=open&head={head}&per_page=5"
        where = {"head": f"{repository.owner}:{branch}"}
        answers = await self._connection.listed(repository, PullRequestAnswer, template, where, fresh=True)
        own = (each for each in answers if each.head.ref == branch and _is_of(each, repository))
        return tuple(StackMember(each.number, each.base.ref) for each in own)

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
    """Return the person's permission as a collaborator; None if it is unknown."""
    for edge in found.collaborators:
        if _is_named(edge.node.login, login):
            role = edge.permission.lower()
            return Permission(role) if role in set(Permission) else None
    return None


def person_id(found: RepositoryPart, login: str | None) -> int | None:
    """Return the number of the account that has this login now; None if it is no collaborator."""
    ids = (edge.node.database_id for edge in found.collaborators if _is_named(edge.node.login, login))
    return next(ids, None)


def _is_named(login: str, other: str | None) -> bool:
    return other is not None and login.casefold() == other.casefold()


def _pull_request(found: RepositoryPart, methods: tuple[MergeMethod, ...]) -> PullRequest:
    pull = found.pull_request
    merged = pull.state == "MERGED"
    return PullRequest(
        number=pull.number,
        title=pull.title,
        author=pull.author.rest_login if pull.author else conversions.GHOST,
        assignees=tuple(one.rest_login for one in pull.assignees),
        open=pull.state == "OPEN",
        merged=merged,
        draft=pull.is_draft,
        head_sha=pull.head_ref_oid,
        head_repository=pull.head_repository.name_with_owner if pull.head_repository else None,
        head_in_organisation=_is_organisation(pull.head_repository),
        base_branch=pull.base_ref_name,
        rebaseable=_rebaseable(pull),
        mergeable=_MERGEABLE.get(pull.mergeable),
        labels=frozenset(one.name for one in pull.labels),
        merge_sha=pull.merge_commit.oid if merged and pull.merge_commit else None,
        maintainer_can_modify=pull.maintainer_can_modify,
        methods=methods,
        body=pull.body,
        order=order_lines(pull.body),
        head_branch=pull.head_ref_name,
        merge_state=pull.merge_state_status.lower(),
        updated_at=pull.updated_at,
        comments=pull.total_comments_count,
        stack_base=None if pull.stack is None else pull.stack.base_ref_name,
        auto_merge=pull.auto_merge_request is not None,
        node_id=pull.id,
        url=pull.url,
        base_repository=found.name_with_owner,
        default_branch=found.default_branch_ref.name if found.default_branch_ref else "",
    )


def _rebaseable(pull: PullPart) -> bool | None:
    """Whether GitHub can rebase the commits; None while it computes that, or where it does not say.

    REST's `rebaseable` is null until computed; GraphQL has no null, so its `false` counts beside a known `mergeable`.
    """
    return pull.can_be_rebased if pull.mergeable in _MERGEABLE else None


def _is_organisation(repository: RepositoryName | None) -> bool:
    return repository is not None and repository.owner is not None and repository.owner.kind == "Organization"


def _below(found: RepositoryPart) -> tuple[StackMember, ...]:
    """Return the open pull requests of the repository itself whose head branch is the base branch."""
    base = found.pull_request.base_ref
    listed = () if base is None else base.associated_pull_requests
    return tuple(StackMember(one.number, one.base_ref_name) for one in listed if one.is_in(found.name_with_owner))


def _is_of(answer: PullRequestAnswer, repository: Repository) -> bool:
    """Whether the head is a branch of this repository itself: GitHub ignores a filter that it cannot read."""
    return answer.head.repo is not None and answer.head.repo.id == repository.id


def _comparison(pull: PullPart) -> Comparison | None:
    """Compare the head with the base's tip if the head contains it, which then is the merge base."""
    compared = pull.base_ref.compare if pull.base_ref else None
    head = _head(pull)
    if compared is None or head is None or compared.behind_by > 0 or compared.head_target.oid != head.oid:
        return None
    tip = compared.base_target.oid
    parents = tuple(parent.oid for parent in head.parents)
    return Comparison(tip, tip, 0, Commit(head.oid, head.tree.oid, parents))


def _head(pull: PullPart) -> CommitPart | None:
    """Return the head's commit, if the list of commits is as new as the head."""
    last = pull.commits[-1].commit if pull.commits else None
    return last if last is not None and last.oid == pull.head_ref_oid else None


def _is_failing(head: CommitPart | None) -> bool | None:
    """Whether any check of the head has failed, required or not; None where GitHub does not say."""
    checks = None if head is None else head.status_check_rollup
    return None if checks is None else checks.state in {"FAILURE", "ERROR"}


def _name(request: ReviewRequestPart) -> str | None:
    reviewer = request.requested_reviewer
    return None if reviewer is None else reviewer.login or reviewer.combined_slug


def _decision(word: str | None) -> ReviewOutcome | None:
    """Convert GitHub's decision; None for an unknown one, so that the reviews are counted."""
    decision = (word or "").lower()
    return ReviewOutcome(decision) if decision in set(ReviewOutcome) else None


def _reviews(pull: PullPart) -> tuple[Review, ...] | None:
    """Convert the reviews of people with write access, as GitHub counts them."""
    opinions = pull.latest_opinionated_reviews
    if opinions is None:
        return None
    return tuple(
        Review(one.author.rest_login if one.author else None, conversions.review_state(one.state), by_writer=True)
        for one in opinions
    )


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


_FOR_GROUP = re.compile(r"Canceling since a higher priority waiting request for '?(?P<group>.+?)'? exists")
"""GitHub's annotation on each job that it cancels for a newer run of a concurrency group (ncihtan/data-models #252,
pex-tool/pex #1460; without quotes in actions/runner-images #13265). No page documents these words."""

_OF_TESTS = re.compile(r"junit|test|surefire", re.IGNORECASE)
"""Names of artifacts that may hold reports of tests."""
_TEST = re.compile(r"\S{0,200}(test|spec)\S{0,200}", re.IGNORECASE)
_MOST_ARTIFACTS = 3
_MOST_TESTS = 50

_NOT_STARTED = "the job was not started because"
"""How the only annotation of a job begins that an unpaid plan kept from starting: "your account is locked due to a
billing issue" (actions/runner #1069 and others), or "recent account payments have failed or your spending limit needs
to be increased" (nodejs/admin #980, Arcticons #2757). The job fails within seconds, without a step or a runner."""

log = structlog.get_logger(__name__)


class CheckReads(SnapshotBatches):
    """Reads checks. Part of `Gateway`."""

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """Read the check runs and, if it can matter, the combined status of a commit; all pages of both."""
        where = {"ref": sha}
        template = "/repos/{owner}/{repo}/commits/{ref}/check-runs?filter=latest&per_page=100"
        runs = await self._connection.items(repository, CheckRunAnswer, template, where, key="check_runs")
        known = ((run.name, run.app.id if run.app else None, run.status != "completed") for run in runs)
        statuses: list[StatusAnswer] = []
        if statuses_matter(required, known):
            template = "/repos/{owner}/{repo}/commits/{ref}/status?per_page=100"
            statuses = await self._connection.items(repository, StatusAnswer, template, where, key="statuses")
        jobs_of = await self.workflow_runs(repository, sha) if conversions.is_contested(runs) else ()
        return conversions.check_reports(runs, statuses, own_app_id=self._app_id, workflow_runs=jobs_of)

    async def workflow_runs(self, repository: Repository, sha: str) -> tuple[WorkflowRun, ...]:
        """Read `GET /repos/{owner}/{repo}/actions/runs?head_sha=`; nothing if IMQ may not."""
        template = "/repos/{owner}/{repo}/actions/runs{?head_sha,per_page}"
        where = {"head_sha": sha, "per_page": "100"}
        try:
            runs = await self._connection.items(repository, WorkflowRunAnswer, template, where, key="workflow_runs")
        except (Forbidden, NotFound) as error:
            log.info("workflow runs unreadable", repository=repository.full_name, error=error.message)
            return ()
        return tuple(conversions.workflow_run(run) for run in runs if run.head_sha == sha)

    async def cancelled_for(self, repository: Repository, check_run: int) -> tuple[str, ...]:
        """Read the annotations of a job, and the concurrency group that one of them names."""
        found = (_FOR_GROUP.search(each) for each in await self._annotations(repository, check_run))
        group = next((each["group"] for each in found if each), None)
        if group is None:
            return ()
        template, where = (
            "/repos/{owner}/{repo}/actions/concurrency_groups/{concurrency_group_name}",
            {"concurrency_group_name": group},
        )
        try:
            found_group = await self._connection.get(repository, ConcurrencyGroupAnswer, template, where)
        except (Forbidden, NotFound):
            # The group has no run under way any more, or this server has no such endpoint.
            return (group,)
        members = found_group.group_members
        return (group, *(f"{each.run_name} {each.run_html_url or ''}".strip() for each in members))

    async def not_started(self, repository: Repository, check_run: int) -> str | None:
        messages = await self._annotations(repository, check_run)
        return next((each for each in messages if each.lower().startswith(_NOT_STARTED)), None)

    async def _annotations(self, repository: Repository, check_run: int) -> tuple[str, ...]:
        """Read the messages of the annotations of a check run; none if IMQ may not."""
        return tuple(each.message or "" for each in await self._annotations_of(repository, check_run))

    async def _annotations_of(self, repository: Repository, check_run: int) -> Sequence[AnnotationAnswer]:
        """`GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations`, the first page; none if IMQ may not.

        GitHub's documentation allows 100 in a page; others have seen 50 at most. Actions shows ten errors of a step
        (community #26680).
        """
        template = "/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations?per_page=100"
        where = {"check_run_id": str(check_run)}
        try:
            return await self._connection.listed(repository, AnnotationAnswer, template, where)
        except (Forbidden, NotFound) as error:
            log.info("annotations_unreadable", repository=repository.full_name, error=error.message)
            return ()

    async def failed_tests(self, repository: Repository, check_runs: Sequence[int]) -> tuple[str, ...]:
        """Read annotations of each check run; unless they name tests, up to three artifacts of the first one's run."""
        found: dict[str, None] = {}
        for check_run in check_runs:
            found |= dict.fromkeys(
                filter(None, map(_annotated_test, await self._annotations_of(repository, check_run)))
            )
        if found or not check_runs:
            return tuple(found)[:_MOST_TESTS]
        try:
            return await self._tests_in_artifacts(repository, check_runs[0])
        except (Forbidden, NotFound) as error:
            log.info("artifacts_unreadable", repository=repository.full_name, error=error.message)
            return ()

    async def _tests_in_artifacts(self, repository: Repository, job: int) -> tuple[str, ...]:
        """`GET …/actions/jobs/{id}`, `…/actions/runs/{id}/artifacts` and `…/actions/artifacts/{id}/zip`.

        The last redirects to GitHub's storage (docs, "Download an artifact"; arduino/report-size-deltas #83).
        """
        # Imported when needed: a process that has seen no flake reads no archive.
        from bot.gateway.failing_reports import MOST_BYTES, failed_tests

        within = "/repos/{owner}/{repo}/actions"
        run = await self._connection.get(repository, JobAnswer, within + "/jobs/{job_id}", {"job_id": str(job)})
        where = {"run_id": str(run.run_id)}
        template = within + "/runs/{run_id}/artifacts?per_page=100"
        listed = await self._connection.listed(repository, ArtifactAnswer, template, where, key="artifacts", fresh=True)
        reports = [each for each in listed if not each.expired and each.size_in_bytes <= MOST_BYTES]
        found: dict[str, None] = {}
        for each in [each for each in reports if _OF_TESTS.search(each.name)][:_MOST_ARTIFACTS]:
            template, of_one = within + "/artifacts/{artifact_id}/{archive_format}", {"artifact_id": str(each.id)}
            call = Call("GET", template, {**of_one, "archive_format": "zip"}, wants_address=True)
            try:
                address = (await self._connection.call(repository, call, fresh=True)).data
            except NotFound:
                continue  # Deleted or expired since it was listed; what the others say counts.
            archive = await self._connection.client.download(address, MOST_BYTES) if isinstance(address, str) else None
            if archive is not None:
                found |= dict.fromkeys(await asyncio.to_thread(failed_tests, archive))
        return tuple(found)[:_MOST_TESTS]

    async def check_suites(self, repository: Repository, sha: str) -> tuple[CheckSuite, ...]:
        template = "/repos/{owner}/{repo}/commits/{ref}/check-suites?per_page=100"
        where = {"ref": sha}
        suites = await self._connection.items(repository, CheckSuiteAnswer, template, where, key="check_suites")
        return tuple(conversions.check_suite(each, own_app_id=self._app_id) for each in suites)

    async def own_check_runs(
        self, repository: Repository, heads: Collection[str]
    ) -> Mapping[str, tuple[OwnCheckRun, ...]]:
        """`POST /graphql`: the check suites of IMQ's App on each commit, with their runs."""
        variables: dict[str, Any] = {"owner": repository.owner, "name": repository.name}
        variables |= {"app": self._app_id, "check": OWN_CHECK}
        variables |= {f"head_{index}": head for index, head in enumerate(heads)}
        query = own_check_runs(len(heads))
        try:
            commits = (await self._graphql(repository, query, variables))["repository"]
        except Unsupported as error:
            raise Unavailable(f"this GitHub's GraphQL API does not answer IMQ's queries: {error}") from error
        found: dict[str, tuple[OwnCheckRun, ...]] = {}
        for index, head in enumerate(heads):
            suites = parse_answer(OwnChecksPart, commits.get(f"head_{index}") or {}).check_suites
            if suites is not None:
                found[head] = tuple(_own_check_run(head, run) for suite in suites for run in suite.check_runs)
        return found

    async def reports_elsewhere(
        self, repository: Repository, base_branch: str | None, head_sha: str, wanted: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """`GET /repos/{owner}/{repo}/pulls`, the ten that changed last, then the checks of one commit after another."""
        template = "/repos/{owner}/{repo}/pulls?state=all&sort=updated&direction=desc&per_page=10"
        pulls = await self._connection.listed(repository, PullRequestAnswer, template, fresh=True)
        heads = [answer.head.sha for answer in pulls]
        found: list[CheckReport] = []
        for ref in dict.fromkeys((*heads, base_branch)):
            if ref in (head_sha, None) or all(any(matches(each, report) for report in found) for each in wanted):
                continue
            try:
                found += await self.check_reports(repository, ref, wanted)
            except NotFound:
                continue  # The commit of a fork that was deleted.
        return tuple(found)


def _annotated_test(annotation: AnnotationAnswer) -> str | None:
    """Return the test that an annotation names: by its title, or by a first line that is one word with `test`."""
    if annotation.annotation_level != "failure":
        return None
    for text in (annotation.title or "", (annotation.message or "").partition("\n")[0]):
        line = "".join(each if each.isprintable() else " " for each in text).strip()
        if _TEST.fullmatch(line):
            return line
    return None


def _own_check_run(head_sha: str, run: OwnRunPart) -> OwnCheckRun:
    conclusion = None if run.conclusion is None else run.conclusion.lower()
    return OwnCheckRun(head_sha, run.database_id, run.status.lower(), conclusion, run.title or "")
