"""Reconcile queues with GitHub: at start and every ten minutes, in case webhooks were lost.

A sweep finds labels, closed pull requests and pushes. At start it also finds checks that completed while no process
ran. Later lost reports are found by the slow polls of each entry.

The parts of a sweep are separate jobs: lost deliveries, the list of installations, each installation, each repository,
each pull request. A failed job delays no other, and its error names the missing object.

A sweep also runs when the database is available again; two sweeps begin at least half a minute apart.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from itertools import chain

from queue_engine.admission.admit import handle_enqueue_request
from queue_engine.admission.case import EnqueueRequest, load_case
from queue_engine.admission.head_consent import LOST_LABEL_JOB
from queue_engine.admission.request_order import RequestOrder, attempt_of
from queue_engine.admission.revalidate import needs_read, read_unlisted, revalidate
from queue_engine.admission.throttle import numbers_put_off
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Hold, Job
from queue_engine.core.jobs.worker import Handler
from queue_engine.domain.errors import GitHubError, StaleRecord, naming
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.notice import WAITING, kind_of
from queue_engine.domain.policy import CommentPolicy, has_label
from queue_engine.domain.port import PAGE
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.record import PULL_REQUEST_JOB, read_again
from queue_engine.effects.renames import named_by
from queue_engine.executor.landing import settle_pending_merge
from queue_engine.handlers.lost_deliveries import DELIVERIES_JOB, LostDeliveries, Matters
from queue_engine.handlers.repository_events import (
    LABEL_JOB,
    MISSING_JOB,
    RepositoryLabels,
    enqueue_examination,
    examine_repository,
    labels_requested,
    request_labels,
)
from queue_engine.handlers.shadow_mode import ShadowHandler
from queue_engine.handlers.stale_comments import (
    STALE_COMMENTS_JOB,
    LostCheckRuns,
    StaleComments,
    correct_check_runs,
    record_activity,
    request_sweep,
)
from queue_engine.handlers.table_limits import PURGE_JOB, PURGED_EVERY

SWEEP_JOB = "sweep"
"""Kind of the job that lists the installations and enqueues a sweep of each."""

INSTALLATION_JOB = "sweep_installation"
"""Kind of the job that lists the repositories of one installation and enqueues a sweep of each."""

REPOSITORY_JOB = "sweep_repository"
"""Kind of the job that compares one repository's pull requests with its queues."""


FEW = 15
"""For how many repositories of an installation a sweep has labels created; more get theirs where people use them."""

_OUT_OF_REACH = frozenset({"removed", "archived"})
_OF_ONE = _OUT_OF_REACH | {"added", "unarchived", "renamed", "privatized", "publicized"}
"""Actions of webhooks that concern no repository but those that they name (P7)."""

_RENEW = timedelta(hours=1)
_HOLD, _MOST_HOLDS = timedelta(minutes=1), 60
"""How often a label waits for its webhook while requests to redeliver it fail."""
_EXPLAINED = timedelta(hours=1)
"""How long a comment that explains an ignored label is believed to be there."""

_MOST_UNEXPLAINED = 10
"""How many such comments are looked for in one sweep of a repository."""

_APART = 20
"""Sweeps begin at least this fraction of the interval apart, however often processes start: half a minute of ten."""


