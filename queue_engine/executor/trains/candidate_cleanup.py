"""Clean up after a run that ended: cancel its CI, close its draft, delete its branches, then forget it.

Everything is found by the run's record, and each request may be repeated. A branch that somebody else made stays, also
under the name of a run's branch.
"""

from collections.abc import Awaitable
from datetime import timedelta

import structlog

from queue_engine.core.jobs.job_store import Job
from queue_engine.core.jobs.outcomes import Hold
from queue_engine.core.jobs.worker import Handler
from queue_engine.domain.candidate_port import BranchUpdate
from queue_engine.domain.candidate_run import CandidateRun
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError, NotFound, ShadowModeError
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.effects.stale_runs import MOST_RUNS
from queue_engine.executor.trains.lost_merges import CLOSE_JOB, LostMerges
from queue_engine.executor.trains.state import CLEAN_JOB

_log = structlog.get_logger("imq.trains")

_FORBIDDEN = "forbidden"
_TRY_AGAIN, _MOST_TRIES = timedelta(hours=1), 168
"""While IMQ lacks a permission it tries again, for a week: no other account deletes the branch (P5)."""


def train_jobs(engine: Engine) -> dict[str, Handler]:
    """Return the handlers of the jobs that runs leave behind, by kind."""
    return {CLEAN_JOB: CandidateCleanup(engine).clean, CLOSE_JOB: LostMerges(engine).close}


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
            await self._cancel_workflows(repository, run)
        if run.pull_request is not None:
            closing = self._engine.github.close_pull_request(repository, run.pull_request)
            forbidden = await self._is_forbidden(repository, run, closing)
        if job.request["branches"]:
            made = bool(job.request.get("made"))
            forbidden = await self._delete_branches(repository, run, made=made) or forbidden
        if forbidden and job.holds.get(_FORBIDDEN, 0) < _MOST_TRIES:
            return Hold(_TRY_AGAIN, _FORBIDDEN)
        async with self._engine.store.transaction() as transaction:
            await transaction.candidate_runs.remove(run)
        return None

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
                forbidden = await self._is_forbidden(repository, run, deleting) or forbidden
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
        if found is None or branch == run.branch:
            return found is not None and found.sha == run.candidate
        tip = next((each.commit for each in reversed(run.members) if each.commit is not None), run.base_tip)
        if found.sha == tip:
            return True
        left = next((each for each in run.members if each.commit is None), None)
        if left is None:
            return False
        parents = (await github.commit(repository, found.sha)).parents
        return parents == (tip, left.head) or (left.method is MergeMethod.SQUASH and parents == (tip,))

    async def _cancel_workflows(self, repository: Repository, run: CandidateRun) -> None:
        """Cancel the workflow runs on the candidate that are under way, which frees their runners.

        A later run may have the same commit: git makes one of equal merges within a second. Its branch is another.
        """
        if run.candidate is None:
            return
        try:
            found = await self._engine.github.workflow_runs(repository, run.candidate)
            branches = {"", run.branch, run.build_branch}
            own = [each for each in found if each.head_sha == run.candidate and each.branch in branches]
            for each in [one for one in own if not one.ended][:MOST_RUNS]:
                await self._engine.github.cancel_run(repository, each.id)
        except (Forbidden, HeadConflict, Invalid, NotFound) as refusal:
            _log.info("runs_not_cancelled", repository=repository.full_name, run=run.id, message=refusal.message)

    async def _is_forbidden(self, repository: Repository, run: CandidateRun, request: Awaitable[None]) -> bool:
        """Make a request that GitHub may refuse; whether it did for want of a permission, which may come back."""
        try:
            await request
        except (Forbidden, Invalid, NotFound) as refusal:
            _log.info("not_cleaned_up", repository=repository.full_name, run=run.id, message=refusal.message)
            return isinstance(refusal, Forbidden)
        return False
