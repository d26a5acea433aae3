"""Store each delivery before it is answered, then process its event as a job (P2).

A webhook costs requests to GitHub only if it may concern a queued pull request; all others end here.

In a burst many deliveries share one transaction. IMQ answers a delivery with a known id, and drops it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from queue_engine.admission.case import Case, load_case
from queue_engine.admission.head_consent import LOST_LABEL_JOB
from queue_engine.admission.request_order import EARLIER_REQUEST, RequestOrder, attempt_of
from queue_engine.admission.throttle import THROTTLED_LABEL_JOB, put_off_again, queued_by_others, webhook_of
from queue_engine.commands.handler import Commands
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.jobs.job import Dead, Hold, Job, JobRequest, Outcome, Retry
from queue_engine.core.jobs.worker import Handler
from queue_engine.core.observability.trace import current
from queue_engine.core.read_model import adapter
from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain import webhooks
from queue_engine.domain.culprit import REVERT_JOB
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import (
    Forbidden,
    HeadConflict,
    Invalid,
    NotFound,
    RateLimitError,
    Refused,
    RequestOrderError,
    StaleRead,
    StaleRecord,
    Unauthorized,
    WriteRefused,
)
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.check_counts import FLAKE_JOB
from queue_engine.effects.context import Engine, EngineHandler
from queue_engine.effects.landings import CULPRIT_JOB
from queue_engine.effects.record import AUTO_MERGE_JOB, PULL_REQUEST_JOB
from queue_engine.effects.renames import follow_label, present_repository, remember_name
from queue_engine.effects.stale_runs import CANCEL_RUNS_JOB, to_cancel
from queue_engine.executor.cleanup import (
    BRANCH_JOB,
    CLEAN_JOB,
    CLOSE_JOB,
    MOST_TRIES,
    TRY_AGAIN,
    TRY_JOB,
    Cleanup,
    train_jobs,
)
from queue_engine.executor.landing import GREEN_JOB, move_green
from queue_engine.executor.proof_marks import EXPIRE_JOB, delete_expired
from queue_engine.executor.run_request import RunRequests
from queue_engine.handlers.branch_events import Branches
from queue_engine.handlers.check_events import CheckReports, rerun_requested, reviewed
from queue_engine.handlers.label_updates import UPDATES_JOB, LabelUpdates
from queue_engine.handlers.lost_deliveries import DELIVERIES
from queue_engine.handlers.pull_request_events import PullRequestChanges
from queue_engine.handlers.reconciler import Reconciler, enqueue_sweep
from queue_engine.handlers.repository_events import accepted_again, teams_changed
from queue_engine.handlers.shadow_mode import ShadowHandler
from queue_engine.handlers.table_limits import PURGE_JOB, TableLimits
from queue_engine.shadow.decide import SHADOW_JOB
from queue_engine.store.departures import CheckCount
from queue_engine.store.outbox.items import OUTBOX_JOB, OutboxKind
from queue_engine.store.request_records import RequestKind, RequestRecord

_log = structlog.get_logger("imq.inbox")

_STORED_AGAIN = 2
"""How often a delivery is stored again after PostgreSQL ended its transaction for another, such as a migration."""

GIVE_UP_JOB = "give_up"
"""Kind of the job that replies to a comment at which another job failed for good."""

RETRIED_JOB = "count_retried"
"""Kind of the job that counts, by kind, the dead letters that a command retried."""


class Inbox:
    """Stores deliveries and follows their webhooks."""

    def __init__(
        self,
        engine: Engine,
        sweeper: Reconciler,
        *,
        timeline_kept: timedelta | None = None,
        landings_kept: timedelta | None = None,
    ) -> None:
        """Both are the age at which an event of the timeline, or the record of a landing, is deleted; None: never."""
        self._engine = engine
        self._sweeper = sweeper
        self._limits = TableLimits(engine, timeline_kept=timeline_kept, landings_kept=landings_kept)
        self._batch = MicroBatch(self._store)
        self._shadow = ShadowHandler(engine)
        self._updates = LabelUpdates(engine)
        self._order = RequestOrder(engine)
        self._changes = PullRequestChanges(engine, self._shadow, self._order)
        self._reports = CheckReports(engine)
        self._branches = Branches(engine)
        self._commands = Commands(engine, self._order)
        self._runs = RunRequests(engine)

    async def receive(self, webhook: webhooks.WebhookEvent) -> bool:
        """Store a delivery and its job in one transaction; False if the delivery is known already.

        Deliveries that arrive during a transaction share the next one, so that a burst costs few transactions.
        """
        for _ in range(_STORED_AGAIN):
            with suppress(StaleRecord):
                return await self._batch((webhook, current()))
        return await self._batch((webhook, current()))

    async def _store(self, received: Sequence[tuple[webhooks.WebhookEvent, str | None]]) -> list[bool]:
        # Of two that arrive together with one id the first counts.
        first = {webhook.delivery: number for number, (webhook, _) in reversed(list(enumerate(received)))}
        async with self._engine.change() as change:
            keys = [(delivery, received[number][0].kind) for delivery, number in first.items()]
            stored = await change.tx.keys.record(DELIVERIES, keys, change.now)
            new = [
                webhook.delivery in stored and first[webhook.delivery] == n for n, (webhook, _) in enumerate(received)
            ]
            facts = [
                (webhook.repository_id or 0, fact)
                for (webhook, _), is_new in zip(received, new, strict=True)
                if is_new
                for fact in webhook.facts
            ]
            await change.tx.known.record_all(facts, change.now)
            followed = [one for one, is_new in zip(received, new, strict=True) if is_new]
            ids = await change.tx.jobs.enqueue_all(
                kind=webhooks.WEBHOOK_JOB,
                requests=[
                    (_process_of(webhook), webhook.model_dump(mode="json", exclude_none=True))
                    for webhook, _ in followed
                ],
                now=change.now,
                traces=[trace for _, trace in followed],
            )
            pairs = zip(ids, (webhook for webhook, _ in followed), strict=True)
            asked = (_request_of(job_id, webhook, change.now) for job_id, webhook in pairs)
            await change.tx.requests.add([each for each in asked if each is not None])
        self._engine.meter.count("requests_keyed", len(stored), scope=DELIVERIES)
        self._engine.meter.count("duplicates", len(received) - len(stored), scope=DELIVERIES)
        return new

    @property
    def under_burst(self) -> bool:
        """Whether deliveries arrive faster than IMQ could store them one by one."""
        return self._batch.under_burst

    async def drain(self) -> None:
        """Wait for transactions and lookups under way."""
        await self._batch.drain()
        await self._reports.drain()
        await self._shadow.drain()

    def handlers(self) -> dict[str, Handler]:
        """The handlers of all the engine's jobs, by kind."""
        patient = partial(obeying_limits, random=self._engine.random)
        sweeps = self._sweeper.handlers()
        following: dict[str, Handler] = {
            webhooks.WEBHOOK_JOB: self._follow,
            THROTTLED_LABEL_JOB: self._judge_throttled,
            BRANCH_JOB: Cleanup(self._engine).delete_branch,
            CULPRIT_JOB: self._find_culprit,
            GREEN_JOB: partial(move_green, self._engine),
            **train_jobs(self._engine),
            TRY_JOB: self._runs.advance,
            SHADOW_JOB: self._shadow.judge,
            AUTO_MERGE_JOB: GithubMerges(self._engine).disable,
            CANCEL_RUNS_JOB: WorkflowRuns(self._engine).cancel,
            UPDATES_JOB: self._updates.update,
            FLAKE_JOB: WorkflowRuns(self._engine).read_flake,
            **{kind: sweeps.pop(kind) for kind in (PULL_REQUEST_JOB, LOST_LABEL_JOB)},
        }
        return {
            **{kind: patient(partial(self._by_id, handler)) for kind, handler in following.items()},
            OUTBOX_JOB: self._resend,
            REVERT_JOB: patient(self._revert_culprit),
            EXPIRE_JOB: patient(partial(delete_expired, self._engine)),
            GIVE_UP_JOB: patient(self._give_up),
            **{kind: patient(handler) for kind, handler in sweeps.items()},
            PURGE_JOB: self._limits.purge,
            RETRIED_JOB: self._count_retried,
        }

    async def _find_culprit(self, job: Job) -> Outcome | None:
        """Follow a search. Its code is imported where it is used: most processes never meet a red base."""
        from queue_engine.executor.culprit import find_culprit

        return await find_culprit(self._engine, job)

    async def _revert_culprit(self, job: Job) -> None:
        from queue_engine.admission.reverts import revert_culprit

        await revert_culprit(self._engine, job)

    async def _give_up(self, job: Job) -> Outcome | None:
        """Have the comment say that IMQ failed at what somebody asked for in a comment, unless it tries that again."""
        waiting = await self._engine.store.read(lambda tx: tx.jobs.unfinished(job.process_id))
        if any(each.id == job.request["id"] or each.kind == TRY_JOB for each in waiting):
            # A later test has the branches of the one that failed.
            return None
        try:
            if job.request["kind"] == TRY_JOB:
                return await self._runs.give_up(replace(job, request=job.request["request"]))
            webhook = adapter(webhooks.CommandEvent).validate_python(job.request["request"])
            if not await self._shadow.is_shadow(webhook.repository, webhook):
                await self._commands.give_up(webhook)
        except (Forbidden, NotFound) as refused:
            # Often what failed met the same, and one dead letter says it.
            _log.info("comment_not_answered", process=job.process_id, message=refused.message)
        return None

    async def _resend(self, job: Job) -> None:
        """Requeue an outbox item from the dead letters, unless IMQ has sent a newer one meanwhile."""
        await self._engine.write(lambda change: change.tx.outbox.requeue(job.request, change.now))

    async def _count_retried(self, job: Job) -> None:
        """Count jobs that a command retried: the command's own process ends before Prometheus can read its metrics."""
        for kind, number in job.request.items():
            self._engine.meter.count("jobs_reprocessed", number, kind=kind)

    async def _by_id(self, handler: Handler, job: Job) -> Outcome | None:
        """Have a job done in its repository, whose name and installation may change while the job waits."""
        job, repository = await self._with_present_name(job)
        try:
            return await handler(job)
        except (NotFound, Refused) as error:
            if repository is None or (isinstance(error, Refused) and error.status != _NOT_FOUND):
                raise
            present = await present_repository(self._engine, repository)
            if present is None:
                return await self._await_repository(repository, job)
            if present == repository or job.holds.get(_MOVED, 0) > _MOST_MOVED:
                raise
            return Hold(timedelta(0), _MOVED)

    async def _with_present_name(self, job: Job) -> tuple[Job, Repository | None]:
        """Return the job with the name that its repository has now, and that one; None if it is about none.

        A webhook that just came has it.
        """
        request, its_own = job.request, job.request.get("repository", job.request)
        if job.kind == webhooks.WEBHOOK_JOB and request.get("kind") in _OF_INSTALLATIONS:
            return job, None
        if "queue_id" in request:
            queue = await self._engine.store.read(lambda tx: tx.queues.get(request["queue_id"]))
            return job, None if queue is None else queue.repository
        number = its_own.get("repository_id", its_own.get("id"))
        if number is None:
            return job, None
        repository = Repository(number, its_own["owner"], its_own["name"], its_own["installation_id"])
        if job.kind == webhooks.WEBHOOK_JOB and job.claims == 1:
            return job, repository
        known = await self._engine.store.read(lambda tx: tx.repositories.by_id(number))
        repository = known or repository
        names = {"owner": repository.owner, "name": repository.name, "installation_id": repository.installation_id}
        present = {**its_own, **names}
        request = {**request, "repository": present} if "repository" in request else present
        return replace(job, request=request), repository

    async def _await_repository(self, repository: Repository, job: Job) -> Outcome | None:
        """Have all installations listed, one of which may have the repository now; drop a job of one that none has.

        Where one gets it later, the sweep finds its labels. What IMQ itself has left there waits for a week.
        """
        tries = job.holds.get(_MOVED, 0)
        if tries <= _MOST_MOVED:
            await self._sweeper.request(renew=True)
            return Hold(_LISTED, _MOVED)
        if job.kind in _LEFT_BEHIND and tries < _MOST_MOVED + MOST_TRIES:
            return Hold(TRY_AGAIN, _MOVED)
        await self._engine.write(lambda change: change.tx.requests.remove(job.id))
        _log.info("repository_gone", repository=repository.full_name, process=job.process_id)
        return None

    async def _follow(self, job: Job) -> None:
        await self._follow_as(adapter(webhooks.WebhookEvent).validate_python(job.request), job)

    async def _follow_as(self, webhook: webhooks.WebhookEvent, job: Job) -> None:
        with structlog.contextvars.bound_contextvars(delivery=webhook.delivery):
            if isinstance(webhook, webhooks.PullRequestWebhook):
                webhook = webhook.model_copy(update={"attempt": attempt_of(job)})
                await self._order.await_again(webhook.attempt)
            await self._handle(webhook, job)
            if isinstance(webhook, webhooks.PullRequestWebhook):
                await self._sweeper.request_labels(webhook.repository)

    async def _handle(self, webhook: webhooks.WebhookEvent, job: Job) -> None:
        match webhook:
            case webhooks.RepositoryChange():
                await self._installation_changed(webhook)
            case webhooks.TeamChange():
                await teams_changed(self._engine, webhook.installation_id)
            case webhooks.RuleChange():
                await self._branches.rules_changed(webhook)
            case webhooks.LabelRequest():
                if not await self._changes.labeled(webhook):
                    # It asked IMQ for nothing.
                    await self._engine.write(lambda change: change.tx.requests.remove(job.id))
            case _:
                await self._of_repository(webhook)

    async def _installation_changed(self, webhook: webhooks.RepositoryChange) -> None:
        repository = webhook.repository
        if webhook.action in _PERMITTING:
            await accepted_again(self._engine, webhook.installation_id)
        elif webhook.action == "deleted":
            # GitHub may accept its tokens until they expire (probot/probot #382): IMQ stops at once.
            self._engine.github.forget_token(webhook.installation_id)
        if repository is not None and webhook.action in _RENAMES:
            await remember_name(self._engine, repository)
        if repository is not None and webhook.action in _VISIBILITY:
            await self._engine.write(lambda change: change.tx.repositories.renew_settings(repository.id))
        if repository is not None and webhook.action == "unarchived":
            # Its queues may be empty, so that no pause of theirs ends: words of what landed wait all the same.
            await self._engine.write(lambda change: change.tx.outbox.release(repository.id, change.now))
        named = webhook.selected or (() if repository is None else (repository,))
        await self._sweeper.request_of(webhook.installation_id, webhook.action, named)

    async def _judge_throttled(self, job: Job) -> Outcome | None:
        """Judge a label that was put off, unless its sender is still throttled, or another person queued meanwhile."""
        webhook, engine = webhook_of(job), self._engine
        with structlog.contextvars.bound_contextvars(delivery=webhook.delivery):
            if await queued_by_others(engine, webhook):
                return None
            if (longer := await put_off_again(engine, webhook)) is not None:
                return Hold(longer)
            await self._changes.labeled(webhook)
        return None

    async def _of_repository(self, webhook: webhooks.RepositoryWebhook) -> None:
        """Handle the webhook of a repository, unless it is a label."""
        repository = webhook.repository
        if isinstance(webhook, webhooks.BranchPush):
            await self._branches.moved(webhook)
            if webhook.head_sha is not None:
                await self._updates.pushed(repository, webhook.branch)
            if webhook.config and webhook.default_branch and await self._shadow.configuration_pushed(repository):
                # Its mode switched: the labels that are there count as at a first start.
                await self._engine.write(lambda change: enqueue_sweep(change, repository))
        if await self._shadow.is_shadow(repository, webhook):
            await self._shadow.follow(webhook)
            return
        match webhook:
            case webhooks.StateChange() | webhooks.LabelChange() | webhooks.HeadChange():
                await self._changes.changed(webhook)
            case webhooks.ConversationReady():
                comment = {"repository_id": repository.id, "number": webhook.number, "label": ""}
                async with self._engine.change() as change:
                    await change.tx.outbox.requeue({"kind": OutboxKind.COMMENT, **comment}, change.now)
            case webhooks.ReviewWebhook() | webhooks.ConversationWebhook():
                await reviewed(self._engine, webhook, self._order)
            case webhooks.CheckOutcome() | webhooks.SuiteReport():
                await self._reports.reported(webhook)
            case webhooks.LabelRename():
                names = repository, webhook.former, webhook.label
                await follow_label(self._engine, *names, by=webhook.sender, delivery=webhook.delivery)
            case webhooks.RerunRequest():
                await rerun_requested(self._engine, webhook)
        if isinstance(webhook, webhooks.CommandEvent):
            await self._commands.execute(webhook)


