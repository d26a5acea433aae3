"""Clean up after landings and runs: delete branches, close drafts, and pull requests that GitHub shows as open.

The branch of a landed pull request is deleted where a repository wants that, and nothing else uses it.

After a run that ended, IMQ cancels its CI, closes its draft, deletes its branches, then forgets it. Everything is found
by the run's record, and each request may be repeated. A branch is deleted at the commit where IMQ left it. Any other
tip stays, unless GitHub's activity shows that the App of IMQ made the branch, and that no other account pushed. So does
the branch of a run that a restored backup lacks. The log names each branch that stays, and so does `imq doctor`.

GitHub marks a pull request as merged once its base branch contains its head. Usually that takes seconds, now and then
hours (bors-ng #1605); some stay open until GitHub's support marks them (eclipse-openj9/openj9-website #280). IMQ closes
such a pull request after a day, with the landed commit in its comment. One with another head, or another base branch,
stays open (P4): somebody pushed or changed its base as it landed. Its comment says what did not land.
"""

import re
from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.core.jobs.worker import Handler
from queue_engine.domain.errors import (
    Forbidden,
    GitHubError,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    Refused,
    WriteRefused,
    naming,
)
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import KEPT, PullRequestState, of_pull
from queue_engine.domain.model import Entry, Queue, Repository
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.port import BranchUpdate, GitHub
from queue_engine.domain.run import Run, RunMember
from queue_engine.effects.context import Change, Engine, EngineHandler
from queue_engine.effects.landings import is_landed_on
from queue_engine.effects.notices import announce, notice_of_pull
from queue_engine.effects.stale_runs import MOST_RUNS
from queue_engine.rules.consent import made_by
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import OutboxKind

_log = structlog.get_logger("imq.cleanup")

BRANCH_JOB = "delete_branch"
"""Kind of the job that deletes the branch of a pull request that landed."""

_POLLS, _POLL_AFTER = 5, timedelta(seconds=10)
"""GitHub may show a merged pull request as open for a moment: how often IMQ polls it, and how far apart."""

CLEAN_JOB = "clean_candidate"
"""Kind of the job that deletes the branches of a run that ended, and closes its pull request."""

_BELIEVED = 3
"""After so many failed tries of a job a 422 in unknown words is GitHub's answer."""

_FORBIDDEN, _NEWER = "forbidden", "it has newer commits"

TRY_AGAIN, MOST_TRIES = timedelta(hours=1), 168
"""While IMQ lacks a permission it tries again, for a week: no other account deletes the branch (P5)."""

_TRIED = re.compile(r"imq(?:-build)?/.+/try-(\d{1,9})", re.ASCII)
TRY_JOB = "try"
"""Kind of the job that tests a pull request without queueing it."""

_LONGEST_SEARCH = timedelta(days=14)
"""How long a search for a culprit may take: it waits for a missing permission for a week."""

LOST_JOB = "clean_lost_candidates"
"""Kind of the job that deletes the branches of runs that the database does not know."""

_MOST_LOST = 100
"""How many such branches of one repository IMQ looks at, by one request each."""

CLOSE_JOB = "close_landed"
"""Kind of the job that closes the members of a run which GitHub shows as open after they landed."""

_FIRST_READ = timedelta(minutes=10)
"""While webhooks are known that show the members as merged, so that IMQ sends no request."""

_PATIENCE = timedelta(days=1)
"""How long after the landing a pull request is closed; GitHub never marks a closed one as merged."""


