"""The inbox: a delivery is stored before it is answered, then its hint is followed as a job (P2).

Hints cost requests to GitHub only where something queued may have changed; everything else ends here.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.admission import HELD_JOB, Knock, admit
from queue_engine.core.gather import Gather
from queue_engine.core.jobs import Job
from queue_engine.core.line import Line
from queue_engine.core.outcomes import Dead, Hold, Outcome
from queue_engine.core.trace import current
from queue_engine.core.worker import Handler
from queue_engine.engine import Change, Engine
from queue_engine.errors import Forbidden, RateLimited, StaleVersion, Unauthorized
from queue_engine.hints import Hint, HintKind
from queue_engine.journal import PLACE_JOB
from queue_engine.model import PROCESSING, Entry, EntryStatus, Repository
from queue_engine.policy import carries
from queue_engine.review import review
from queue_engine.store import Transaction
from queue_engine.store.outbox import LETTER_JOB
from queue_engine.sweep import DELIVERIES, PURGE_JOB, REPOSITORY_JOB, SWEEP_JOB, Sweeper
from queue_engine.tally import progress
from queue_engine.waiting_line import WaitingLine

_log = structlog.get_logger("imq.inbox")

RETRIED_JOB = "retried"
"""Kind of the job that counts the dead letters, by their kind, that a command has made jobs again."""

HINT_JOB = "hint"
"""Kind of the job that follows one stored delivery."""

_REPORTS_KEPT = 200
"""Reports remembered for a head that is not bound yet; more checks than any commit has."""


class _Rehearsed(Exception):
    """Nothing of it is to stay."""


class Inbox:
    """Stores deliveries and follows their hints."""

    def __init__(self, engine: Engine, sweeper: Sweeper) -> None:
        self._engine = engine
        self._sweeper = sweeper
        self._gathered = Gather(self._store)
        self._awaited = Gather(self._are_awaited)
        self._knocking = Line()
        self._waiting = WaitingLine(engine)

    async def receive(self, hint: Hint) -> bool:
        """Store a delivery and the job that follows it, in one transaction; False if it is known already.

        Deliveries that arrive while others are being stored share the next transaction: a burst costs few of them.
        """
        return await self._gathered((hint, current()))

    async def _store(self, received: Sequence[tuple[Hint, str | None]]) -> list[bool]:
        # Of two that arrive together with one id the first counts.
        first = {hint.delivery: number for number, (hint, _) in reversed(list(enumerate(received)))}
        async with self._engine.change() as change:
            keys = [(delivery, received[number][0].kind.value) for delivery, number in first.items()]
            stored = await change.tx.keys.record(DELIVERIES, keys, change.now, status=202)
            new = [hint.delivery in stored and first[hint.delivery] == n for n, (hint, _) in enumerate(received)]
            followed = [one for one, is_new in zip(received, new, strict=True) if is_new]
            await change.tx.jobs.enqueue_all(
                kind=HINT_JOB,
                requests=[(_process_of(hint), hint.model_dump(mode="json", exclude_none=True)) for hint, _ in followed],
                now=change.now,
                traces=[trace for _, trace in followed],
            )
        self._engine.meter.count("requests_keyed", len(stored), scope=DELIVERIES)
        self._engine.meter.count("duplicates", len(received) - len(stored), scope=DELIVERIES)
        return new

    async def rehearse(self) -> None:
        """Store, claim, follow and finish what nobody sent, and take it back: who comes first is served like others.

        What a statement needs is made at its first use, which takes longer than all that follows.
        """
        with suppress(_Rehearsed):
            async with self._engine.store.transaction() as tx:
                now = self._engine.clock.now()
                await tx.keys.record(DELIVERIES, [(HINT_JOB, HINT_JOB)], now, status=202)
                await tx.jobs.enqueue_all(kind=HINT_JOB, requests=[(HINT_JOB, {})], now=now)
                await tx.jobs.finish(await tx.jobs.claim_some(1, owner=HINT_JOB, now=now, lease=self._engine.lease))
                raise _Rehearsed
        nobody = Repository(0, "", "", 0)
        of_nobody = Hint(kind=HintKind.CONSENT, delivery="", installation_id=0, number=0, branch="", head_sha="")
        for follow in (self._consent, self._check, self._base_moved):
            await follow(nobody, of_nobody)

    @property
    def crowded(self) -> bool:
        """Whether deliveries come faster than they are stored one by one."""
        return self._gathered.crowded

    async def drain(self) -> None:
        """Wait for what is being stored or looked up."""
        await self._gathered.drain()
        await self._awaited.drain()

    def handlers(self) -> dict[str, Handler]:
        """The handlers of all the engine's jobs, by kind."""
        return {
            HINT_JOB: _obeying_limits(self._follow),
            LETTER_JOB: self._send_again,
            HELD_JOB: _obeying_limits(self._waiting.knock_again),
            PLACE_JOB: _obeying_limits(self._waiting.fill_places),
            SWEEP_JOB: _obeying_limits(self._sweeper.sweep),
            REPOSITORY_JOB: _obeying_limits(self._sweeper.sweep_repository),
            PURGE_JOB: self._sweeper.purge,
            RETRIED_JOB: self._count_retried,
        }

    async def _send_again(self, job: Job) -> None:
        """A dead letter is wanted after all, unless something newer went out meanwhile."""
        async with self._engine.change() as change:
            await change.tx.outbox.revive(job.request, change.now)

    async def _count_retried(self, job: Job) -> None:
        """Whoever retries by command ends before anybody asks for its figures; a worker keeps them."""
        for kind, number in job.request.items():
            self._engine.meter.count("jobs_reprocessed", number, kind=kind)

    async def _follow(self, job: Job) -> None:
        hint = Hint.model_validate(job.request)
        with structlog.contextvars.bound_contextvars(delivery=hint.delivery):
            if hint.kind is HintKind.INSTALLED:
                await self._sweeper.request(renew=True)
                return
            if hint.repository_id is None or hint.owner is None or hint.name is None:
                return
            repository = Repository(hint.repository_id, hint.owner, hint.name, hint.installation_id)
            await self._of_repository(repository, hint)

    async def _of_repository(self, repository: Repository, hint: Hint) -> None:
        match hint.kind:
            case HintKind.LABELED:
                await self._labeled(repository, hint)
            case HintKind.CONSENT:
                await self._consent(repository, hint)
            case HintKind.CHECK | HintKind.CHECKS:
                await self._check(repository, hint)
            case HintKind.BASE_MOVED:
                await self._base_moved(repository, hint)
            case HintKind.RULES:
                self._engine.github.forget_rules(repository.id)
            case HintKind.COMMENT | HintKind.REVIEW:
                return
            case HintKind.INSTALLED:
                raise AssertionError("belongs to an installation, not to a repository")

    async def _labeled(self, repository: Repository, hint: Hint) -> None:
        if hint.label is None or hint.number is None:
            return
        if not carries({hint.label}, await self._engine.policies.labels(repository)):
            return
        with self._knocking.stand(repository.id) as turn:
            if hint.sender == await self._engine.github.own_login():
                return
            async with self._engine.change() as change:
                await change.tx.queues.refresh_repository(repository)
            await admit(
                self._engine,
                Knock(
                    repository,
                    hint.number,
                    by=hint.sender,
                    head_sha=hint.head_sha,
                    labelled_at=hint.updated_at,
                    by_machine=hint.sender_is_bot,
                    delivery=hint.delivery,
                ),
                turn=turn,
            )

    async def _consent(self, repository: Repository, hint: Hint) -> None:
        """Something about a pull request changed: if it is queued, find out whether it may stay."""
        label = hint.label if hint.action == "unlabeled" else None
        other_label = label is not None and not carries({label}, await self._engine.policies.labels(repository))
        if hint.number is None or other_label:
            return
        async with self._engine.store.reading() as tx:
            queued = await tx.entries.stands(repository.id, hint.number)
        if not queued:
            await self._waiting.review(repository, hint.number)
            return
        if hint.action == "synchronize" and await self._own_update(repository, hint):
            return
        await review(self._engine, repository, hint.number, delivery=hint.delivery)

    async def _own_update(self, repository: Repository, hint: Hint) -> bool:
        """Whether a push is known already or is the update that was asked for; the latter is bound by its pass."""
        own = hint.sender == await self._engine.github.own_login()
        async with self._engine.change() as change:
            entry = await change.tx.entries.find(repository.id, hint.number or 0)
            if entry is None or hint.head_sha == entry.head:
                return True
            if not (own and entry.status is EntryStatus.UPDATING and hint.before == entry.head):
                return False
            await change.tx.entries.save(replace(entry, candidate_head=hint.head_sha, candidate_is_ours=True))
            await change.tx.queues.wake(entry.queue_id, change.now)
        return True

    async def _check(self, repository: Repository, hint: Hint) -> None:
        """A report came: it is counted here, and GitHub is asked only when the count says that it may matter."""
        if hint.head_sha is None or not await self._awaited((repository.id, hint.head_sha)):
            return
        async with self._engine.change() as change:
            entries = await change.tx.entries.by_head(repository.id, hint.head_sha)
            bound = [e for e in entries if e.status is EntryStatus.CHECKING and e.head == hint.head_sha]
            for entry in bound:
                await _count_report(change, entry, hint)
            await change.tx.queues.base_reported(repository.id, hint.head_sha, change.now)
            if not bound:
                for entry in await change.tx.entries.of_repository(repository.id):
                    if entry.status is EntryStatus.UPDATING and entry.head != hint.head_sha:
                        await _keep_report(change.tx, entry, hint)

    async def _are_awaited(self, reports: Sequence[tuple[int, str]]) -> list[bool]:
        """For each repository and commit whether a report on it may count; most are on commits that nobody queued.

        Those cost nothing but this read, which reports that come at the same time share.
        """
        async with self._engine.store.reading() as tx:
            repository_ids = {repository_id for repository_id, _ in reports}
            under_way = await tx.entries.under_way(repository_ids)
            red = await tx.queues.red_tips(repository_ids)
        return [
            (repository_id, sha) in red
            or any(
                of == repository_id and (status is EntryStatus.CHECKING) == (head == sha)
                for of, status, head in under_way
            )
            for repository_id, sha in reports
        ]

    async def _base_moved(self, repository: Repository, hint: Hint) -> None:
        """A branch moved: heads that were compared with its old tip are believed to be behind."""
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, hint.branch or "") is None:
                return
        async with self._engine.change() as change:
            queue = await change.tx.queues.find(repository.id, hint.branch or "")
            if queue is None or hint.head_sha is None:
                return
            for entry in await change.tx.entries.of_queue(queue.id):
                if entry.base_tip == hint.head_sha or entry.merge_requested_at is not None:
                    continue
                # A front under way compares before it updates: the push may be one that it contains already.
                tip = entry.base_tip if entry.status in PROCESSING else hint.head_sha
                await change.tx.entries.save(replace(entry, known_behind=True, base_tip=tip))
            await change.tx.queues.base_moved(queue, hint.head_sha, change.now)
            await change.tx.queues.wake(queue.id, change.now)