_PERMITTING = frozenset({"new_permissions_accepted", "unsuspend"})
"""After these, GitHub may accept what it refused before."""
_RENAMES = frozenset({"renamed", "transferred"})
_VISIBILITY = frozenset({"privatized", "publicized"})
"""Every process forgets at once whether the repository is public."""


def of_dead_letter(letter: DeadLetter) -> Iterable[JobRequest]:
    """Name the job that replies to a comment, if this job failed for good at what the comment asks for."""
    asked = letter.payload.get("commands") if letter.job_type == webhooks.WEBHOOK_JOB else letter.job_type == TRY_JOB
    content = {"id": letter.id, "kind": letter.job_type, "request": dict(letter.payload)}
    return (JobRequest(GIVE_UP_JOB, letter.process_id, content),) if asked else ()


def _process_of(webhook: webhooks.WebhookEvent) -> str:
    """Return the process id of a webhook's job: IMQ handles webhooks of one process in the order of their arrival."""
    subject: int | str = webhook.kind
    match webhook:
        case webhooks.PullRequestWebhook():
            subject = webhook.number
        case webhooks.BranchPush():
            subject = webhook.branch
        case webhooks.CommitWebhook():
            subject = webhook.head_sha
    # The column's length: branches whose names agree so far share a process, which only makes them wait.
    return f"{webhook.repository_id or webhook.installation_id}:{subject}"[:255]