async def schedule_branch_deletion(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> None:
    """Enqueue the job that deletes the branch of a landed entry, if the repository's configuration asks for that."""
    if policy.merge.delete_branch:
        await tx.jobs.enqueue(
            kind=BRANCH_JOB,
            request={"queue_id": entry.queue_id, "number": entry.number, "head": entry.head_sha},
            process_id=f"{BRANCH_JOB}:{entry.repository.id}:{entry.number}",
            now=now,
        )


class Cleanup(EngineHandler):
    """Deletes branches of landed pull requests, unless something else uses them."""

    async def delete_branch(self, job: Job) -> Hold | None:
        """Delete the branch of a landed pull request, unless GitHub refuses. Raises RateLimitError and Unavailable."""
        github, number, head = self._engine.github, job.request["number"], job.request["head"]
        queue = await self._engine.store.read(lambda tx: tx.queues.get(job.request["queue_id"]))
        assert queue is not None
        repository = queue.repository
        try:
            pull = await github.pull_request(repository, number)
            if not pull.merged and job.claims < _POLLS:
                return Hold(_POLL_AFTER)
            kept = await self._why_kept(queue, pull, head)
            if kept is None and not await _delete_at(github, repository, pull.head_branch, head):
                kept = _NEWER
        except (Forbidden, Invalid, NotFound) as refusal:
            believe(refusal, job)
            kept = refusal.message
        event = "branch_deleted" if kept is None else "branch_kept"
        _log.info(event, repository=repository.full_name, number=number, why=kept)
        return None

    async def _why_kept(self, queue: Queue, pull: PullRequest, head_sha: str) -> str | None:
        """Return why this branch is kept, None if it may be deleted. Each request is sent only if it can matter."""
        repository, branch = queue.repository, pull.head_branch
        if not pull.merged:
            return "it has not landed"
        if pull.head_repository != repository.full_name:
            return "it is a fork's"
        if branch == pull.base_branch or await is_landed_on(self._engine, repository, branch, pull.default_branch):
            return "others are merged into it"
        tip = await self._engine.github.branch_tip(repository, branch)
        if tip is None:
            return "it is gone"
        if tip.protected:
            return "it is protected"
        if tip.sha != head_sha:
            return _NEWER
        if await self._engine.github.is_in_use(repository, branch):
            return "another open pull request needs it"
        return None


async def _delete_at(github: GitHub, repository: Repository, branch: str, tip: str) -> bool:
    """Delete a branch at this tip; False if it is at another one: somebody has pushed. Raises GitHubError."""
    try:
        await github.update_refs(repository, [BranchUpdate(branch, before=tip, after=None)])
    except HeadConflict as moved:
        # Reads lag, so that the same tip there proves nothing; nor do GitHub's words, which no source quotes.
        found = await github.branch_tip(repository, branch)
        if found is not None and found.sha == tip:
            raise Invalid(moved.message, status=moved.status) from moved
        return found is None
    except (Forbidden, Invalid, MergeError, NotFound):
        # GitHub may have no such mutation, and the other request names no tip.
        found = await github.branch_tip(repository, branch)
        if found is None or found.sha != tip:
            return found is None
        await github.delete_branch(repository, branch)
    return True


_RULE = re.compile("rule violations|cannot delete|protected branch", re.IGNORECASE)
"""GitHub's words, with 422, for a branch that a rule keeps; other words may come from GitHub in trouble."""


def _is_unexplained(refusal: GitHubError) -> bool:
    return isinstance(refusal, Invalid) and not _RULE.search(refusal.message)


def believe(refusal: GitHubError, job: Job) -> None:
    """Return if this is GitHub's answer. Raises Refused for a 422 in unknown words that a job met at most twice."""
    if _is_unexplained(refusal) and job.attempt < _BELIEVED:
        raise Refused(refusal.message, status=refusal.status) from refusal


def until_permitted(job: Job) -> Hold | None:
    """Return a hold for a job that lacks a permission; None once it has tried for a week."""
    return Hold(TRY_AGAIN, _FORBIDDEN) if job.holds.get(_FORBIDDEN, 0) < MOST_TRIES else None


def train_jobs(engine: Engine) -> dict[str, Handler]:
    """Return the handlers of the jobs that runs leave behind, by kind."""
    cleanup = CandidateCleanup(engine)
    return {CLEAN_JOB: cleanup.clean, LOST_JOB: cleanup.clean_lost, CLOSE_JOB: LostMerges(engine).close}


def try_branches(base_branch: str, number: int) -> tuple[str, str]:
    """Return the branches of the test of a pull request by `/try`: of its candidate, and the one that builds it."""
    return f"imq/{base_branch}/try-{number}", f"imq-build/{base_branch}/try-{number}"


def tried_on(branch: str | None) -> int | None:
    """Return which pull request the test by `/try` on a branch is of; None if it is no such branch.

    A check suite names the branch with which its commit came first, so it may be the one that builds it.
    """
    found = None if branch is None else _TRIED.fullmatch(branch)
    return None if found is None else int(found[1])


async def request_lost(change: Change, repository: Repository, *, after: timedelta = timedelta(0)) -> None:
    """Enqueue the job that deletes the branches of runs that the database does not know."""
    await change.enqueue(LOST_JOB, asdict(repository), repository.id, at=change.now + after, priority=-1, once=True)


class CandidateCleanup(EngineHandler):
    """Handles the jobs that `queue_engine.executor.run_store` enqueues."""

    async def clean(self, job: Job) -> Hold | None:
        """Clean up after a run; a hold without permission or in shadow mode. Raises RateLimitError and Unavailable."""
        try:
            return await self._clean(job)
        except WriteRefused:
            return Hold(TRY_AGAIN)

    async def _clean(self, job: Job) -> Hold | None:
        async with self._engine.store.reading() as tx:
            run = await tx.runs.get(job.request["run"])
            queue = None if run is None or run.queue_id is None else await tx.queues.get(run.queue_id)
        if run is None or queue is None:
            return None
        repository, forbidden = queue.repository, False
        if job.request["cancels"] and run.published_at is not None:
            await self.cancel_workflows(repository, run.candidate or "", {run.branch, run.build_branch})
        if run.pull_request is not None:
            closing = self._engine.github.close_pull_request(repository, run.pull_request)
            forbidden = await self._is_refused_for_now(repository, run.id, closing)
        if job.request["branches"]:
            forbidden = await self._delete_branches(repository, run) or forbidden
        if forbidden and (again := until_permitted(job)) is not None:
            return again
        await self._engine.store.write(lambda transaction: transaction.runs.remove(run))
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
                    drafts = [each.number for each in own if each.head_branch == branch]
                    await self.cancel_workflows(repository, tip, {branch})
                    forbidden = await self.remove(repository, [branch], drafts, made=tip) or forbidden
        except NotFound:
            return None  # The App was uninstalled meanwhile.
        except WriteRefused:
            return Hold(TRY_AGAIN)
        return until_permitted(job) if forbidden else None

    async def _lost(self, repository: Repository) -> dict[str, str]:
        """Return the branches of IMQ's own that no record names, with their tips; log the others."""
        found = await self._engine.github.candidate_branches(repository)
        async with self._engine.store.reading() as tx:
            known = {each for run in await tx.runs.of_repository(repository.id) for each in run.branches}
            tried = await tx.jobs.unfinished_requests(TRY_JOB, f"{TRY_JOB}:{repository.id}:")
            searches = await tx.culprits.since(repository.id, self._engine.clock.now() - _LONGEST_SEARCH)
        known |= {each for each in found for one in tried if each.endswith(f"/try-{one['number']}")}
        known |= {each.testing.branch for each in searches if each.testing is not None}
        unknown = [each for each in found.items() if each[0] not in known][:_MOST_LOST]
        lost = {branch: tip for branch, tip in unknown if await self.is_proved(repository, branch, tip)}
        if unproved := [branch for branch, _ in unknown if branch not in lost]:
            _log.warning("branches_not_proved", repository=repository.full_name, branches=unproved)
        return lost

    async def is_proved(self, repository: Repository, branch: str, tip: str) -> bool:
        """Whether GitHub's activity shows that IMQ made this branch, and that no other account pushed."""
        github = self._engine.github
        return made_by(await github.own_login(), await github.branch_pushes(repository, branch), tip)

    async def _delete_branches(self, repository: Repository, run: Run) -> bool:
        """Delete the branches of a run, in one request if both are there; whether a permission is missing for that."""
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
        tip = next((each.commit for each in reversed(run.members) if each.commit is not None), run.base_tip)
        left = next((each.head_sha for each in run.members if each.commit is None), None)
        for branch in branches:
            if branch == run.branch:
                deleting = self.delete_own(repository, branch, run.candidate)
            else:
                # A process that died may have merged the next member, and not stored that.
                deleting = self.delete_own(repository, branch, tip, merged=(tip, left))
            forbidden = await self._is_refused_for_now(repository, branch, deleting) or forbidden
        return forbidden

    async def remove(
        self, repository: Repository, branches: Iterable[str], drafts: Iterable[int], *, made: str | None
    ) -> bool:
        """Close drafts, and delete branches as `delete_own` does; whether a permission is missing for that."""
        github, forbidden = self._engine.github, False
        for draft in drafts:
            closing = github.close_pull_request(repository, draft)
            forbidden = await self._is_refused_for_now(repository, draft, closing) or forbidden
        for branch in branches:
            deleting = self.delete_own(repository, branch, made)
            forbidden = await self._is_refused_for_now(repository, branch, deleting) or forbidden
        return forbidden

    async def delete_own(
        self,
        repository: Repository,
        branch: str,
        made: str | None,
        *,
        merged: tuple[str | None, str | None] = (None, None),
    ) -> bool:
        """Delete a branch that IMQ made, if it is there; False if one stays that may be somebody else's.

        IMQ left it at the commit `made`, or at a merge with the parents `merged`, or GitHub's activity shows that it
        made the branch, and that no other account pushed.
        """
        github = self._engine.github
        if made is not None and await _delete_at(github, repository, branch, made):
            _log.info("candidate_branch_deleted", repository=repository.full_name, branch=branch)
            return True
        found = await github.branch_tip(repository, branch)
        if found is None:
            return True
        proved = None not in merged and (await github.commit(repository, found.sha)).parents == merged
        if not proved and not await self.is_proved(repository, branch, found.sha):
            _log.warning("branches_not_proved", repository=repository.full_name, branches=[branch])
            return False
        return await _delete_at(github, repository, branch, found.sha)

    async def cancel_workflows(self, repository: Repository, candidate: str, branches: Collection[str]) -> None:
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

    async def _is_refused_for_now(self, repository: Repository, what: object, request: Awaitable[object]) -> bool:
        """Make a request that GitHub may refuse; whether that may end: a permission lacks, or no rule explains it."""
        try:
            await request
        except (Forbidden, HeadConflict, Invalid, MergeError, NotFound) as refusal:
            _log.info("not_cleaned_up", repository=repository.full_name, what=what, message=refusal.message)
            return _is_unexplained(refusal) or (isinstance(refusal, Forbidden) and refusal.lacking)
        return False


async def schedule_close(change: Change, run: Run, landed: Sequence[tuple[RunMember, str]], *, reported: bool) -> None:
    """Enqueue the job for members that landed by a move of the base, each with the commit that brought it.

    `reported`: webhooks said that some of them changed as they landed, so that they are read at once.
    """
    assert run.queue_id is not None
    members = [{"number": each.number, "head": each.head_sha, "sha": sha} for each, sha in landed]
    at = change.now if reported else change.now + _FIRST_READ
    await _enqueue(change, run.queue_id, members, landed_at=change.now, at=at)


async def _enqueue(
    change: Change, queue_id: int, members: Sequence[dict[str, Any]], *, landed_at: datetime, at: datetime
) -> None:
    request = {"queue_id": queue_id, "landed_at": landed_at.isoformat(), "members": list(members)}
    await change.enqueue(CLOSE_JOB, request, queue_id, members[0]["sha"], at.isoformat(), at=at, once=True)


async def follow_landed(engine: Engine, repository: Repository, number: int) -> None:
    """Read a pull request whose head or base somebody changed, if it landed with a train. Raises GitHubError."""
    shown = await engine.store.read(lambda tx: tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number))
    if shown is not None and shown.kind is NoticeKind.LANDED and shown.landed_with is not None:
        await _announce_unlanded(engine, repository, await engine.github.pull_request(repository, number))


