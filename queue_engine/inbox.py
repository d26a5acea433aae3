"""The inbox: a delivery is stored before it is answered, then its hint is followed as a job (P2).

Hints cost requests to GitHub only where something queued may have changed; everything else ends here.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog

from queue_engine.branches import Branches
from queue_engine.cancel_runs import RunCanceller
from queue_engine.changes import PullRequestChanges
from queue_engine.cleanup import BRANCH_JOB, Cleanup
from queue_engine.commands.carrying_out import Commands
from queue_engine.core import backoff
from queue_engine.core.backoff import OUTDATED
from queue_engine.core.gather import Gather
from queue_engine.core.jobs import Job
from queue_engine.core.outcomes import Dead, Hold, Outcome
from queue_engine.core.trace import current
from queue_engine.core.worker import Handler
from queue_engine.engine import Engine
from queue_engine.errors import EarlierLabel, Forbidden, OutdatedRead, RateLimited, StaleVersion, TooEarly, Unauthorized
from queue_engine.hints import Hint, HintKind
from queue_engine.journal import PLACE_JOB
from queue_engine.known.facts import Fact, Named
from queue_engine.model import Repository
from queue_engine.outdated_runs import CANCEL_RUNS_JOB
from queue_engine.permissions import permissions_accepted
from queue_engine.places import HELD_JOB
from queue_engine.redelivery import DELIVERIES
from queue_engine.reports import Reports
from queue_engine.repositories import remember_name
from queue_engine.review_hints import reviewed
from queue_engine.store.outbox import LETTER_JOB
from queue_engine.sweep import PURGE_JOB, Sweeper
from queue_engine.throttled_labels import THROTTLED_LABEL_JOB, hint_of, put_off_again, queued_by_others
from queue_engine.waiting_line import WaitingLine

_log = structlog.get_logger("imq.inbox")

RETRIED_JOB = "retried"
"""Kind of the job that counts the dead letters, by their kind, that a command has made jobs again."""

HINT_JOB = "hint"
"""Kind of the job that follows one stored delivery."""


class _Rehearsed(Exception):
    """Nothing of it is to stay."""


class Inbox:
    """Stores deliveries and follows their hints."""

    def __init__(self, engine: Engine, sweeper: Sweeper) -> None:
        self._engine = engine
        self._sweeper = sweeper
        self._gathered = Gather(self._store)
        self._waiting = WaitingLine(engine)
        self._changes = PullRequestChanges(engine, self._waiting)
        self._reports = Reports(engine)
        self._branches = Branches(engine)
        self._commands = Commands(engine)

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
            facts = [
                (hint.repository_id or 0, fact)
                for (hint, _), is_new in zip(received, new, strict=True)
                if is_new
                for fact in hint.facts
            ]
            await change.tx.known.tell_all(facts, change.now)
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
                await tx.known.tell(0, [Fact(subject=HINT_JOB, told=Named())], now)
                await tx.known.about(0, [HINT_JOB], since=now)
                await tx.jobs.enqueue_all(kind=HINT_JOB, requests=[(HINT_JOB, {})], now=now)
                await tx.jobs.finish(await tx.jobs.claim_some(1, owner=HINT_JOB, now=now, lease=self._engine.lease))
                raise _Rehearsed
        nobody = Repository(0, "", "", 0)
        of_nobody = Hint(kind=HintKind.CONSENT, delivery="", installation_id=0, number=0, branch="", head_sha="")
        for follow in (self._changes.changed, self._reports.ended, self._branches.moved):
            await follow(nobody, of_nobody)

    @property
    def crowded(self) -> bool:
        """Whether deliveries come faster than they are stored one by one."""
        return self._gathered.crowded

    async def drain(self) -> None:
        """Wait for what is being stored or looked up."""
        await self._gathered.drain()
        await self._reports.drain()

    def handlers(self) -> dict[str, Handler]:
        """The handlers of all the engine's jobs, by kind."""
        patient = partial(_obeying_limits, random=self._engine.random)
        return {
            HINT_JOB: patient(self._follow),
            THROTTLED_LABEL_JOB: patient(self._judge_throttled),
            LETTER_JOB: self._send_again,
            HELD_JOB: patient(self._waiting.knock_again),
            PLACE_JOB: patient(self._waiting.fill_places),
            BRANCH_JOB: patient(Cleanup(self._engine).delete_branch),
            CANCEL_RUNS_JOB: patient(RunCanceller(self._engine).cancel),
            **{kind: patient(handler) for kind, handler in self._sweeper.handlers().items()},
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
        hint = Hint.model_validate(job.request).model_copy(update={"order": job.seq, **_put_off(job)})
        if job.claims > 1:
            hint = hint.model_copy(update={"arrived_at": job.created_at})
        with structlog.contextvars.bound_contextvars(delivery=hint.delivery):
            if hint.kind is HintKind.INSTALLED:
                if hint.action == "new_permissions_accepted":
                    await permissions_accepted(self._engine, hint.installation_id)
                if (repository := _repository_of(hint)) is not None and hint.action in _RENAMES:
                    await remember_name(self._engine, repository)
                await self._sweeper.request(renew=True)
                return
            repository = _repository_of(hint)
            if repository is None:
                if hint.kind is HintKind.RULES:
                    await self._branches.ruled(None, hint.installation_id)
                return
            await self._of_repository(repository, hint)

    async def _judge_throttled(self, job: Job) -> Outcome | None:
        """Judge a label that was put off, unless its sender is throttled still, or somebody else has queued since."""
        hint, engine = hint_of(job), self._engine
        repository = _repository_of(hint)
        assert repository is not None
        with structlog.contextvars.bound_contextvars(delivery=hint.delivery):
            if await queued_by_others(engine, repository, hint.number or 0):
                return None
            if (longer := await put_off_again(engine, repository, hint)) is not None:
                return Hold(longer)
            await self._changes.labelled(repository, hint)
        return None

    async def _of_repository(self, repository: Repository, hint: Hint) -> None:
        match hint.kind:
            case HintKind.LABELED:
                await self._changes.labelled(repository, hint)
            case HintKind.CONSENT:
                await self._changes.changed(repository, hint)
            case HintKind.REVIEW:
                await reviewed(self._engine, repository, hint)
            case HintKind.CHECK | HintKind.CHECKS:
                await self._reports.ended(repository, hint)
            case HintKind.BASE_MOVED:
                await self._branches.moved(repository, hint)
            case HintKind.RULES:
                await self._branches.ruled(repository, hint.installation_id)
            case HintKind.COMMENT:
                await self._commands.carry_out(repository, hint)
            case HintKind.INSTALLED:
                raise AssertionError("belongs to an installation, not to a repository")


_RENAMES = frozenset({"renamed", "transferred"})


def _repository_of(hint: Hint) -> Repository | None:
    """The repository that a hint is about; None for one about an installation."""
    if hint.repository_id is None or hint.owner is None or hint.name is None:
        return None
    return Repository(hint.repository_id, hint.owner, hint.name, hint.installation_id)


def _process_of(hint: Hint) -> str:
    """What a hint is about: hints about one thing are followed in the order of their arrival."""
    of = hint.repository_id or hint.installation_id
    # As long as the column: branches whose names agree that far only wait for each other.
    return f"{of}:{hint.number or hint.branch or hint.head_sha or hint.kind}"[:255]


_OUTDATED, _EARLY, _EARLIER_LABEL = "outdated_read", "too_early", "earlier_label"
"""Why a job is held, where that is counted."""


def _put_off(job: Job) -> dict[str, int]:
    """How often a hint was put off before: neither limits, nor failures, nor the deaths of workers count."""
    return {"tries": sum(job.holds.values()), "outdated": job.holds.get(_OUTDATED, 0)}


def _obeying_limits(handler: Handler, random: Callable[[], float]) -> Handler:
    """GitHub's limits and lost races are no failures of a job: it is held as long as GitHub asks.

    Nor are reads that are older than what is known, for the first seconds: the job keeps its turn and reads again.
    Holds for another reason do not count for that. What the operator can mend, a key or a permission, is worth doing
    again when it is mended.
    """

    async def handle(job: Job) -> Outcome | None:
        try:
            return await handler(job)
        except TooEarly as early:
            return Hold(early.retry_after, _EARLY)
        except RateLimited as limited:
            return Hold(limited.retry_after)
        except StaleVersion:
            return Hold(timedelta(0))
        except EarlierLabel as earlier:
            return Hold(earlier.delay, _EARLIER_LABEL)
        except OutdatedRead:
            tries = job.holds.get(_OUTDATED, 0)
            if OUTDATED.exhausted(tries):
                raise
            return Hold(backoff.wait(OUTDATED, tries, random=random), _OUTDATED)
        except (Unauthorized, Forbidden) as refused:
            return Dead(f"{type(refused).__name__}: {refused.message}", retryable=True)

    return handle