def _request_of(job_id: str, webhook: webhooks.WebhookEvent, now: datetime) -> RequestRecord | None:
    """Return what a webhook asks for in somebody's name: a label or commands; None for any other webhook."""
    match webhook:
        case webhooks.LabelRequest():
            asked = RequestKind.LABEL, webhook.label
        case webhooks.CommentCommand() | webhooks.ReviewCommand():
            asked = RequestKind.COMMAND, " ".join(f"/{line}" for line in webhook.commands)
        case _:
            return None
    return RequestRecord(job_id, webhook.repository, webhook.number, *asked, asked_by=webhook.sender, asked_at=now)


_OUT_OF_ORDER = timedelta(minutes=10)
"""When a job is tried again whose installation or repository GitHub refuses as a whole."""
_OUTDATED = "outdated_read"
_MOVED, _MOST_MOVED = "repository_gone", 3
_LEFT_BEHIND = frozenset({BRANCH_JOB, CLEAN_JOB, CLOSE_JOB, TRY_JOB})
_NOT_FOUND = 404
_OF_INSTALLATIONS = frozenset({"rules", "teams", "installed"})
"""Kinds of webhooks that name a repository as it is then, or none."""
_LISTED = timedelta(seconds=20)
"""When a job is tried again whose repository may be in another installation, which a sweep lists meanwhile."""


