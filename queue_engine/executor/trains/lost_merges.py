"""Close pull requests that landed with a train, where GitHub does not show them as merged.

GitHub marks a pull request as merged once its base branch contains its head. Usually that takes seconds, now and then
hours (bors-ng #1605); some stay open until GitHub's support marks them (eclipse-openj9/openj9-website #280). IMQ closes
such a pull request after a day, with the landed commit in its comment. One with another head stays open (P4): somebody
pushed as it landed, and its comment says that the newer commits did not land.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.candidate_run import CandidateMember, CandidateRun
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import KEPT, PullRequestState, of_pull
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.notices import announce
from queue_engine.store.outbox.outbox import OutboxKind

_log = structlog.get_logger("imq.trains")

CLOSE_JOB = "close_landed"
"""Kind of the job that closes the members of a run which GitHub shows as open after they landed."""

_FIRST_READ = timedelta(minutes=10)
"""While webhooks are known that show the members as merged, so that IMQ sends no request."""

_PATIENCE = timedelta(days=1)
"""How long after the landing a pull request is closed; GitHub never marks a closed one as merged."""


async def schedule_close(
    change: Change, run: CandidateRun, landed: Sequence[tuple[CandidateMember, str]], *, reported: bool
) -> None:
    """Enqueue the job for members that landed by a move of the base, each with the commit that brought it.

    `reported`: webhooks said that some of them changed as they landed, so that they are read at once.
    """
    members = [{"number": each.number, "head": each.head, "sha": sha} for each, sha in landed]
    at = change.now if reported else change.now + _FIRST_READ
    await _enqueue(change, run.queue_id, members, landed_at=change.now, at=at)


async def _enqueue(
    change: Change, queue_id: int, members: Sequence[dict[str, Any]], *, landed_at: datetime, at: datetime
) -> None:
    await change.tx.jobs.enqueue_once(
        kind=CLOSE_JOB,
        request={"queue_id": queue_id, "landed_at": landed_at.isoformat(), "members": list(members)},
        process_id=f"{CLOSE_JOB}:{queue_id}:{members[0]['sha']}:{at.isoformat()}",
        now=change.now,
        not_before=at,
    )


async def follow_landed(engine: Engine, repository: Repository, number: int) -> None:
    """Read a pull request to which somebody pushed, if it landed with a train. Raises GitHubError."""
    async with engine.store.reading() as tx:
        shown = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
    if shown is not None and shown.kind is NoticeKind.LANDED and shown.landed_with is not None:
        await _announce_unlanded(engine, repository, await engine.github.pull_request(repository, number))


async def _announce_unlanded(engine: Engine, repository: Repository, pull: PullRequest) -> None:
    """Say that the newer commits of an open pull request did not land, as long as its comment says what landed."""
    policy = await engine.policies.of(repository, pull.base_branch)
    async with engine.change() as change:
        shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, pull.number)
        newer = None if shown is None or pull.head_sha == shown.head_sha else pull.head_sha
        if shown is None or shown.kind is not NoticeKind.LANDED or not pull.open or newer == shown.unlanded_head:
            return
        notice = shown.model_copy(update={"unlanded_head": newer})
        await announce(change.tx, repository, notice, policy, due=change.now)
    _log.info("newer_head_not_landed", repository=repository.full_name, number=pull.number, head=newer)


class LostMerges:
    """Handles the jobs that `schedule_close` enqueues."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def close(self, job: Job) -> None:
        """Read the members that no webhook showed as merged; close those that are open for too long.

        A job may run twice. Raises RateLimitError, StaleRead and Unavailable.
        """
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(job.request["queue_id"])
        if queue is None:
            return
        landed_at = datetime.fromisoformat(job.request["landed_at"])
        late = self._engine.clock.now() - landed_at >= _PATIENCE
        left = await self._not_known_merged(queue.repository, job.request["members"])
        still_open = [each for each in left if await self._is_open(queue.repository, each)]
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

    async def _is_open(self, repository: Repository, member: dict[str, Any]) -> bool:
        """Whether the pull request is open with the head that landed. Raises GitHubError."""
        try:
            pull = await self._engine.github.pull_request(repository, member["number"])
        except (Forbidden, Invalid, NotFound) as refusal:
            self._not_closed(repository, member, refusal)
            return False
        if pull.head_sha != member["head"]:
            await _announce_unlanded(self._engine, repository, pull)
        return pull.open and not pull.merged and pull.head_sha == member["head"]

    async def _close(self, queue: Queue, member: dict[str, Any]) -> None:
        """Announce the close, and close: killed between both, the job does both again."""
        repository, number = queue.repository, member["number"]
        policy = await self._engine.policies.of(repository, queue.base_branch)
        async with self._engine.change() as change:
            shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
            if shown is None:
                await change.tx.outbox.search_first(repository, number, change.now)
            if shown is None or shown.landed_sha != member["sha"]:
                shown = Notice(
                    kind=NoticeKind.LANDED,
                    number=number,
                    base_branch=queue.base_branch,
                    head_sha=member["head"],
                    at=change.now,
                    landed_sha=member["sha"],
                )
            notice = shown.model_copy(update={"closed_unmerged": True})
            await announce(change.tx, repository, notice, policy, due=change.now)
        try:
            await self._engine.github.close_pull_request(repository, number)
        except (Forbidden, Invalid, NotFound) as refusal:
            self._not_closed(repository, member, refusal)
            return
        _log.info("closed_landed", repository=repository.full_name, number=number, sha=member["sha"])

    def _not_closed(self, repository: Repository, member: dict[str, Any], refusal: GitHubError) -> None:
        _log.info("not_closed", repository=repository.full_name, number=member["number"], message=refusal.message)
