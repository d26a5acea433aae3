"""Follow the webhooks about pull requests of a repository in shadow mode, and store what IMQ would have done.

A label makes a would-be entry, which no queue has. It is judged again when a webhook may change the decision, or when
a pass would have polled GitHub, and until it would have left the queue. When somebody else's merge lands a pull
request, with a label or without, IMQ judges that merge. Commands in comments are not followed: IMQ could not answer.
"""

from dataclasses import replace

import structlog

from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.head_consent import is_labeled_head
from queue_engine.admission.new_entries import record_consent
from queue_engine.admission.stack_place import placed
from queue_engine.config.model import Policy
from queue_engine.core.observability.progress import Meter
from queue_engine.domain import webhooks
from queue_engine.domain.facts import Permission, PullRequest
from queue_engine.domain.model import EntryStatus, Repository, UnmetRequirement
from queue_engine.domain.policy import PushPolicy, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowAction, ShadowLanding, ShadowOutcome, ShadowPull
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import UNKNOWN_HEAD, Ignore, NotReady, Reject
from queue_engine.rules.readiness import waits_for_check
from queue_engine.shadow.decide import (
    UNREPORTED,
    ShadowResult,
    judge_others,
    judge_others_later,
    judge_request,
    judge_waiting,
    new_entry,
    next_decision,
    outside_queue,
    with_waiting_push,
)
from queue_engine.shadow.landing import follow_base, judge_landing
from queue_engine.shadow.webhook_facts import is_rebase, is_repeated, withdrawn_before_merge

_log = structlog.get_logger("imq.shadow")


async def _find_label(engine: Engine, repository: Repository, number: int) -> EnqueueRequest | None:
    """Return the request of a label for which no webhook came: it counts if GitHub proves that it was set on this head.

    None if the pull request has no trigger label. Raises GitHubError.
    """
    pull = await engine.github.pull_request(repository, number)
    policy = await engine.policies.of(repository, pull.base_branch)
    for label in policy.trigger_labels:
        if not has_label(pull.labels, [label]):
            continue
        last = await engine.github.last_labeled_event(repository, number, label)
        if last is not None:
            proved = await is_labeled_head(engine, repository, pull, last, policy)
            head = pull.head_sha if proved else UNKNOWN_HEAD
            return EnqueueRequest(Case(repository, number), by=last.by, head_sha=head, arrived_at=last.at)
    return None