def obeying_limits(handler: Handler, random: Callable[[], float]) -> Handler:
    """Hold a job after a rate limit, a lost compare-and-set or a stale read, so that it does not count as failed.

    Holds for stale reads have a limit of their own; the job keeps its place in its process, and reads again. A job
    waits as long as its installation or repository is out of order. One that needs a permission becomes a dead letter
    that the operator can retry; so does one that needs a valid key, after the tries of every job.
    """

    async def handle(job: Job) -> Outcome | None:
        try:
            return await handler(job)
        except RateLimitError as early:
            return Hold(early.retry_after)
        except RequestOrderError as early:
            return Hold(early.retry_after, EARLIER_REQUEST)
        except StaleRecord:
            return Hold(timedelta(0))
        except WriteRefused as refused:
            # What was to be written concerns a repository that entered shadow mode since.
            _log.info("write_dropped", message=refused.message)
            return None
        except StaleRead:
            tries = job.holds.get(_OUTDATED, 0)
            if OUTDATED.exhausted(tries):
                raise
            return Hold(backoff.wait(OUTDATED, tries, random=random), _OUTDATED)
        except Refused as refused:
            if refused.disorder is None:
                raise
            return Hold(_OUT_OF_ORDER)
        except Unauthorized as refused:
            return Retry(f"{type(refused).__name__}: {refused.message}")
        except Forbidden as refused:
            return Dead(f"{type(refused).__name__}: {refused.message}", retryable=True)

    return handle


