"""Handle reports of checks, reviews and conversations: make an entry due only when they may decide.

A pull request whose approval was withdrawn is dequeued.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from queue_engine.admission.case import Case
from queue_engine.admission.request_order import RequestOrder
from queue_engine.admission.required_facts import withdrawn_approval
from queue_engine.admission.revalidate import left_to_pass, revalidate
from queue_engine.admission.throttle import is_outsider, is_throttled
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.model import Entry, EntryStatus, Repository, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.domain.webhooks import CheckOutcome, CheckWebhook, ConversationWebhook, RerunRequest, ReviewWebhook
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.landings import note_failure, process_of
from queue_engine.effects.record import read_again, set_aside
from queue_engine.executor.cleanup import tried_on
from queue_engine.executor.run_request import judge_again
from queue_engine.rules.check_progress import progress, run_progress, with_webhook
from queue_engine.rules.checks import queue_only_names
from queue_engine.rules.consent import NewHead, may_bind
from queue_engine.rules.eligibility import waits
from queue_engine.rules.readiness import may_be_renewed, waits_for_check
from queue_engine.rules.reviews import with_own_approvals
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import OutboxKind

_TOGETHER = timedelta(seconds=5)
"""How long IMQ waits for further reports on what `/try` tests before it reads the checks."""
_REPORTS_KEPT = 200
"""How many reports are stored for a head that is not bound yet; more checks than any commit has."""


class CheckReports:
    """Follows webhooks about check runs, suites and statuses."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._may_count = MicroBatch(self._lookup)

    async def drain(self) -> None:
        """Wait for lookups under way."""
        await self._may_count.drain()

    async def reported(self, webhook: CheckWebhook) -> None:
        """Handle a check's report on a commit: an entry's candidate, a head to be bound, or a red base's tip."""
        repository = webhook.repository
        if isinstance(webhook, CheckOutcome) and not webhook.passed:
            await note_failure(self._engine, repository.id, webhook.head_sha, webhook.check_name)
        if isinstance(webhook, CheckOutcome) and (number := tried_on(webhook.own_branch)) is not None:
            await self._engine.write(lambda change: judge_again(change, repository, number, after=_TOGETHER))
        if not await self._may_count((repository.id, webhook.head_sha)):
            return
        uncounted = await self._uncounted_on(webhook)
        async with self._engine.change() as change:
            # One read: an entry whose head is bound between two reads would be missing in both.
            entries = await change.tx.entries.updated_or_checked(repository.id)
            entries = tuple(entry for entry in entries if entry.base_branch not in uncounted)
            stalled = await change.tx.stalls.heads(repository.id)
            bound = [e for e in entries if e.run.candidate == webhook.head_sha]
            for entry in bound:
                await _count(change, entry, webhook, stalled=webhook.head_sha in stalled)
            if not bound:
                for entry in entries:
                    if entry.run.candidate is None and entry.head_sha != webhook.head_sha:
                        await _keep(change.tx, entry, webhook)
                for run in await change.tx.runs.of_commit(repository.id, webhook.head_sha):
                    await _count_together(change, run, webhook)
            await change.tx.red_bases.reported(repository.id, webhook.head_sha, change.now)
            await change.tx.stalls.reported(repository.id, webhook.head_sha, change.now, webhook.check_name)
            if (searching := await change.tx.culprits.waiting(repository.id, webhook.head_sha)) is not None:
                await change.tx.jobs.hasten(process_of(searching), change.now)
        if isinstance(webhook, CheckOutcome):
            await self._judge_waiting(webhook)

    async def _judge_waiting(self, webhook: CheckOutcome) -> None:
        """Judge again those that wait outside their queues until this check passes, or until it reports."""
        outside = await self._engine.store.read(lambda tx: tx.entries.waiting_outside(webhook.repository_id))
        for entry in (each for each in outside if waits_for_check(each, webhook)):
            await revalidate(self._engine, Case(webhook.repository, entry.number, entry, webhook.delivery))

    async def _uncounted_on(self, webhook: CheckWebhook) -> frozenset[str]:
        """Return the base branches for which a skipped check is a queue-only one, or may be: then it did not run."""
        if not webhook.skipped:
            return frozenset()
        repository = webhook.repository
        async with self._engine.store.reading() as tx:
            branches = {entry.base_branch for entry in await tx.entries.updated_or_checked(repository.id)}
        names = {branch: queue_only_names(await self._engine.policies.of(repository, branch)) for branch in branches}
        name = webhook.check_name
        return frozenset(branch for branch, own in names.items() if (own if name is None else name in own))

    async def _lookup(self, reports: Sequence[tuple[int, str]]) -> list[bool]:
        """Return whether a report on each commit may count; reports that arrive together share the read."""
        repositories = {repository_id for repository_id, _ in reports}
        async with self._engine.store.reading() as tx:
            under_way = await tx.candidate_commits.under_way(repositories)
            red = await tx.red_bases.tips(repositories)
            stalled = await tx.stalls.repositories(repositories)
            searched = await tx.culprits.awaited(repositories)
        return [
            repository_id in stalled
            or (repository_id, sha) in red | searched
            or any(
                of == repository_id and (head != sha if candidate is None else candidate == sha)
                for of, head, candidate in under_way
            )
            for repository_id, sha in reports
        ]