class ShadowPulls:
    """Follows pull requests in shadow mode."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def follow(self, webhook: webhooks.RepositoryWebhook) -> None:
        """Follow a webhook of a repository in shadow mode. Raises GitHubError."""
        match webhook:
            case webhooks.LabelRequest():
                await self._labeled(webhook)
            case webhooks.StateChange(action="closed"):
                await self._closed(webhook.repository, webhook.number, by=webhook.sender)
            case webhooks.StateChange() | webhooks.LabelChange() | webhooks.HeadChange():
                await self._changed(webhook)
            case webhooks.ReviewWebhook() | webhooks.ConversationWebhook():
                await self._reviewed(webhook)
            case webhooks.CheckOutcome() | webhooks.SuiteReport():
                await self._checked(webhook)
            case webhooks.BranchPush():
                await self._base_moved(webhook)

    async def find_due(self, repository: Repository, labeled: set[int]) -> list[int]:
        """Return the pull requests to judge: those that are due, and labels for which no webhook came.

        So do labels from before a time without shadow mode.
        """
        now = self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            due = {pull.number for pull in await tx.shadow.due(repository.id, now)}
            known = [(n, await tx.shadow.find(repository.id, n)) for n in sorted(labeled - due)]
        return sorted(due | {n for n, pull in known if pull is None or pull.interrupted})

    async def judge(self, repository: Repository, number: int) -> None:
        """Judge a pull request that is due, or labeled without a webhook. Raises GitHubError."""
        pull = await self._find(repository, number)
        if pull is None or (pull.landing is None and pull.entry is None):
            request = await _find_label(self._engine, repository, number)
            if request is not None:
                await self._request(request)
        elif pull.landing is not None:
            await self._follow_base(pull)
        elif (await self._decide(pull, refetch=True)).reason is Reason.MERGED_ELSEWHERE:
            # The webhook of the merge was lost.
            await self._closed(repository, number, by=None)

    async def _labeled(self, webhook: webhooks.LabelRequest) -> None:
        """Judge a trigger label. Another label of an entry that waits may change what holds it."""
        engine, repository, number = self._engine, webhook.repository, webhook.number
        triggers = (await engine.policies.of(repository, webhook.branch)).trigger_labels
        known = await self._find(repository, number)
        if known is not None and known.entry is not None:
            await self._decide(known, refetch=True)
        elif known is not None and is_repeated(known, webhook, engine.clock.now()):
            return
        elif has_label([webhook.label], triggers) and webhook.sender != await engine.github.own_login():
            request = EnqueueRequest(
                Case(repository, number, delivery=webhook.delivery),
                by=webhook.sender,
                head_sha=webhook.head_sha,
                base_branch=webhook.branch,
                label=webhook.label,
                labeled_at=webhook.updated_at,
            )
            await self._request(request)

    async def _request(self, request: EnqueueRequest) -> None:
        """Judge whether IMQ would queue the pull request, and then what it would do."""
        engine, repository = self._engine, request.case.repository
        taken = await engine.github.snapshot(repository, request.case.number, login=request.by)
        if taken.permission is None:
            permission = await engine.github.permission(repository, request.by or "") if request.by else Permission.NONE
            taken = replace(taken, permission=permission)
        request, taken = await placed(engine, request, taken)
        request = replace(request, case=await request.case.with_policy(engine, taken.pull.base_branch))
        policy, now = request.case.policy, engine.clock.now()
        taken, answer = await judge_request(engine, request, taken, policy)
        if isinstance(answer, Ignore):
            return
        shadowed = await self._of(repository, taken.pull)
        shadowed = replace(shadowed, enqueued_at=request.labeled_at or request.arrived_at or now, queued_by=request.by)
        if isinstance(answer, Reject):
            decision = ShadowAction(ShadowOutcome.REJECTED, now, answer.reason, answer.detail)
            await self._store(replace(shadowed, decision=decision, entry=None, due_at=None), shadowed.decision)
            return
        async with engine.change() as change:
            await record_consent(change, request, taken.pull)
        if isinstance(answer, NotReady):
            entry = new_entry(request, taken, policy, now, answer.unmet)
            await self._decided(shadowed, outside_queue(entry, now), policy)
            return
        entry = new_entry(request, taken, policy, now)
        await self._decided(shadowed, await next_decision(engine, entry, policy), policy)

    async def _changed(self, webhook: webhooks.PullRequestChange) -> None:
        """Judge again after a push, a removed label, a draft, a changed base or title."""
        repository = webhook.repository
        pull = await self._find(repository, webhook.number)
        if pull is None:
            return
        policy = await self._engine.policies.of(repository, pull.base_branch)
        case = Case(repository, pull.number, delivery=webhook.delivery)
        if isinstance(webhook, webhooks.HeadChange):
            pull = await with_waiting_push(self._engine, pull, webhook, policy)
            if is_rebase(pull, webhook, policy):
                # A queue binds the new head, or queues it again: here the would-be entry starts with it.
                await self._request(EnqueueRequest(case, by=pull.queued_by, head_sha=webhook.head_sha))
                return
        decided = self._correct(pull, policy) if pull.entry is None else self._decide(pull, refetch=True)
        decision = await decided
        left = decision is not None and decision.reason is Reason.HEAD_CHANGED
        if left and isinstance(webhook, webhooks.HeadChange) and policy.on_push.queued is PushPolicy.REQUEUE:
            await self._request(EnqueueRequest(case, by=webhook.sender, head_sha=webhook.head_sha))

    async def _correct(self, pull: ShadowPull, policy: Policy) -> ShadowAction | None:
        """Take back a decision to merge, if consent had ended before it: GitHub would have refused."""
        if (reason := await withdrawn_before_merge(self._engine, pull, policy)) is None:
            return None
        decision = ShadowAction(ShadowOutcome.DEQUEUED, self._engine.clock.now(), reason)
        await self._store(replace(pull, decision=decision), pull.decision)
        return decision

    async def _closed(self, repository: Repository, number: int, *, by: str | None) -> None:
        """Judge a merge by somebody else, or dequeue the would-be entry of a closed pull request."""
        engine = self._engine
        await judge_others(engine, repository, number)
        known = await self._find(repository, number)
        if known is not None and known.landing is not None:
            return
        pull = await engine.github.pull_request(repository, number)
        policy = await engine.policies.of(repository, pull.base_branch)
        if not pull.merged:
            if known is not None and known.entry is not None:
                await self._decide(known, refetch=True)
            elif known is not None:
                await self._correct(known, policy)
            return
        case = await Case(repository, number).with_policy(engine, pull.base_branch)
        landing = await judge_landing(engine, EnqueueRequest(case, by=by, head_sha=pull.head_sha), pull, policy)
        shadowed = replace(await self._of(repository, pull), landing=landing, entry=None)
        await self._follow_base(shadowed)
        _count_landing(engine.meter, landing)

    async def _reviewed(self, webhook: webhooks.ReviewWebhook | webhooks.ConversationWebhook) -> None:
        """Dequeue a would-be entry that no longer meets the rules, as after a dismissed approval."""
        engine, repository, number = self._engine, webhook.repository, webhook.number
        pull = await self._find(repository, number)
        if pull is None or pull.entry is None:
            return
        entry = pull.entry
        awaited = any(each.reason is Reason.CONVERSATIONS_UNRESOLVED for each in entry.unmet)
        if isinstance(webhook, webhooks.ConversationWebhook) and not awaited:
            # IMQ reads all conversations again before a decision to merge.
            return
        if not entry.is_ready:
            await self._decide(pull)
            return
        taken = await engine.github.snapshot(repository, number, login=entry.queued_by)
        if taken.permission is None:
            taken = replace(taken, permission=await engine.github.permission(repository, entry.queued_by))
        case = await Case(repository, number).with_policy(engine, entry.base_branch)
        request = EnqueueRequest(case, by=entry.queued_by, head_sha=taken.pull.head_sha)
        _, answer = await judge_request(engine, request, taken, case.policy)
        lost = answer.unmet[0] if isinstance(answer, NotReady) else answer
        if isinstance(lost, Reject | UnmetRequirement):
            decision = ShadowAction(ShadowOutcome.DEQUEUED, engine.clock.now(), lost.reason, lost.detail)
            await self._store(replace(pull, decision=decision, entry=None, due_at=None), pull.decision)

    async def _checked(self, webhook: webhooks.CheckWebhook) -> None:
        """Judge again what a report may decide: a failure, or the last of the pending checks."""
        async with self._engine.store.reading() as tx:
            pulls = await tx.shadow.of_commit(webhook.repository_id, webhook.head_sha)
        passed = webhook if isinstance(webhook, webhooks.CheckOutcome) and webhook.passed else None
        for pull in pulls:
            if pull.landing is not None and pull.landing.sha == webhook.head_sha:
                await self._follow_base(pull)
            elif pull.entry is not None and not pull.entry.is_ready:
                if passed is not None and waits_for_check(pull.entry, passed):
                    await self._decide(pull)
            elif pull.entry is not None:
                pending = set(pull.entry.run.pending_checks)
                if passed is not None and (pending := pending - {passed.check_name}):
                    run = replace(pull.entry.run, pending_checks=tuple(sorted(pending)))
                    await self._store(replace(pull, entry=replace(pull.entry, run=run)), pull.decision)
                else:
                    await self._decide(pull)

    async def _base_moved(self, webhook: webhooks.BranchPush) -> None:
        """Judge again the would-be entries of a branch that moved, and those that a changed configuration concerns."""
        async with self._engine.store.reading() as tx:
            pulls = await tx.shadow.of_branch(webhook.repository_id, webhook.branch)
        for pull in pulls:
            if (entry := pull.entry) is None or webhook.head_sha is None:
                continue
            if not entry.is_ready:
                if webhook.config:
                    await self._decide(pull)
                continue
            updating = entry.status is EntryStatus.UPDATING
            if not updating:
                pull = replace(pull, entry=replace(entry, newer_tip=webhook.head_sha))
            if webhook.config or not updating:
                # One that would be updated anyway costs no request.
                await self._decide(pull, refetch=True)

    async def _decide(self, pull: ShadowPull, *, refetch: bool = False) -> ShadowAction:
        """Decide again about a would-be entry; with `refetch` consent is compared with a fresh read first."""
        engine, entry = self._engine, pull.entry
        assert entry is not None
        policy = await engine.policies.of(pull.repository, entry.base_branch)
        if not entry.is_ready:
            return await self._decided(pull, await judge_waiting(engine, entry), policy)
        entry = replace(
            entry, needs_refetch=refetch or entry.needs_refetch, run=replace(entry.run, next_poll_at=engine.clock.now())
        )
        return await self._decided(pull, await next_decision(engine, entry, policy), policy)

    async def _decided(self, pull: ShadowPull, found: ShadowResult, policy: Policy) -> ShadowAction:
        """Store a decision. A prediction stays as it was; a merge by somebody else is left to its own webhook."""
        decision, entry, due, before = found.decision, found.entry, found.due_at, pull.decision
        if decision.reason is Reason.MERGED_ELSEWHERE:
            return decision
        if before is not None and before.outcome is decision.outcome is ShadowOutcome.UPDATING:
            decision = before
        if decision.outcome.is_open and due is None:
            # Only webhooks change anything; one of them may be lost.
            due = self._engine.clock.now() + (policy.check_poll.maximum if entry.is_ready else UNREPORTED)
        open_entry = entry if decision.outcome.is_open else None
        pull = replace(pull, decision=decision, entry=open_entry, due_at=due)
        await self._store(replace(pull, base_branch=entry.base_branch, head=entry.head), before)
        return decision

    async def _follow_base(self, pull: ShadowPull) -> None:
        """Read what checks say of the landed commit, until they have ended."""
        engine, landing = self._engine, pull.landing
        assert landing is not None
        policy = await engine.policies.of(pull.repository, pull.base_branch)
        if landing.base is BaseState.PENDING and landing.sha:
            landing = await follow_base(engine, pull.repository, pull.base_branch, landing, policy)
        waits = landing.base is BaseState.PENDING and bool(landing.sha)
        due = engine.clock.now() + policy.check_poll.base if waits else None
        await self._store(replace(pull, landing=landing, due_at=due), pull.decision)

    async def _find(self, repository: Repository, number: int) -> ShadowPull | None:
        async with self._engine.store.reading() as tx:
            return await tx.shadow.find(repository.id, number)

    async def _of(self, repository: Repository, pull: PullRequest) -> ShadowPull:
        """Return what is known of a pull request, with its present title, base and head."""
        known = await self._find(repository, pull.number)
        present = ShadowPull(repository, pull.number, pull.title, pull.base_branch, pull.head_sha)
        if known is None:
            return present
        return replace(known, title=pull.title, base_branch=pull.base_branch, head=pull.head_sha)

    async def _store(self, pull: ShadowPull, before: ShadowAction | None) -> None:
        async with self._engine.change() as change:
            await change.tx.shadow.put(pull, change.now)
            if before is not None and before.outcome.is_open and pull.entry is None:
                await judge_others_later(change, pull.repository, pull.number)
        _count_decision(self._engine.meter, before, pull.decision)
        names = {"repository": pull.repository.full_name, "number": pull.number}
        if pull.landing is not None:
            _log.info("shadow_landing", **names, checks=pull.landing.checks.value, tested=pull.landing.tree_tested)
        elif pull.decision is not None:
            reason = pull.decision.reason
            _log.info("shadow_decision", **names, outcome=pull.decision.outcome.value, reason=reason and reason.value)


def _count_decision(meter: Meter, before: ShadowAction | None, decision: ShadowAction | None) -> None:
    """Count a decision in shadow mode, unless it only repeats the one before."""
    if decision is not None and (before is None or _kind(before) != _kind(decision)):
        meter.count("shadow_decisions", outcome=decision.outcome.value)


def _kind(decision: ShadowAction) -> tuple[object, object]:
    return decision.outcome, decision.reason


def _count_landing(meter: Meter, landing: ShadowLanding) -> None:
    """Count a merge by somebody else in shadow mode, and each way in which IMQ would have acted otherwise."""
    meter.count("shadow_merges", judgement="different" if landing.differences else "same")
    for difference in landing.differences:
        meter.count("shadow_differences", difference=difference.value)