class WorkflowRuns(EngineHandler):
    """Cancels runs of GitHub Actions on IMQ's outdated updates (`queue_engine.effects.stale_runs`), and reads which
    tests failed in those that flaked (`queue_engine.effects.check_counts`).
    """

    async def cancel(self, job: Job) -> None:
        """Cancel the runs on a head, with the permission. Raises RateLimitError and Unavailable."""
        github, head = self._engine.github, job.request["head"]
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(job.request["queue_id"])
            entries = () if queue is None else await tx.entries.of_repository(queue.repository.id)
        if queue is None or any(head in {entry.head_sha, entry.queued_head, entry.run.new_head} for entry in entries):
            # The head was queued again: its checks count.
            return
        repository, left = queue.repository, datetime.fromisoformat(job.request["left"])
        runs = await github.workflow_runs(repository, head)
        own_login = await github.own_login()
        for run in to_cancel(runs, head, own_login, left):
            if not await self._cancel_one(repository, run, number=job.request["number"]):
                return

    async def _cancel_one(self, repository: Repository, run: int, *, number: int) -> bool:
        """Cancel one run; False if IMQ lacks the permission (`actions: write`) to cancel any."""
        try:
            await self._engine.github.cancel_run(repository, run)
        except Forbidden as refusal:
            _log.info("runs_not_cancelled", repository=repository.full_name, number=number, message=refusal.message)
            return False
        except (HeadConflict, Invalid, NotFound) as refusal:
            # 409: it ended meanwhile ("Cannot cancel a workflow run that is completed.", Homebrew/actions #70).
            _log.info("run_already_ended", repository=repository.full_name, run=run, message=refusal.message)
        else:
            _log.info("run_cancelled", repository=repository.full_name, number=number, run=run)
        return True

    async def read_flake(self, job: Job) -> None:
        """Count the tests that failed in a flake, where annotations or artifacts name them. Raises GitHubError."""
        wanted = job.request
        queue = await self._engine.store.read(lambda tx: tx.queues.get(wanted["queue_id"]))
        if queue is None:
            return
        with working(RequestPriority.BACKGROUND):
            tests = await self._engine.github.failed_tests(queue.repository, [int(each) for each in wanted["checks"]])
        counted = [CheckCount(name, 0, 1) for name in tests]
        async with self._engine.change() as change:
            await change.tx.statistics.count_checks(
                queue.repository.id, queue.base_branch, wanted["day"], counted, "test", pulls=wanted["pulls"], reruns=1
            )