def _counted(run: Run, webhook: CheckWebhook, *, stalled: bool = False) -> tuple[Run, bool] | None:
    """Count a report on a candidate; return whether it may decide, too. None: it does not count.

    A failure decides, and the last pending check. While no check is known to be pending, or none is known to have
    started, each report may decide; the next poll finds the pending checks.
    """
    pending, name = set(run.pending_checks), webhook.check_name
    if webhook.without_jobs:
        # A workflow run has no jobs: the next poll counts as the first, which reads such runs.
        return replace(run, polls=0), True
    if pending and name not in pending and not stalled:
        return None
    counted = with_webhook(run, webhook)
    # A failure before any check is known to be pending is not counted: the poll at once judges it alone.
    if name is not None and (pending or webhook.passed is not False):
        reported = tuple(dict.fromkeys((*run.completed_checks, name)))
        counted = replace(counted, completed_checks=reported[-_REPORTS_KEPT:])
    return counted, stalled or webhook.passed is False or pending <= set(counted.completed_checks)


async def _count(change: Change, entry: Entry, webhook: CheckWebhook, *, stalled: bool) -> None:
    """Count a report on the candidate of one entry, and make it due if the report may decide."""
    if (found := _counted(entry.run, webhook, stalled=stalled)) is None:
        return
    run, decides = found
    counted = replace(entry, run=replace(run, next_poll_at=change.now) if decides else run)
    await change.tx.entries.save(counted)
    if decides:
        await change.tx.queues.wake(
            entry.queue_id, change.now, anyway=await _starts_again(change.tx, entry.run, entry.queue_id, webhook)
        )
    if (event := progress(entry, counted)) is not None:
        change.progress.append(event)


async def _count_together(change: Change, run: Run, webhook: CheckWebhook) -> None:
    """Count a report on a candidate of several members, and make their queue due if the report may decide."""
    if (found := _counted(run, webhook)) is None:
        return
    counted, decides = found
    anyway = await _starts_again(change.tx, run, run.queue_id, webhook)
    if decides and (anyway or not run.github_failures):
        counted = replace(counted, next_poll_at=change.now)
    await change.tx.runs.save(counted)
    is_new = run.pending_checks and counted.completed_checks != run.completed_checks
    if is_new and (event := run_progress(counted)) is not None:
        change.progress.append(event)
    if decides and run.queue_id is not None:
        await change.tx.queues.wake(run.queue_id, change.now, anyway=anyway)


async def _starts_again(tx: Transaction, run: Run, queue_id: int | None, webhook: CheckWebhook) -> bool:
    """Whether a check passed on a candidate whose queue is paused since GitHub started no job."""
    if not webhook.passed or run.github_failing_since is None or queue_id is None:
        return False
    queue = await tx.queues.get(queue_id)
    return queue is not None and queue.pause(Reason.GITHUB_REFUSES) is not None


async def _keep(tx: Transaction, entry: Entry, webhook: CheckWebhook) -> None:
    """Store a report that may be on the head of an update under way, until that head is bound."""
    reports = (*entry.run.completed_checks, f"{webhook.head_sha}:{webhook.check_name or ''}")
    await tx.entries.save(
        replace(entry, run=replace(entry.run, completed_checks=tuple(dict.fromkeys(reports))[-_REPORTS_KEPT:]))
    )


_MOST = 20
"""How many pull requests with one head are read again for one rerun."""


async def rerun_requested(engine: Engine, webhook: RerunRequest) -> None:
    """Handle "Re-run" on IMQ's own check: have its pull requests read again, and answer in the check's output.

    A rerun is no consent: it queues nothing that has no label (P4). The webhook goes only to the App of the check
    (GitHub's "Webhook events and payloads: check_run"; Mergify's and atlantis's handlers of `rerequested`). Raises
    StaleRecord.
    """
    repository = webhook.repository
    async with engine.change() as change:
        entries = await change.tx.entries.of_repository(repository.id)
        queued = {entry.number for entry in entries if entry.head_sha == webhook.head_sha}
        for number in sorted(queued.union(webhook.numbers))[:_MOST]:
            await _read_again(change, repository, number, webhook)


