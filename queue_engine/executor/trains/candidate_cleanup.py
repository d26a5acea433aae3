"""Clean up after a run that ended: cancel its CI, close its draft, delete its branches, then forget it.

Everything is found by the run's record, and each request may be repeated. A branch that somebody else made stays, also
under the name of a run's branch.

A restored backup lacks the records of later runs. IMQ deletes their branches only where GitHub's activity shows that
its App made them, and that no other account pushed. Any other is named in the log, and by `imq doctor`.
"""

from collections.abc import Awaitable, Collection, Iterable
from dataclasses import asdict
from datetime import timedelta

import structlog

from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job_store import Job
from queue_engine.core.jobs.outcomes import Hold
from queue_engine.core.jobs.worker import Handler
from queue_engine.domain.candidate_run import CandidateRun
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, ShadowModeError, naming
from queue_engine.domain.facts import MergeMethod, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.port import BranchUpdate
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.stale_runs import MOST_RUNS
from queue_engine.executor.trains.lost_merges import CLOSE_JOB, LostMerges
from queue_engine.executor.trains.state import CLEAN_JOB
from queue_engine.rules.new_heads import made_by

_log = structlog.get_logger("imq.trains")

_FORBIDDEN = "forbidden"
_TRY_AGAIN, _MOST_TRIES = timedelta(hours=1), 168
"""While IMQ lacks a permission it tries again, for a week: no other account deletes the branch (P5)."""


LOST_JOB = "clean_lost_candidates"
"""Kind of the job that deletes the branches of runs that the database does not know."""

_MOST_LOST = 100
"""How many such branches of one repository IMQ looks at, by one request each."""


def train_jobs(engine: Engine) -> dict[str, Handler]:
    """Return the handlers of the jobs that runs leave behind, by kind."""
    cleanup = CandidateCleanup(engine)
    return {CLEAN_JOB: cleanup.clean, LOST_JOB: cleanup.clean_lost, CLOSE_JOB: LostMerges(engine).close}


async def request_lost(change: Change, repository: Repository) -> None:
    """Enqueue the job that deletes the branches of runs that the database does not know."""
    process, request = f"{LOST_JOB}:{repository.id}", asdict(repository)
    await change.tx.jobs.enqueue_once(kind=LOST_JOB, request=request, process_id=process, now=change.now, priority=-1)


