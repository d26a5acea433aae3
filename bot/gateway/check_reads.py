"""Read the reports on a commit: check runs, statuses, suites, and their workflow runs."""

import re
from collections.abc import Collection

import structlog

from bot.gateway import facts
from bot.gateway.http.client import Call, owner_and_repo, parse_answer, parse_list
from bot.gateway.schemas import (
    AnnotationAnswer,
    CheckRunAnswer,
    CheckSuiteAnswer,
    ConcurrencyGroupAnswer,
    PullRequestAnswer,
    StatusAnswer,
    WorkflowRunAnswer,
)
from bot.gateway.snapshots.read import SnapshotBatches
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.facts import CheckReport, CheckSuite, RequiredCheck, WorkflowRun
from queue_engine.domain.model import Repository
from queue_engine.known.pulls import statuses_matter
from queue_engine.rules.checks import matches

_FOR_GROUP = re.compile(r"Canceling since a higher priority waiting request for '?(?P<group>.+?)'? exists")
"""GitHub's annotation on each job that it cancels for a newer run of a concurrency group (ncihtan/data-models #252,
pex-tool/pex #1460; without quotes in actions/runner-images #13265). No page documents these words."""

log = structlog.get_logger(__name__)


class CheckReads(SnapshotBatches):
    """Reads checks. Part of `Gateway`."""

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """Read the check runs and, if it can matter, the combined status of a commit; all pages of both."""
        where = {**owner_and_repo(repository), "ref": sha}
        template = "/repos/{owner}/{repo}/commits/{ref}/check-runs?filter=latest&per_page=100"
        runs = await self._connection.items(repository, CheckRunAnswer, template, where, key="check_runs")
        known = ((run.name, run.app.id if run.app else None, run.status != "completed") for run in runs)
        statuses: list[StatusAnswer] = []
        if statuses_matter(required, known):
            template = "/repos/{owner}/{repo}/commits/{ref}/status?per_page=100"
            statuses = await self._connection.items(repository, StatusAnswer, template, where, key="statuses")
        jobs_of = await self.workflow_runs(repository, sha) if facts.is_contested(runs) else ()
        return facts.check_reports(runs, statuses, own_app_id=self._app_id, workflow_runs=jobs_of)

    async def workflow_runs(self, repository: Repository, sha: str) -> tuple[WorkflowRun, ...]:
        """Read `GET /repos/{owner}/{repo}/actions/runs?head_sha=`; nothing if IMQ may not."""
        template = "/repos/{owner}/{repo}/actions/runs{?head_sha,per_page}"
        where = {**owner_and_repo(repository), "head_sha": sha, "per_page": "100"}
        try:
            runs = await self._connection.items(repository, WorkflowRunAnswer, template, where, key="workflow_runs")
        except (Forbidden, NotFound) as error:
            log.info("workflow runs unreadable", repository=repository.full_name, error=error.message)
            return ()
        return tuple(facts.workflow_run(run) for run in runs if run.head_sha == sha)

    async def cancelled_for(self, repository: Repository, check_run: int) -> tuple[str, ...]:
        """Read the annotations of a job, and the concurrency group that one of them names."""
        where = {**owner_and_repo(repository), "check_run_id": str(check_run)}
        template = "/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations?per_page=100"
        try:
            page = await self._connection.call(repository, Call("GET", template, where))
        except (Forbidden, NotFound) as error:
            log.info("annotations_unreadable", repository=repository.full_name, error=error.message)
            return ()
        found = (_FOR_GROUP.search(each.message or "") for each in parse_list(AnnotationAnswer, page.data))
        group = next((each["group"] for each in found if each), None)
        if group is None:
            return ()
        where = {**owner_and_repo(repository), "concurrency_group_name": group}
        template = "/repos/{owner}/{repo}/actions/concurrency_groups/{concurrency_group_name}"
        try:
            page = await self._connection.call(repository, Call("GET", template, where))
        except (Forbidden, NotFound):
            # The group has no run under way any more, or this server has no such endpoint.
            return (group,)
        members = parse_answer(ConcurrencyGroupAnswer, page.data).group_members
        return (group, *(f"{each.run_name} {each.run_html_url or ''}".strip() for each in members))

    async def check_suites(self, repository: Repository, sha: str) -> tuple[CheckSuite, ...]:
        """`GET /repos/{owner}/{repo}/commits/{ref}/check-suites`."""
        template = "/repos/{owner}/{repo}/commits/{ref}/check-suites?per_page=100"
        where = {**owner_and_repo(repository), "ref": sha}
        suites = await self._connection.items(repository, CheckSuiteAnswer, template, where, key="check_suites")
        return tuple(facts.check_suite(each, own_app_id=self._app_id) for each in suites)

    async def reports_elsewhere(
        self, repository: Repository, base_branch: str | None, head: str, wanted: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """`GET /repos/{owner}/{repo}/pulls`, the ten that changed last, then the checks of one commit after another."""
        template = "/repos/{owner}/{repo}/pulls?state=all&sort=updated&direction=desc&per_page=10"
        page = await self._connection.call(repository, Call("GET", template, owner_and_repo(repository)), fresh=True)
        heads = [answer.head.sha for answer in parse_list(PullRequestAnswer, page.data)]
        found: list[CheckReport] = []
        for ref in dict.fromkeys((*heads, base_branch)):
            if ref in (head, None) or all(any(matches(each, report) for report in found) for each in wanted):
                continue
            try:
                found += await self.check_reports(repository, ref, wanted)
            except NotFound:
                continue  # The commit of a fork that was deleted.
        return tuple(found)
