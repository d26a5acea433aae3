"""The gateway: every read and write of `queue_engine.domain.port` as requests to GitHub's APIs.

Beside the requests of a usual merge (the table in docs/sizing.md) there are, where they are needed:

- `GET /actions/runs` before a rerun, while a required check is absent at the first read, and where jobs of one name
  in several runs disagree; another read of checks where nothing is required and a new one reports.
- One edit of the comment for each pause long enough to be announced; a new update after another push to the base.
- A token an hour. Two requests for a branch's rules every two hours: three where it has no classic protection, or the
  App may not read it; one more for each ruleset whose demands GitHub does not check if IMQ may bypass it. As often the
  list of rulesets, with one for each. The rules of a head branch when it is queued, if IMQ may bypass a ruleset whose
  conditions or rules GitHub does not show, or whose pattern has escapes or `**` within a part of a name.
- The tip of a head branch before its update, if it is the default branch, ever had a queue, or is guarded by a ruleset.
- For a pull request of a stack a merge in the background: its request, and its result after 1, 2, 4 s, ever rarer,
  unless a webhook reports the merge before.
- For a pull request that leaves since a check failed that had passed on its head alone: what landed in between, by a
  comparison. In a train the checks of its own head before that.
- Two lists of commits where GitHub cannot make the diff of a comparison.
- Where the configuration has `checks.prices`: once a day the repository, and a job with those of its workflow run where
  jobs have names that are new on that day.
- A list of workflow runs, and one request for each run cancelled (at most twenty), when an update of IMQ's is
  outdated.
- Where the configuration has `checks.untested_paths`: a comparison for each push to the base while checks run, another
  two before the merge if the base moved, and both trees after it.
- After a flake: the annotations of its failed checks, five at most; if they name no test, the job, the artifacts of
  its run, and three archives. A repository without flakes costs none of them.
- Where the configuration has `capacity`: the checks of each queued head, once in each process.
- The annotations of a job that failed within seconds. A query an hour that compares the check runs that IMQ wrote.
- A sweep's request for failed deliveries, and one or two per repository. For a label whose webhook did not come, the
  history of the pull request and that of its head branch.

Where reads lag, the first outdated read of each kind (snapshot, checks, landed commit) is sent again, twice where
they lag 2 s. For the next quarter of an hour such reads wait, and cost no more than the table says.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog
from cachetools import LRUCache
from yarl import URL

from bot.gateway import conversions
from bot.gateway.candidates import CandidateApi
from bot.gateway.comments_and_checks import CheckRunBatches
from bot.gateway.file_changes import FileChanges, compare_histories, differing_paths, may_lack_diff
from bot.gateway.github_app import App
from bot.gateway.http.client import Call, owner_and_repo, parse_list
from bot.gateway.http.connection import Connection, Page
from bot.gateway.http.limits import Budget
from bot.gateway.merges import HeadBranches, MergeApi
from bot.gateway.people import People, Teams
from bot.gateway.repository_api import OWN_RULES
from bot.gateway.rules.cache import BranchRulesCache
from bot.gateway.schemas import (
    CommitAnswer,
    ComparisonAnswer,
    DeliveryAnswer,
    EventAnswer,
    InstallationAnswer,
    IssueAnswer,
    JobAnswer,
    PullRequestAnswer,
    RepositoryAnswer,
)
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.domain.errors import Forbidden, GitHubError, NotFound, Unavailable
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    Commit,
    Comparison,
    Delivery,
    HistoryEvent,
    JobLabels,
    LabelEvent,
    PullRequest,
    RepositoryState,
)
from queue_engine.domain.model import Repository

if TYPE_CHECKING:
    from bot.gateway.doctor_reads import DoctorReads

_log = structlog.get_logger(__name__)

_MOST_REPOSITORIES = 1000


@dataclass(slots=True)
class _ReadJobs:
    """What IMQ read of the jobs of a repository on one day."""

    day: date
    public: bool
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: set[frozenset[str]] = field(default_factory=set)
    """The names of jobs that were unknown together: no question is asked twice."""


class Gateway(CandidateApi, MergeApi):
    """Implements the ports, which say what each method asks and raises."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._check_runs = CheckRunBatches(connection, super().create_check_run, self._node_id)
        self._rules = BranchRulesCache(connection)
        self._changes = FileChanges(connection)
        self.people = People(connection)
        self.heads = HeadBranches(connection)
        self.app = App(connection, connection.client)
        self.teams = Teams(connection)
        self._jobs: LRUCache[int, _ReadJobs] = LRUCache(_MOST_REPOSITORIES)

    async def create_check_run(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        """`POST /repos/{owner}/{repo}/check-runs`, or the mutation `createCheckRun` for several at once."""
        return await self._check_runs.create(repository, check_run)

    @cached_property
    def doctor(self) -> "DoctorReads":
        """What `imq doctor` reads, imported when used: few processes ever examine an installation."""
        from bot.gateway.doctor_reads import DoctorReads

        return DoctorReads(self._connection)

    @property
    def budget(self) -> Mapping[int | None, Budget]:
        """Return the primary limit of each installation by GitHub's last answer; the App's own under None."""
        return self._connection.limits.budget

    @property
    def request_counts(self) -> Counter[int]:
        """Requests sent since the last report, by the number of the repository; the reporter empties it."""
        return self._connection.request_counts

    def slots_status(self) -> SlotsStatus:
        """Return how busy the slots of all installations together are."""
        return self._connection.slots_status()

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """Read `GET /repos/{owner}/{repo}/compare/{base}...{head}`; the head's commit apart if GitHub does not list it.

        Without paging parameters the last of at most 250 commits is the newest (GitHub's "Compare two commits"). When
        GitHub cannot make the diff, the commits of both tell the same.
        """
        template = "/repos/{owner}/{repo}/compare/{base}...{head}"
        variables = {"base": base_branch, "head": head_sha}
        own_login = await self.own_login()
        try:
            answer = await self._connection.get(repository, ComparisonAnswer, template, variables)
        except GitHubError as fault:
            if not may_lack_diff(fault):
                raise
            return await compare_histories(self._connection, repository, base_branch, head_sha, own_login=own_login)
        # When nothing is ahead, no commit is listed, and the head is the merge base.
        last = answer.commits[-1] if answer.commits else answer.merge_base_commit
        listed = conversions.listed_commit(last, own_login=own_login)
        head = listed if last.sha == head_sha else await self.commit(repository, head_sha)
        return Comparison(
            base_tip=answer.base_commit.sha,
            merge_base=answer.merge_base_commit.sha,
            behind=answer.behind_by,
            head=head,
            ahead=tuple(each.sha for each in answer.commits),
        )

    async def changed_paths(self, repository: Repository, base: str, before: str, after: str) -> frozenset[str] | None:
        """`GET /repos/{owner}/{repo}/compare/{before}...{after}`; the name of the base is not needed for it."""
        return await self._changes.read(repository, before, after)

    async def paths_of_head(self, repository: Repository, base: str, tip: str, head_sha: str) -> frozenset[str] | None:
        """`GET /repos/{owner}/{repo}/compare/{tip}...{head}`; the name of the base is not needed for it."""
        return await self._changes.read(repository, tip, head_sha, contained=False)

    async def differing_paths(self, repository: Repository, tree: str, landed: Commit) -> frozenset[str] | None:
        """`GET /repos/{owner}/{repo}/git/trees/{tree_sha}` of both; of each directory where a tree is cut off."""
        return await differing_paths(self._connection, repository, tree, landed.tree)

    async def commit(self, repository: Repository, sha: str) -> Commit:
        template = "/repos/{owner}/{repo}/git/commits/{commit_sha}"
        return conversions.commit(await self._connection.get(repository, CommitAnswer, template, {"commit_sha": sha}))

    async def branch_rules(self, repository: Repository, base_branch: str, *, kept: bool = False) -> BranchRules:
        return await self._rules.read(repository, base_branch)

    def cached_rules(self, repository: Repository, base_branch: str) -> BranchRules | None:
        return self._rules.cached(repository, base_branch)

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        where = {"owner": repository.owner, "repo": OWN_RULES}
        try:
            found = await self._connection.get(
                repository.installation_id, RepositoryAnswer, "/repos/{owner}/{repo}", where, fresh=True
            )
            # GitHub redirects from a renamed or transferred repository, which is not the owner's any more.
            if (found.owner.login.casefold(), found.name) != (repository.owner.casefold(), OWN_RULES):
                return False
            shared = Repository(found.id, found.owner.login, found.name, repository.installation_id)
            return (await self.branch_rules(shared, found.default_branch)).approvals > 0
        except (Forbidden, NotFound):
            return False

    async def refuses_outdated(self, repository: Repository, base_branch: str) -> bool:
        return await self._rules.refuses_outdated(repository, base_branch)

    async def is_guarded(self, repository: Repository, branch: str, default_branch: str) -> bool:
        return await self._rules.is_guarded(repository, branch, default_branch)

    def forget_rules(self, repository_id: int) -> None:
        self._rules.forget(repository_id)
        self._forget_methods(repository_id)

    def expire_rules(self, repository_id: int) -> None:
        self._rules.expire(repository_id)

    async def update_branch(self, repository: Repository, number: int, expected_head: str) -> None:
        template = "/repos/{owner}/{repo}/pulls/{pull_number}/update-branch"
        body = {"expected_head_sha": expected_head}
        await self._write(repository, "PUT", template, body, pull_number=str(number))

    async def labeled_pull_requests(self, repository: Repository, label: str) -> tuple[int, ...]:
        issues = await self._connection.items(
            repository.installation_id,
            IssueAnswer,
            "/repos/{owner}/{repo}/issues{?labels,state,sort,direction,per_page}",
            {
                **owner_and_repo(repository),
                "labels": label,
                "state": "open",
                "sort": "created",
                "direction": "asc",
                "per_page": "100",
            },
        )
        return tuple(issue.number for issue in issues if issue.pull_request is not None)

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        template = "/repos/{owner}/{repo}/pulls?state=open&sort=updated&direction=desc&per_page=100"
        found = await self._connection.listed(
            repository.installation_id, PullRequestAnswer, template, owner_and_repo(repository)
        )
        return tuple(map(conversions.pull_request, found))

    async def last_labeled_event(self, repository: Repository, number: int, label: str) -> LabelEvent | None:
        """`GET /repos/{owner}/{repo}/issues/{issue_number}/events` from its last page back: the oldest come first."""
        template = "/repos/{owner}/{repo}/issues/{issue_number}/events?per_page=100"
        call = Call("GET", template, {"issue_number": str(number)})
        first = await self._connection.call(repository, call)
        later = set[str]()
        if "last" not in first.links:
            return _labeling(first, label, later)
        async for page in self._connection.pages(repository, replace(call, link=first.links["last"]), "prev"):
            if (found := _labeling(page, label, later)) is not None:
                return found
        return None

    async def history(self, repository: Repository, number: int) -> tuple[HistoryEvent, ...]:
        template = "/repos/{owner}/{repo}/issues/{issue_number}/events?per_page=100"
        found = await self._connection.items(repository, EventAnswer, template, {"issue_number": str(number)})
        return tuple(
            HistoryEvent(
                each.event,
                each.created_at.astimezone(UTC),
                each.actor.login if each.actor else None,
                each.label.name if each.label else None,
            )
            for each in found
        )

    async def has_label(self, repository: Repository, label: str) -> bool:
        call = Call("GET", "/repos/{owner}/{repo}/labels/{name}", {"name": label})
        try:
            await self._connection.call(repository, call)
        except NotFound:
            return False
        return True

    async def login_of(self, repository: Repository, person_id: int) -> str | None:
        found = await self.people.by_id(repository, person_id)
        return None if found is None else found.login

    async def installations(self) -> tuple[int, ...]:
        """List the installations that are not suspended, and remember their permissions for tokens."""
        answers = await self._connection.items(None, InstallationAnswer, "/app/installations?per_page=100")
        for answer in answers:
            self._connection.grant(answer.id, answer.permissions)
        return tuple(answer.id for answer in answers if answer.suspended_at is None)

    def missing_permissions(self, installation_id: int) -> Mapping[str, str]:
        """Return the optional permissions that a listed installation lacks, each with its consequence."""
        return self._connection.missing(installation_id)

    async def repositories(self, installation_id: int) -> tuple[Repository, ...]:
        """List the repositories of an installation, without archived ones, which are read-only."""
        answers = await self._connection.items(
            installation_id, RepositoryAnswer, "/installation/repositories?per_page=100", key="repositories"
        )
        return tuple(
            Repository(answer.id, answer.owner.login, answer.name, installation_id)
            for answer in answers
            if not answer.archived
        )

    async def repository(self, repository: Repository) -> RepositoryState:
        """`GET /repositories/{id}`, to which GitHub itself redirects from a name that was given up."""
        variables = {"repository_id": str(repository.id)}
        found = await self._connection.get(
            repository, RepositoryAnswer, "/repositories/{repository_id}", variables, fresh=True
        )
        return RepositoryState(found.owner.login, found.name, found.archived, found.public)

    async def job_labels(self, repository: Repository, reports: Sequence[CheckReport]) -> JobLabels:
        day, kept = self._clock.now().date(), self._jobs.get(repository.id)
        jobs = "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs?filter=latest&per_page=100"
        try:
            if kept is None or kept.day != day:
                kept = self._jobs[repository.id] = _ReadJobs(day, (await self.repository(repository)).public)
            unknown: dict[int | None, dict[str, int]] = defaultdict(dict)
            for each in reports:
                if each.name not in kept.labels and each.run_id is not None:
                    unknown[each.suite][each.name] = each.run_id
            for numbers in unknown.values():
                # A job that waits for another one appears later: then its name makes another question of it.
                if (asked := frozenset(numbers)) in kept.asked:
                    continue
                kept.asked.add(asked)
                # A job has the number of its check run, whose annotations cli/cli reads by it.
                where = {"job_id": str(min(numbers.values()))}
                first = await self._connection.get(
                    repository, JobAnswer, "/repos/{owner}/{repo}/actions/jobs/{job_id}", where
                )
                found, of_run = [first], {"run_id": str(first.run_id)}
                if len(numbers) > 1:
                    found = await self._connection.items(repository, JobAnswer, jobs, of_run, key="jobs")
                kept.labels |= {job.name: tuple(job.labels) for job in found}
        except GitHubError as error:
            # Nothing waits for a price.
            _log.info("job_labels_unread", repository=repository.full_name, error=str(error))
        return JobLabels({}, public=False) if kept is None else JobLabels(kept.labels, kept.public)

    async def deliveries(self, cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        """`GET /app/hook/deliveries`: a page, newest first, and the cursor of the next one."""
        call = Call(
            "GET",
            "/app/hook/deliveries{?per_page,cursor}",
            {"per_page": "100"} | ({} if cursor is None else {"cursor": cursor}),
        )
        page = await self._connection.call(None, call)
        return tuple(map(conversions.delivery, parse_list(DeliveryAnswer, page.data))), _cursor(page.links.get("next"))

    async def redeliver(self, number: int) -> None:
        template = "/app/hook/deliveries/{delivery_id}/attempts"
        await self._connection.call(None, Call("POST", template, {"delivery_id": str(number)}))


def _cursor(link: str | None) -> str | None:
    """Return the cursor in a link to the next page. Raises Unavailable for one without."""
    if link is None:
        return None
    cursor = URL(link).query.get("cursor")
    if cursor is None:
        raise Unavailable("the answer is not GitHub's: a page of deliveries has a next page without a cursor")
    return cursor


def _labeling(page: Page, label: str, later: set[str]) -> LabelEvent | None:
    """Find the last "labeled" event of this label; `later` gains the kinds of the events after it."""
    for event in reversed(parse_list(EventAnswer, page.data)):
        if event.event == "labeled" and event.label is not None and event.label.name.casefold() == label.casefold():
            by = event.actor.login if event.actor else None
            return LabelEvent(by, event.created_at.astimezone(UTC), frozenset(later))
        later.add(event.event)
    return None