async def _announce_unlanded(engine: Engine, repository: Repository, pull: PullRequest) -> None:
    """Say what did not land of an open pull request, as long as its comment says what landed.

    Its newer commits did not, or nothing did on the base branch that it has now.
    """
    policy = await engine.policies.of(repository, pull.base_branch)
    async with engine.change() as change:
        shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, pull.number)
        if shown is None or shown.kind is not NoticeKind.LANDED or not pull.open:
            return
        newer = None if pull.head_sha == shown.head_sha else pull.head_sha
        base = None if pull.base_branch == shown.base_branch else pull.base_branch
        if (newer, base) == (shown.unlanded_head, shown.unlanded_base):
            return
        notice = shown.model_copy(update={"unlanded_head": newer, "unlanded_base": base})
        await announce(change, repository, notice, policy)
    _log.info("newer_head_not_landed", repository=repository.full_name, number=pull.number, head_sha=newer, base=base)


class LostMerges(EngineHandler):
    """Handles the jobs that `schedule_close` enqueues."""

    async def close(self, job: Job) -> None:
        """Close members open for too long. A job may run twice. Raises RateLimitError, StaleRead and Unavailable."""
        queue = await self._engine.store.read(lambda tx: tx.queues.get(job.request["queue_id"]))
        if queue is None:
            return
        landed_at = datetime.fromisoformat(job.request["landed_at"])
        late = self._engine.clock.now() - landed_at >= _PATIENCE
        left = await self._not_known_merged(queue.repository, job.request["members"])
        still_open = [each for each in left if await self._is_open(queue, each)]
        if not late and still_open:
            async with self._engine.change() as change:
                await _enqueue(change, queue.id, still_open, landed_at=landed_at, at=landed_at + _PATIENCE)
        for each in still_open if late else ():
            await self._close(queue, each)

    async def _not_known_merged(
        self, repository: Repository, members: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        subjects = [of_pull(each["number"]) for each in members]
        async with self._engine.store.reading() as tx:
            known = await tx.known.about(repository.id, subjects, since=self._engine.clock.now() - KEPT)
        merged = {
            subject
            for subject, facts in known.items()
            if any(isinstance(each.statement, PullRequestState) and each.statement.merged for each in facts)
        }
        return [each for each in members if of_pull(each["number"]) not in merged]

    async def _is_open(self, queue: Queue, member: dict[str, Any]) -> bool:
        """Whether the pull request is open with the head that landed, and the base branch. Raises GitHubError."""
        repository = queue.repository
        try:
            pull = await self._engine.github.pull_request(repository, member["number"])
        except (Forbidden, Invalid, NotFound) as refusal:
            self._not_closed(repository, member, refusal)
            return False
        if (pull.head_sha, pull.base_branch) != (member["head"], queue.base_branch):
            await _announce_unlanded(self._engine, repository, pull)
            return False
        return pull.open and not pull.merged

    async def _close(self, queue: Queue, member: dict[str, Any]) -> None:
        """Announce the close, and close: killed between both, the job does both again."""
        repository, number = queue.repository, member["number"]
        policy = await self._engine.policies.of(repository, queue.base_branch)
        async with self._engine.change() as change:
            shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
            if shown is None:
                await change.tx.outbox.search_first(repository, number, change.now)
            if shown is None or shown.landed_sha != member["sha"]:
                its_own = number, queue.base_branch, member["head"]
                shown = notice_of_pull(*its_own, NoticeKind.LANDED, policy, change.now, landed_sha=member["sha"])
            notice = shown.model_copy(update={"closed_unmerged": True})
            await announce(change, repository, notice, policy)
        try:
            await self._engine.github.close_pull_request(repository, number)
        except (Forbidden, Invalid, NotFound) as refusal:
            self._not_closed(repository, member, refusal)
            return
        _log.info("closed_landed", repository=repository.full_name, number=number, sha=member["sha"])

    def _not_closed(self, repository: Repository, member: dict[str, Any], refusal: GitHubError) -> None:
        _log.info("not_closed", repository=repository.full_name, number=member["number"], message=refusal.message)