class Reconciler:
    """Requests a sweep at start and every `interval`, and handles the jobs of sweeps."""

    def __init__(self, engine: Engine, *, interval: timedelta, matters: Matters = lambda event, action: True) -> None:
        """`matters` returns which lost deliveries GitHub has to redeliver."""
        self._engine = engine
        self._interval = interval
        self._due = self._purge_due = engine.clock.now()
        self._started = False
        self._redelivery = LostDeliveries(engine, first=2 * interval, apart=interval / _APART, matters=matters)
        self._shadow = ShadowHandler(engine)
        self._order = RequestOrder(engine)
        self._lost_check_runs = LostCheckRuns(engine)
        self._explained: dict[tuple[int, int], datetime] = {}
        """When IMQ last looked for the comment of a pull request whose label it ignores."""
        self._with_labels = set[int]()
        """The repositories whose labels were requested."""
        self._installations: tuple[datetime, tuple[int, ...]] | None = None
        self._repositories: dict[int, tuple[datetime, tuple[Repository, ...]]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the sweep's jobs that send requests to GitHub, by kind."""
        return {
            SWEEP_JOB: self.sweep,
            INSTALLATION_JOB: self.sweep_installation,
            REPOSITORY_JOB: self.sweep_repository,
            PULL_REQUEST_JOB: self.sweep_pull_request,
            MISSING_JOB: self.sweep_missing_repository,
            DELIVERIES_JOB: self._redelivery.sweep,
            STALE_COMMENTS_JOB: StaleComments(self._engine).sweep,
            LOST_LABEL_JOB: self.sweep_lost_label,
            LABEL_JOB: RepositoryLabels(self._engine).create,
        }

    async def run_due(self) -> bool:
        """Request a sweep if one is due; whether it was.

        The first sweep of a process polls checks as well, and so does the first one after `schedule_now`.
        """
        if (now := self._engine.clock.now()) < self._due:
            return False
        await self.request()
        await self.request_deliveries()
        async with self._engine.change() as change:
            await record_activity(change, longest_pause=2 * self._interval)
            if purges := now >= self._purge_due:
                await change.tx.dead_letters.discard_all(PURGE_JOB)
                await change.enqueue(PURGE_JOB, {}, once=True)
        if not self._started:
            await self._poll_checks()
            self._started = True
        # Last: a sweep that could not be stored, because the database was unavailable, is still due.
        self._due = now + self._interval
        if purges:
            self._purge_due = now + PURGED_EVERY
        return True

    async def next_due(self) -> datetime | None:
        """When the next sweep is due."""
        return self._due

    def schedule_now(self) -> None:
        """Make the next sweep due now: while the database was unavailable, IMQ stored no webhooks."""
        self._due, self._started = self._engine.clock.now(), False
        self._engine.wakeup.notify()

    async def request_deliveries(self) -> None:
        """Request a sweep of lost deliveries."""
        await self._redelivery.request()

    async def _poll_checks(self) -> None:
        """Poll every front in checks once, now: reports may have come while no process ran."""
        queues = await self._engine.store.read(lambda tx: tx.queues.all())
        for queue in queues:
            # If the entry changes meanwhile, the process that changes it polls it.
            with suppress(StaleRecord):
                await self._poll_front(queue.id)

    async def _poll_front(self, queue_id: int) -> None:
        async with self._engine.change() as change:
            for entry in (await change.tx.entries.of_queue(queue_id))[:1]:
                if entry.status is EntryStatus.CHECKING:
                    await change.tx.entries.save(replace(entry, run=replace(entry.run, next_poll_at=change.now)))
                    await change.tx.queues.wake(queue_id, change.now)

    async def request(self, *, renew: bool = False) -> None:
        """Enqueue a sweep of all installations; `renew`: the list of repositories may have changed.

        It replaces dead letters of earlier sweeps. Without `renew` it begins some time after the last sweep: processes
        that restart again and again would otherwise use up GitHub's limits.
        """
        async with self._engine.change() as change:
            tx, now = change.tx, change.now
            begins = now if renew else await tx.sweeps.soonest(SWEEP_JOB, now, apart=self._interval / _APART)
            await tx.dead_letters.discard_all(SWEEP_JOB)
            await tx.jobs.enqueue(
                once=True, kind=SWEEP_JOB, request={"renew": renew}, process_id=SWEEP_JOB, now=now, not_before=begins
            )

    async def request_of(self, installation_id: int, action: str, named: Sequence[Repository]) -> None:
        """Request a sweep of the repositories that a webhook names, or of all if others may have changed as well."""
        self._repositories.pop(installation_id, None)
        if not named or action not in _OF_ONE:
            await self.request(renew=True)
            return
        async with self._engine.change() as change:
            for repository in named:
                await (enqueue_examination if action in _OUT_OF_REACH else enqueue_sweep)(change, repository)

    async def sweep(self, job: Job) -> None:
        """List the installations and enqueue a sweep of each."""
        now = self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            refused = any(queue.pause(Reason.GITHUB_REFUSES) for queue in await tx.queues.all())
        # What ended a refusal may have come without its webhook: permissions, and repositories, are listed again.
        renew = refused or bool(job.request.get("renew"))
        known = self._installations
        if renew or known is None or now >= known[0] + _RENEW:
            with working(RequestPriority.BACKGROUND), naming("the list of installations"):
                self._installations = known = now, await self._engine.github.installations()
        async with self._engine.change() as change:
            await change.tx.sweeps.done(SWEEP_JOB, now)
            await change.tx.dead_letters.discard_all(
                INSTALLATION_JOB, REPOSITORY_JOB, PULL_REQUEST_JOB, MISSING_JOB, STALE_COMMENTS_JOB, LABEL_JOB
            )
            for installation_id in known[1]:
                request = {"installation_id": installation_id, "renew": renew}
                await change.enqueue(INSTALLATION_JOB, request, installation_id, once=True)
            for repository in await change.tx.repositories.with_work():
                if repository.installation_id not in known[1]:
                    await enqueue_examination(change, repository)

    async def sweep_installation(self, job: Job) -> None:
        """List an installation's repositories, again every hour as webhooks may get lost; sweep each."""
        installation_id, now = job.request["installation_id"], self._engine.clock.now()
        known = self._repositories.get(installation_id)
        if job.request.get("renew") or known is None or now >= known[0] + _RENEW:
            with working(RequestPriority.BACKGROUND), naming(f"installation {installation_id}"):
                known = now, await self._engine.github.repositories(installation_id)
            self._repositories[installation_id] = known
        if len(known[1]) > FEW:
            with working(RequestPriority.BACKGROUND), naming(f"the configurations in installation {installation_id}"):
                await self._engine.policies.read_ahead(known[1])
        async with self._engine.change() as change:
            with_labels = await self._without_labels(change, known[1])
            for repository in known[1]:
                labels = len(known[1]) <= FEW or repository.id in with_labels
                await enqueue_sweep(change, repository, labels=labels)
            listed = {repository.id for repository in known[1]}
            for repository in await change.tx.repositories.with_work():
                if repository.installation_id == installation_id and repository.id not in listed:
                    await enqueue_examination(change, repository)

    async def sweep_repository(self, job: Job) -> None:
        """Compare one repository's pull requests with its queues, and enqueue a job for each difference.

        One request lists the hundred pull requests that changed last, with labels and heads; in a large installation
        it is the only one for a repository that asks nothing of IMQ. If there are more, one request for each trigger
        label lists the others, and one for ten of them reads those that are queued.
        """
        engine, request = self._engine, dict(job.request)
        labels, repository = request.pop("labels", True), Repository(**request)
        with working(RequestPriority.BACKGROUND), naming(f"repository {repository.full_name}"):
            latest = {pull.number: pull for pull in await engine.github.latest_pull_requests(repository)}
            if latest:
                repository = named_by(next(iter(latest.values())), repository)
            triggers = await engine.policies.labels(repository)
            testing = await engine.policies.testing_labels(repository)
            labeled = await self._labeled(repository, latest, triggers)
            if await self._shadow.sweep(repository, labeled):
                return
            async with engine.store.reading() as tx:
                writes_soon = bool(await tx.entries.of_repository(repository.id))
                departed = set(await tx.pending_merges.numbers(repository.id)) - latest.keys()
            if writes_soon:
                await engine.github.prepare_writes(repository)
            if not (whole := len(latest) < PAGE):
                latest |= await read_unlisted(engine, repository, latest)
        queued, new, ignored = await self._compare(repository, labeled, {n: p.head_sha for n, p in latest.items()})
        new += await self._unexplained(repository, [latest[number] for number in ignored])
        read = [n for n in queued if await needs_read(engine, repository, n, latest, whole=whole)]
        await correct_check_runs(engine, repository)
        await self._lost_check_runs.sweep(repository)
        async with engine.change() as change:
            for number in sorted({*new, *read, *departed}):
                await read_again(change, repository, number, new=number in new)
            await request_sweep(change, repository)
            if labels or labeled or queued or await labels_requested(change.tx, repository):
                await request_labels(change, repository, triggers, testing)

    async def _without_labels(self, change: Change, repositories: Sequence[Repository]) -> set[int]:
        """Return a few of these repositories, by their ids, whose labels were never requested."""
        found = set[int]()
        for repository in repositories:
            if len(found) == FEW:
                break
            if repository.id not in self._with_labels and not await labels_requested(change.tx, repository):
                found.add(repository.id)
            self._with_labels.add(repository.id)
        return found

    async def request_labels(self, repository: Repository) -> None:
        """Have labels created at the first webhook about a pull request, if no sweep did; retried by the next."""
        if repository.id in self._with_labels:
            return
        engine = self._engine
        known = await engine.store.read(lambda tx: labels_requested(tx, repository))
        if not known:
            try:
                with working(RequestPriority.BACKGROUND):
                    triggers = await engine.policies.labels(repository)
                    testing = await engine.policies.testing_labels(repository)
            except GitHubError:
                return
            await engine.write(lambda change: request_labels(change, repository, triggers, testing))
        self._with_labels.add(repository.id)

    async def sweep_missing_repository(self, job: Job) -> None:
        """Handle a repository that its installation does not list."""
        with naming(f"repository {job.request['repository_id']}"):
            await examine_repository(self._engine, job)

    async def sweep_pull_request(self, job: Job) -> None:
        """Revalidate one queued pull request, or handle a label for which no webhook came."""
        repository = Repository(**job.request["repository"])
        number = job.request["number"]
        with naming(f"pull request {number} of {repository.full_name}"):
            case = await load_case(self._engine, repository, number)
            if await self._shadow.is_shadow(repository):
                return
            if case.entry is not None:
                await revalidate(self._engine, case)
            elif job.request["new"]:
                if await self._has_label_webhook(repository, number):
                    return
                late = bool(job.request.get("webhook_is_late"))
                # A label whose webhook has not come is later than the requests whose webhooks have (P3).
                attempt = attempt_of(job)
                await self._order.await_again(attempt)
                case = replace(case, in_order=self._order.of(repository, attempt))
                request = EnqueueRequest(case, by=None, head_sha=None, webhook_is_late=late)
                await handle_enqueue_request(self._engine, request)
            else:
                await settle_pending_merge(self._engine, repository, number)

    async def _has_label_webhook(self, repository: Repository, number: int) -> bool:
        """Whether a webhook of a trigger label waits behind this job: it gives the label its place in the order (P3).

        GitHub's time of the label, which counts for a lost webhook, is before the arrival of earlier labels' webhooks.
        """
        waiting = await self._engine.store.read(lambda tx: tx.jobs.unfinished(f"{repository.id}:{number}"))
        for each in waiting:
            if each.kind == WEBHOOK_JOB and each.request["kind"] == "labeled":
                policy = await self._engine.policies.of(repository, each.request["branch"])
                if policy.has_trigger_label([each.request["label"]]):
                    return True
        return False

    async def sweep_lost_label(self, job: Job) -> Hold | None:
        """Judge a label whose webhook did not come in time, in the order of the webhooks about its pull request.

        While IMQ's own requests to redeliver fail, its webhook cannot have come: this waits for an hour at most (P5).
        """
        async with self._engine.change() as change:
            under_way = await change.tx.jobs.unfinished(DELIVERIES_JOB)
            if any(each.attempt for each in under_way) and job.holds.get(DELIVERIES_JOB, 0) < _MOST_HOLDS:
                return Hold(_HOLD, DELIVERIES_JOB)
            await change.tx.jobs.enqueue(
                kind=PULL_REQUEST_JOB,
                request={**job.request, "new": True, "webhook_is_late": True},
                process_id=f"{job.request['repository']['id']}:{job.request['number']}",
                now=change.now,
            )
        return None

    async def _labeled(
        self, repository: Repository, latest: Mapping[int, PullRequest], triggers: Collection[str]
    ) -> set[int]:
        """Return the pull requests with a trigger label: of their branch's policy if it has a queue, else of any."""
        engine = self._engine
        async with engine.store.reading() as tx:
            branches = {queue.base_branch for queue in await tx.queues.of_repository(repository.id)}
        if whole := len(latest) < PAGE:
            branches &= {pull.base_branch for pull in latest.values()}
        own = {branch: (await engine.policies.of(repository, branch)).trigger_labels for branch in sorted(branches)}
        labeled = {n for n, pull in latest.items() if has_label(pull.labels, own.get(pull.base_branch, triggers))}
        if not whole:
            every = chain(triggers, *own.values())
            for label in {label.casefold(): label for label in every}.values():
                labeled |= set(await engine.github.labeled_pull_requests(repository, label))
        return labeled

    async def _compare(
        self, repository: Repository, labeled: set[int], heads: Mapping[int, str]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the queued pull requests, labeled ones that are neither queued nor put off, and ignored ones; wake all
        queues.

        A rejected head does not count as new, even if somebody set the label again: IMQ ignores that label.
        """
        async with self._engine.change() as change:
            known = await change.tx.queues.of_repository(repository.id)
            if any(queue.repository.installation_id != repository.installation_id for queue in known):
                # Installed again, or transferred: words wait for that even where its queues are empty.
                await change.tx.outbox.release(repository.id, change.now)
            await change.tx.repositories.refresh(repository)
            entries = await change.tx.entries.of_repository(repository.id)
            queued = {entry.number for entry in entries}
            new = sorted(labeled - queued - await numbers_put_off(change.tx, repository.id))
            refused = {n: await change.tx.rejections.find(repository.id, n) for n in new if n in heads}
            ignored = [n for n, known in refused.items() if known is not None and not known.allows_retry(heads[n])]
            new = [n for n in new if n not in ignored]
            for queue_id in sorted({entry.queue_id for entry in entries}):
                await change.tx.queues.wake(queue_id, change.now)
            pauses = [
                queue.pause(Reason.GITHUB_REFUSES) for queue in await change.tx.queues.of_repository(repository.id)
            ]
            if any(pause is not None and pause.until is not None for pause in pauses):
                # It was archived, and the list shows it again.
                await enqueue_examination(change, repository)
        return sorted(queued), new, ignored

    async def _unexplained(self, repository: Repository, ignored: Sequence[PullRequest]) -> list[int]:
        """Return those of these pull requests that no comment of IMQ explains, after forgetting their rejections (P6).

        The comment was deleted, or a lost database has replaced it: IMQ sends its last words again, so that a person
        who dequeued the pull request is not overruled (P4). Without any, it judges the head, and says why. It
        looks for each comment once an hour, and for none where the configuration wants no comments.
        """
        engine, now, found = self._engine, self._engine.clock.now(), list[int]()
        self._explained = {key: at for key, at in self._explained.items() if now < at + _EXPLAINED}
        unsure = [each for each in ignored if (repository.id, each.number) not in self._explained]
        for pull in unsure[:_MOST_UNEXPLAINED]:
            if (await engine.policies.of(repository, pull.base_branch)).comments.level is CommentPolicy.NONE:
                continue
            self._explained[repository.id, pull.number] = now
            bodies = await engine.github.find_comments(repository, pull.number)
            if not bodies or kind_of(bodies[max(bodies)]) in WAITING:
                found.append(pull.number)
        async with engine.change() as change:
            resent = [n for n in found if await change.tx.outbox.resend(repository.id, n, due=change.now)]
            for number in (judged := [each for each in found if each not in resent]):
                await change.tx.rejections.clear(repository.id, number)
        return judged


async def enqueue_sweep(change: Change, repository: Repository, *, labels: bool = True) -> None:
    """Enqueue the sweep of a repository, behind what people wait for. `labels`: have its labels created, too."""
    request = {**asdict(repository), "labels": labels}
    await change.enqueue(REPOSITORY_JOB, request, repository.id, priority=-1, once=True)