async def _read_again(change: Change, repository: Repository, number: int, webhook: RerunRequest) -> None:
    """Have one pull request read again, if IMQ has a check run on it, and record who asked for that."""
    tx, now = change.tx, change.now
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, repository.id, number)
    if shown is None:
        return
    entry = await tx.entries.find(repository.id, number)
    if entry is not None:
        checking = entry.status is EntryStatus.CHECKING
        run = replace(entry.run, polls=0, next_poll_at=now) if checking else entry.run
        await tx.entries.save(replace(entry, needs_refetch=True, run=run))
        await tx.queues.wake(entry.queue_id, now)
    queue = await tx.queues.find_or_create(repository, shown.base_branch, now)
    data = {"by": webhook.sender, "head": webhook.head_sha}
    await change.record("read_again", entry or queue, number=number, delivery=webhook.delivery, data=data)
    if not shown.merges_now:
        await tx.outbox.resend(repository.id, number, due=now, kind=OutboxKind.CHECK_RUN)
    await read_again(change, repository, number, new=True)


async def reviewed(engine: Engine, webhook: ReviewWebhook | ConversationWebhook, order: RequestOrder) -> None:
    """Handle a new or dismissed review, or a conversation that was resolved or opened again.

    IMQ dequeues the entry if its rules require an approval that is now missing. In the queue it reads conversations
    before the merge. An entry that is not ready may have all that it lacked. Raises StaleRecord if the entry changed
    during the reads.
    """
    repository = webhook.repository
    entry = await engine.store.read(lambda tx: tx.entries.find(repository.id, webhook.number))
    conversation = isinstance(webhook, ConversationWebhook)
    by = webhook.sender if webhook.action != "dismissed" and not webhook.sender_is_bot else None
    if entry is None or (conversation and entry.is_ready):
        return
    if by is not None and await is_throttled(engine, repository, by):
        return
    # Load the policy first: this also drops cached rules, if another process received a webhook of their change.
    policy = await engine.policies.of(repository, entry.base_branch)
    rules = with_own_approvals(await engine.github.branch_rules(repository, entry.base_branch), policy)
    answers = not entry.is_ready and policy.require.reviews_done
    if not (rules.conversations if conversation else rules.approvals or rules.code_owners or answers):
        return
    if by is not None and not conversation and await is_outsider(engine, repository, by):
        # GitHub's rules do not count an outsider's review, and the pass judges all reviews again before the merge.
        return
    if not entry.is_ready:
        attempt = webhook.attempt
        case = Case(repository, entry.number, entry, webhook.delivery, attempt=attempt)
        await revalidate(engine, replace(case, in_order=order.of(repository, attempt)))
        return
    pull, missing = await withdrawn_approval(engine, entry, rules)
    if missing is None:
        return
    if await left_to_pass(engine, repository, entry.number):
        return
    if webhook.action == "dismissed" and webhook.sender_is_bot and await _set_aside(engine, entry, missing, policy):
        return
    people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
    asked = missing[0] is Reason.CHANGES_REQUESTED
    caused_by = webhook.sender if asked is (webhook.action == "submitted") else None
    why = DequeueReason(*missing, people=people, delivery=webhook.delivery, by=caused_by, by_bot=webhook.sender_is_bot)
    await engine.write(lambda change: record.dequeue(change, entry, why, policy))


async def _set_aside(engine: Engine, entry: Entry, missing: tuple[Reason, str], policy: Policy) -> bool:
    """Have the entry wait outside its queue, if automation dismissed the approval after IMQ's own update.

    While GitHub makes that update, the pass decides, which judges all reviews before the merge. Raises GitHubError and
    StaleRecord.
    """
    if entry.status is EntryStatus.UPDATING and waits(policy):
        return True
    if not may_be_renewed(entry, missing[0], policy):
        return False
    if not entry.head_proved:
        compared = await engine.github.comparison(entry.repository, entry.base_branch, entry.head_sha)
        head = NewHead(entry.head_sha, compared=compared)
        if may_bind(head, entry, policy, ConsentKind.OWN_UPDATE) is None:
            return False
    await engine.write(lambda change: set_aside(change, entry, UnmetRequirement(*missing), policy))
    return True
