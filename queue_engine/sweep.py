"""The reconciliation sweep: at start and every ten minutes GitHub is asked for what webhooks may have failed to say.

It finds labels, closes, pushes and label removals, and at start the checks that ended while nobody listened. Later
checks whose webhooks never came are found by the entry's own slow looks.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

import structlog

from queue_engine.admission import Knock, admit
from queue_engine.core.jobs import Job
from queue_engine.core.urgency import Priority, working
from queue_engine.engine import Engine
from queue_engine.facts import PullRequest
from queue_engine.known.facts import KEPT as FACTS_KEPT
from queue_engine.model import EntryStatus, Repository
from queue_engine.policy import carries
from queue_engine.port import PAGE
from queue_engine.review import contradicts, review
from queue_engine.store.answers import KEPT

_log = structlog.get_logger("imq.sweep")

SWEEP_JOB = "sweep"
"""Kind of the job that lists the repositories and asks for each to be swept."""

REPOSITORY_JOB = "sweep_repository"
"""Kind of the job that sweeps one repository."""

PURGE_JOB = "purge"
"""Kind of the job that drops what is long done with. One of its own, so that it needs nothing of GitHub."""

DELIVERIES = "webhook"
"""Scope of the idempotency keys of deliveries: a redelivery keeps its id, and does nothing."""

_REDELIVERIES = 3
_RENEW = timedelta(hours=1)
_KEEP_LETTERS = timedelta(days=30)


class Sweeper:
    """Asks for a sweep at start and every `interval`, and carries the sweeps out."""

    def __init__(self, engine: Engine, *, interval: timedelta) -> None:
        self._engine = engine
        self._interval = interval
        self._due = self._renew_at = engine.clock.now()
        self._sent_again: Counter[str] = Counter()
        self._started = False
        self._repositories: tuple[Repository, ...] = ()

    async def run_due(self) -> bool:
        """Ask for a sweep if one is due; whether it was. The first one of a process looks at checks as well."""
        if self._engine.clock.now() < self._due:
            return False
        self._due = self._engine.clock.now() + self._interval
        await self.request()
        async with self._engine.change() as change:
            await change.tx.dead_letters.discard_all(PURGE_JOB)
            await change.tx.jobs.enqueue(kind=PURGE_JOB, request={}, process_id=PURGE_JOB, now=change.now)
        if not self._started:
            self._started = True
            await self._look_at_checks()
        return True

    async def next_due(self) -> datetime | None:
        """When the next sweep is due."""
        return self._due

    async def _look_at_checks(self) -> None:
        """Reports may have come while nobody listened: every entry under checks is looked at once, now."""
        async with self._engine.change() as change:
            for queue in await change.tx.queues.all():
                for entry in (await change.tx.entries.of_queue(queue.id))[:1]:
                    if entry.status is EntryStatus.CHECKING:
                        await change.tx.entries.save(replace(entry, recheck_at=change.now))
                        await change.tx.queues.wake(queue.id, change.now)

    async def request(self, *, renew: bool = False) -> None:
        """Store the wish for a sweep of everything; `renew` when the repositories themselves may have changed.

        One that failed for good is forgotten: this one does what it was for.
        """
        async with self._engine.change() as change:
            await change.tx.dead_letters.discard_all(SWEEP_JOB)
            request = {"renew": renew}
            await change.tx.jobs.enqueue(kind=SWEEP_JOB, request=request, process_id=SWEEP_JOB, now=change.now)

    async def sweep(self, job: Job) -> None:
        """List the repositories of all installations and ask for each to be swept."""
        with working(Priority.BACKGROUND):
            await self._have_lost_deliveries_sent_again()
            repositories = await self._known_repositories(renew=bool(job.request.get("renew")))
        async with self._engine.change() as change:
            await change.tx.dead_letters.discard_all(REPOSITORY_JOB)
            for repository in repositories:
                await change.tx.jobs.enqueue(
                    kind=REPOSITORY_JOB,
                    request={
                        "id": repository.id,
                        "owner": repository.owner,
                        "name": repository.name,
                        "installation_id": repository.installation_id,
                    },
                    process_id=f"{REPOSITORY_JOB}:{repository.id}",
                    now=change.now,
                )

    async def purge(self, job: Job) -> None:
        """Drop keys that have expired, letters that were delivered long ago, and answers as old."""
        async with self._engine.change() as change:
            await change.tx.keys.purge(change.now)
            await change.tx.outbox.purge(change.now - _KEEP_LETTERS)
            await change.tx.answers.purge(change.now - KEPT)
            await change.tx.known.purge(change.now - FACTS_KEPT)

    async def _have_lost_deliveries_sent_again(self) -> None:
        """One that fails each time, because it is refused, is asked for a few times and then left alone."""
        github, now = self._engine.github, self._engine.clock.now()
        failed = await github.failed_deliveries(now - 2 * self._interval)
        self._sent_again = Counter({guid: times for guid, times in self._sent_again.items() if guid in failed})
        async with self._engine.store.reading() as tx:
            lost = [guid for guid in failed if not await tx.keys.known(DELIVERIES, guid, now)]
        lost = [guid for guid in lost if self._sent_again[guid] < _REDELIVERIES]
        for guid in lost:
            self._sent_again[guid] += 1
            await github.redeliver(failed[guid])
        if lost:
            _log.warning("lost_deliveries_sent_again", count=len(lost))

    async def _known_repositories(self, *, renew: bool) -> tuple[Repository, ...]:
        """Webhooks tell when repositories come or go; the list is renewed now and then in case one was lost."""
        now = self._engine.clock.now()
        if renew or now >= self._renew_at:
            self._repositories = await self._engine.github.repositories()
            self._renew_at = now + _RENEW
        return self._repositories

    async def sweep_repository(self, job: Job) -> None:
        """Compare one repository's pull requests with its queues, and follow up each difference.

        One request shows the hundred that changed last, with labels and heads. Where there are more, one for each
        label that queues finds the others.
        """
        engine, repository = self._engine, Repository(**job.request)
        with working(Priority.BACKGROUND):
            latest = {pull.number: pull for pull in await engine.github.latest_pull_requests(repository)}
            labelled = await self._labelled(repository, latest)
        queued, new = await self._compare(repository, labelled, {n: pull.head_sha for n, pull in latest.items()})
        for number in new:
            await admit(engine, Knock(repository, number, by=None, head_sha=None))
        for number in queued:
            if number not in latest or await contradicts(engine, repository, latest[number]):
                await review(engine, repository, number)

    async def _labelled(self, repository: Repository, latest: Mapping[int, PullRequest]) -> set[int]:
        """Who carries a label that queues: on a branch with a queue by that branch's own rules, elsewhere by any."""
        engine = self._engine
        triggers = await engine.policies.labels(repository)
        async with engine.store.reading() as tx:
            branches = {queue.base_branch for queue in await tx.queues.of_repository(repository.id)}
        if whole := len(latest) < PAGE:
            branches &= {pull.base_branch for pull in latest.values()}
        own = {branch: (await engine.policies.of(repository, branch)).trigger_labels for branch in sorted(branches)}
        labelled = {n for n, pull in latest.items() if carries(pull.labels, own.get(pull.base_branch, triggers))}
        if not whole:
            every = chain(triggers, *own.values())
            for label in {label.casefold(): label for label in every}.values():
                labelled |= set(await engine.github.labelled_pull_requests(repository, label))
        return labelled

    async def _compare(
        self, repository: Repository, labelled: set[int], heads: Mapping[int, str]
    ) -> tuple[list[int], list[int]]:
        """Who is queued, and who is labelled but neither queued nor held; every queue with work is woken.

        A head that was turned away is no news, whoever left the label on it or set it again.
        """
        async with self._engine.change() as change:
            await change.tx.queues.refresh_repository(repository)
            entries = await change.tx.entries.of_repository(repository.id)
            queued = {entry.number for entry in entries}
            held = change.tx.held
            new = [n for n in sorted(labelled - queued) if await held.find(repository.id, n) is None]
            refused = {n: await change.tx.refusals.find(repository.id, n) for n in new if n in heads}
            new = [n for n in new if (known := refused.get(n)) is None or known.news(heads[n])]
            for queue_id in sorted({entry.queue_id for entry in entries}):
                await change.tx.queues.wake(queue_id, change.now)
        return sorted(queued), new