class CandidateCleanup:
    """Handles the jobs that `queue_engine.executor.trains.state` enqueues."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def clean(self, job: Job) -> Hold | None:
        """Clean up after one run; a hold while a permission is missing, and in shadow mode.

        Raises RateLimitError and Unavailable.
        """
        try:
            return await self._clean(job)
        except ShadowModeError:
            return Hold(_TRY_AGAIN)

    async def _clean(self, job: Job) -> Hold | None:
        async with self._engine.store.reading() as tx:
            run = await tx.candidate_runs.get(job.request["run"])
            queue = None if run is None else await tx.queues.get(run.queue_id)
        if run is None or queue is None:
            return None
        repository, forbidden = queue.repository, False
        if job.request["cancels"] and run.published_at is not None:
            await self._cancel_workflows(repository, run.candidate or "", {run.branch, run.build_branch})
        if run.pull_request is not None:
            closing = self._engine.github.close_pull_request(repository, run.pull_request)
            forbidden = await self._is_forbidden(repository, run.id, closing)
        if job.request["branches"]:
            made = bool(job.request.get("made"))
            forbidden = await self._delete_branches(repository, run, made=made) or forbidden
        if forbidden and job.holds.get(_FORBIDDEN, 0) < _MOST_TRIES:
            return Hold(_TRY_AGAIN, _FORBIDDEN)
        async with self._engine.store.transaction() as transaction:
            await transaction.candidate_runs.remove(run)
        return None

    async def clean_lost(self, job: Job) -> Hold | None:
        """Delete the branches of runs that the database does not know, where they are proved to be IMQ's own.

        A run that it knows has a job of its own. Returns a hold as `clean` does. Raises RateLimitError and Unavailable.
        """
        repository, forbidden = Repository(**job.request), False
        try:
            with working(RequestPriority.BACKGROUND), naming(f"the branches of trains in {repository.full_name}"):
                lost = await self._lost(repository)
                pulls = await self._engine.github.latest_pull_requests(repository) if lost else ()
                own = [each for each in pulls if each.head_repository == repository.full_name]
                for branch, tip in lost.items():
                    drafts = [each for each in own if each.head_branch == branch]
                    forbidden = await self._delete_lost(repository, branch, tip, drafts) or forbidden
        except NotFound:
            return None  # The App was uninstalled meanwhile.
        except ShadowModeError:
            return Hold(_TRY_AGAIN)
        return Hold(_TRY_AGAIN, _FORBIDDEN) if forbidden and job.holds.get(_FORBIDDEN, 0) < _MOST_TRIES else None

    async def _lost(self, repository: Repository) -> dict[str, str]:
        """Return the branches of IMQ's own that no record names, with their tips; log the others."""
        found = await self._engine.github.candidate_branches(repository)
        async with self._engine.store.reading() as tx:
            known = {each for run in await tx.candidate_runs.of_repository(repository.id) for each in run.branches}
        unknown = [each for each in found.items() if each[0] not in known][:_MOST_LOST]
        lost = {branch: tip for branch, tip in unknown if await self._is_proved(repository, branch, tip)}
        if unproved := [branch for branch, _ in unknown if branch not in lost]:
            _log.warning("branches_not_proved", repository=repository.full_name, branches=unproved)
        return lost

    async def _delete_lost(self, repository: Repository, branch: str, tip: str, drafts: Iterable[PullRequest]) -> bool:
        """Cancel a branch's CI, close its draft, delete it at this tip; whether a permission is missing for that."""
        github = self._engine.github
        await self._cancel_workflows(repository, tip, {branch})
        for draft in drafts:
            await self._is_forbidden(repository, branch, github.close_pull_request(repository, draft.number))
        deleting = github.update_refs(repository, [BranchUpdate(branch, before=tip, after=None)])
        if not await self._is_forbidden(repository, branch, deleting):
            _log.info("lost_branch_deleted", repository=repository.full_name, branch=branch)
            return False
        # GitHub may have no such mutation, and this request names no tip: somebody may have pushed since the proof.
        found = await github.branch_tip(repository, branch)
        if found is None or found.sha != tip:
            return False
        return await self._is_forbidden(repository, branch, github.delete_branch(repository, branch))

    async def _is_proved(self, repository: Repository, branch: str, tip: str) -> bool:
        github = self._engine.github
        return made_by(await github.own_login(), await github.branch_pushes(repository, branch), tip)

    async def _delete_branches(self, repository: Repository, run: CandidateRun, *, made: bool) -> bool:
        """Delete the branches of a run, in one request if both are there; whether a permission is missing for that.

        `made`: the pass that ended the run had made its build branch, or had found it where IMQ makes it.
        """
        github, branches = self._engine.github, run.branches
        if run.published_at is not None and len(branches) > 1:
            try:
                await github.update_refs(
                    repository, [BranchUpdate(each, before=run.candidate, after=None) for each in branches]
                )
            except (Forbidden, HeadConflict, Invalid, MergeError, NotFound):
                # One is gone already, has moved, or a rule keeps it: each by itself tells.
                pass
            else:
                return False
        forbidden = False
        for branch in branches:
            if (made and branch == run.build_branch) or await self._is_own(repository, run, branch):
                deleting = github.delete_branch(repository, branch)
                forbidden = await self._is_forbidden(repository, branch, deleting) or forbidden
        return forbidden

    async def _is_own(self, repository: Repository, run: CandidateRun, branch: str) -> bool:
        """Whether IMQ made this branch: a person may have taken its name before.

        If the record does not say so, IMQ was killed before it stored that, and the branch shows what IMQ did.
        """
        built = [each.commit for each in run.members if each.commit is not None and not each.reused]
        if run.published_at is not None if branch == run.branch else built:
            return True
        github = self._engine.github
        found = await github.branch_tip(repository, branch)
        if found is None:
            return False
        if branch == run.branch:
            return found.sha == run.candidate or await self._is_proved(repository, branch, found.sha)
        tip = next((each.commit for each in reversed(run.members) if each.commit is not None), run.base_tip)
        if found.sha == tip:
            return True
        left = next((each for each in run.members if each.commit is None), None)
        if left is not None:
            parents = (await github.commit(repository, found.sha)).parents
            if parents == (tip, left.head) or (left.method is MergeMethod.SQUASH and parents == (tip,)):
                return True
        # A restored backup may lack what became of the run, or the branch may be another run's of the same id.
        return await self._is_proved(repository, branch, found.sha)

    async def _cancel_workflows(self, repository: Repository, candidate: str, branches: Collection[str]) -> None:
        """Cancel the workflow runs on the candidate that are under way, which frees their runners.

        A later run may have the same commit: git makes one of equal merges within a second. Its branch is another.
        """
        try:
            found = await self._engine.github.workflow_runs(repository, candidate)
            own = [each for each in found if each.head_sha == candidate and each.branch in {"", *branches}]
            for each in [one for one in own if not one.ended][:MOST_RUNS]:
                await self._engine.github.cancel_run(repository, each.id)
        except (Forbidden, HeadConflict, Invalid, NotFound) as refusal:
            _log.info("runs_not_cancelled", repository=repository.full_name, commit=candidate, message=refusal.message)

    async def _is_forbidden(self, repository: Repository, what: object, request: Awaitable[None]) -> bool:
        """Make a request that GitHub may refuse; whether it did for want of a permission, which may come back."""
        try:
            await request
        except (Forbidden, HeadConflict, Invalid, MergeError, NotFound) as refusal:
            _log.info("not_cleaned_up", repository=repository.full_name, what=what, message=refusal.message)
            return isinstance(refusal, Forbidden)
        return False
