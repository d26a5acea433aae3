"""Keep pull requests with `update_label` up to date outside the queue: after each push to their base branch.

The queue needs none of it: IMQ updates what it tests itself. People ask for it where only a fresh preview, or a fresh
check of an open pull request, is of use. Each update starts CI; so it happens for as many as `MOST` at a time.
"""

from datetime import datetime, timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Job
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, Refused, naming
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.policy import has_label
from queue_engine.effects.context import Change, EngineHandler
from queue_engine.executor.requests import is_guarded_head, unexplained_update
from queue_engine.rules.eligibility import may_queue

UPDATES_JOB = "label_updates"
"""Kind of the job that updates the pull requests with the label, for one base branch."""

MOST = 20
"""How many pull requests IMQ updates after a push, the ones that changed last first."""

SETTLED = timedelta(minutes=1)
"""How long after a push: a queue that lands one pull request after the other pushes often."""

SHOWN = timedelta(seconds=15)
"""How long after a label: GitHub's list, and its history of the pull request, may not show it before."""

_log = structlog.get_logger("imq.label_updates")


class LabelUpdates(EngineHandler):
    """Requests and makes the updates. A branch without `update_label` costs no request."""

    async def labeled(self, repository: Repository, branch: str) -> None:
        """Request the updates now that a pull request for this base branch has got the label, and from now on."""
        async with self._engine.change() as change:
            queue = await change.tx.queues.find_or_create(repository, branch, change.now)
            await change.tx.queues.note_label_updates(queue.id, True)
            await _request(change, queue, change.now + SHOWN)

    async def pushed(self, repository: Repository, branch: str) -> None:
        """Request the updates after a push to a base branch."""
        queue = await self._engine.store.read(lambda tx: tx.queues.find(repository.id, branch))
        if queue is not None and queue.label_updates:
            await self._engine.write(lambda change: _request(change, queue, change.now + SETTLED))

    async def update(self, job: Job) -> None:
        """Update the pull requests with the label that are in no queue. It may run twice. Raises GitHubError.

        An update that GitHub refuses without a known cause keeps none of the others from theirs, and is tried again.
        """
        engine, refused = self._engine, list[Refused]()
        queue = await engine.store.read(lambda tx: tx.queues.get(job.request["queue_id"]))
        if queue is None:
            return
        repository, policy = queue.repository, await engine.policies.of(queue.repository, queue.base_branch)
        with working(RequestPriority.BACKGROUND), naming(f"pull requests of {repository.full_name}"):
            wanted = await self._labeled(queue, policy.update_label)
            if not wanted:
                await engine.write(lambda change: change.tx.queues.note_label_updates(queue.id, False))
            async with engine.store.reading() as tx:
                queued = {entry.number for entry in await tx.entries.of_repository(repository.id) if entry.is_ready}
            for pull in [each for each in wanted if each.number not in queued][:MOST]:
                try:
                    await self._update(repository, pull, policy, final=job.attempt >= policy.update_refusals)
                except Refused as refusal:
                    refused.append(refusal)
        if refused:
            raise refused[0]

    async def _labeled(self, queue: Queue, label: str | None) -> list[PullRequest]:
        """List the latest open pull requests with the label for this base branch."""
        if label is None:
            return []
        latest = await self._engine.github.latest_pull_requests(queue.repository)
        return [each for each in latest if each.base_branch == queue.base_branch and has_label(each.labels, [label])]

    async def _update(self, repository: Repository, pull: PullRequest, policy: Policy, *, final: bool) -> None:
        """Update one pull request, if who set the label may queue: IMQ pushes only for people who could push.

        `final`: a 422 in unknown words counts now. Raises Refused for what may pass.
        """
        github, place = self._engine.github, {"repository": repository.full_name, "number": pull.number}
        last = await github.last_labeled_event(repository, pull.number, policy.update_label or "")
        if last is None or not last.by:
            return
        if may_queue(policy, last.by, await github.permission(repository, last.by)) is not None:
            _log.info("update_label_without_right", by=last.by, **place)
            return
        if pull.head_repository == repository.full_name and await is_guarded_head(github, repository, pull.head_branch):
            _log.info("head_not_updated", why=f"rules protect {pull.head_branch}", **place)
            return
        try:
            await github.update_branch(repository, pull.number, pull.head_sha)
        except (Forbidden, Invalid, NotFound) as refusal:
            if not final and (passing := unexplained_update(refusal)) is not None:
                raise passing from refusal
            # It is up to date, in conflict, or a fork that nobody else may push to: GitHub shows that to its author.
            _log.info("head_not_updated", why=refusal.message, **place)
        else:
            _log.info("head_updated", base_branch=pull.base_branch, **place)


async def _request(change: Change, queue: Queue, at: datetime) -> None:
    await change.enqueue(UPDATES_JOB, {"queue_id": queue.id}, queue.id, at=at, once=True)