def _process_of(hint: Hint) -> str:
    """What a hint is about: hints about one thing are followed in the order of their arrival."""
    return f"{hint.repository_id or hint.installation_id}:{hint.number or hint.branch or hint.head_sha or hint.kind}"


async def _count_report(change: Change, entry: Entry, hint: Hint) -> None:
    """Note a report on a bound head; look now if it may decide: a failure that counts, or the last one awaited.

    While nothing is known to be awaited, every report may decide; the look that follows tells what is awaited.
    """
    awaited, name = set(entry.awaited_checks), hint.check_name
    if awaited and name not in awaited:
        return
    counted = entry
    if name is not None:
        reported = tuple(dict.fromkeys((*entry.reported_checks, name)))
        counted = replace(entry, reported_checks=reported[-_REPORTS_KEPT:])
    if hint.passed is False or awaited <= set(counted.reported_checks):
        counted = replace(counted, recheck_at=change.now)
        await change.tx.queues.wake(entry.queue_id, change.now)
    await change.tx.entries.save(counted)
    if (event := progress(entry, counted)) is not None:
        change.progress.append(event)


async def _keep_report(tx: Transaction, entry: Entry, hint: Hint) -> None:
    """A report may be on the head that an update is just creating: kept until that head is bound."""
    reports = (*entry.reported_checks, f"{hint.head_sha}:{hint.check_name or ''}")
    await tx.entries.save(replace(entry, reported_checks=tuple(dict.fromkeys(reports))[-_REPORTS_KEPT:]))


def _obeying_limits(handler: Handler) -> Handler:
    """GitHub's limits and lost races are no failures of a job: it is held as long as GitHub asks.

    What the operator can mend, a key or a permission, is worth doing again when it is mended.
    """

    async def handle(job: Job) -> Outcome | None:
        try:
            return await handler(job)
        except RateLimited as limited:
            return Hold(limited.retry_after)
        except StaleVersion:
            return Hold(timedelta(0))
        except (Unauthorized, Forbidden) as refused:
            return Dead(f"{type(refused).__name__}: {refused.message}", retryable=True)

    return handle