class GithubMerges(EngineHandler):
    """Disables GitHub's auto-merge of queued pull requests: GitHub would merge them past the queue."""

    async def disable(self, job: Job) -> None:
        """Disable a queued pull request's auto-merge, or have its entry leave. Raises GitHubError and StaleRecord."""
        repository, number = Repository(**job.request["repository"]), job.request["number"]
        case = await load_case(self._engine, repository, number)
        if (entry := case.entry) is None:
            return
        case = await case.with_policy(self._engine, entry.base_branch)
        if not case.policy.auto_merge.disables:
            return
        pull = await self._engine.github.pull_request(repository, number)
        try:
            disabled = await self._engine.github.disable_auto_merge(repository, pull.node_id)
        except Forbidden as refusal:
            await self._dequeue(case, entry, refusal.message)
            return
        if disabled:
            async with self._engine.change() as change:
                await change.record("auto_merge_disabled", entry, data={"head": entry.head_sha})
                await change.tx.outbox.resend(repository.id, number, due=change.now)
            _log.info("auto_merge_disabled", repository=repository.full_name, number=number)

    async def _dequeue(self, case: Case, entry: Entry, message: str) -> None:
        why = DequeueReason(Reason.AUTO_MERGE_ENABLED, message, people=(entry.author,))
        await self._engine.write(lambda change: record.dequeue(change, entry, why, case.policy))
