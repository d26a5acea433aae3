"""Follow the webhooks about pull requests of a repository in shadow mode, and store what IMQ would have done.

A label makes a would-be entry, which no queue has. It is judged again when a webhook may change the decision, or when
a pass would have polled GitHub, and until it would have left the queue. When somebody else's merge lands a pull
request, with a label or without, IMQ judges that merge. Commands in comments are not judged: IMQ could not answer.
`/unqueue` withdraws what shadow mode dequeued (`queue_engine.handlers.shadow_mode`).
"""

from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.admission.admit import read_request
from queue_engine.admission.bound_heads import find_consent
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.required_facts import withdrawn_approval
from queue_engine.config.model import Policy
from queue_engine.domain import webhooks
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import Consent, PullRequestState, Push, Statement, of_branch, of_pull
from queue_engine.domain.model import EntryStatus, Repository
from queue_engine.domain.policy import PushPolicy, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowAction, ShadowOutcome, ShadowPull
from queue_engine.effects.context import EngineHandler
from queue_engine.rules.consent import NewHead, with_pushed_head, withdrawal
from queue_engine.rules.eligibility import Ignore
from queue_engine.rules.readiness import waits_for_check
from queue_engine.shadow.decide import (
    UNREPORTED,
    ShadowResult,
    judge_answer,
    judge_others_later,
    judge_request,
    judge_waiting,
    ledger_of,
    new_entry,
    next_decision,
)
from queue_engine.shadow.landing import follow_base, judge_landing

_REPEATED = timedelta(minutes=10)
"""For how long a rejected label is not judged again, for the same person and head."""

_SECOND = timedelta(seconds=1)
"""GitHub's times have whole seconds: a change of the second of the decision may have come after it."""

_log = structlog.get_logger("imq.shadow")


class ShadowPulls(EngineHandler):
    """Follows pull requests in shadow mode."""

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
            # The label counts if GitHub proves that it was set on this head.
            await self._request(EnqueueRequest(Case(repository, number), None, None, webhook_is_late=True))
        elif pull.landing is not None:
            await self._follow_base(pull)
        elif (await self._decide(pull, refetch=True)).reason is Reason.MERGED_ELSEWHERE:
            # The webhook of the merge was lost.
            await self._closed(repository, number, by=None)

    async def _labeled(self, webhook: webhooks.LabelRequest) -> None:
        """Judge a trigger label. Another label of an entry that waits may change what holds it.

        The same person's label on a head that was rejected just now is not judged: people may set it all day.
        """
        engine, repository, number = self._engine, webhook.repository, webhook.number
        known, asked = await self._find(repository, number), (webhook.sender, webhook.head_sha)
        if known is not None and known.entry is not None:
            await self._decide(known, refetch=True)
            return
        rejected = known and known.decision and known.decision.outcome is ShadowOutcome.REJECTED and known.decision.at
        if (
            known
            and rejected
            and asked == (known.queued_by, known.head_sha)
            and engine.clock.now() < rejected + _REPEATED
        ):
            return
        triggers = (await engine.policies.of(repository, webhook.branch)).trigger_labels
        if has_label([webhook.label], triggers) and webhook.sender != await engine.github.own_login():
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
        if (asked := await read_request(engine, request)) is None:
            return
        request, taken, answer = await judge_request(engine, *asked)
        if isinstance(answer, Ignore):
            return
        policy, now = request.case.policy, engine.clock.now()
        pull = await self._of(repository, taken.pull)
        pull = replace(pull, enqueued_at=request.labeled_at or request.arrived_at or now, queued_by=request.by)
        entry = new_entry(request, taken, policy, now)
        await self._decided(pull, await judge_answer(engine, entry, request, taken, policy, answer), policy)

    async def _changed(self, webhook: webhooks.PullRequestChange) -> None:
        """Judge again after a push, a removed label, a draft, a changed base or title."""
        engine, repository = self._engine, webhook.repository
        pull = await self._find(repository, webhook.number)
        if pull is None:
            return
        case = Case(repository, pull.number, delivery=webhook.delivery)
        case = await case.with_policy(engine, pull.base_branch)
        if pull.entry is None:
            await self._correct(pull, case.policy)
            return
        if not isinstance(webhook, webhooks.HeadChange):
            await self._decide(pull, refetch=True)
            return
        head = NewHead(webhook.head_sha, webhook.sender, webhook.before, pushes=(), ledger=ledger_of(pull.entry))
        found, _ = await find_consent(
            engine, case, pull.entry, head, None, ConsentKind.BOT_PUSH, ConsentKind.WAITING_PUSH
        )
        if found is ConsentKind.BOT_PUSH:
            # A queue binds the new head, or queues it again: here the would-be entry starts with it.
            await self._request(EnqueueRequest(case, by=pull.queued_by, head_sha=head.sha))
            return
        if found is ConsentKind.WAITING_PUSH:
            pull = replace(pull, entry=with_pushed_head(pull.entry, head.sha))
        left = await self._decide(pull, refetch=True)
        if left.reason is Reason.HEAD_CHANGED and case.policy.on_push.queued is PushPolicy.REQUEUE:
            await self._request(EnqueueRequest(case, by=webhook.sender, head_sha=head.sha))

    async def _correct(self, pull: ShadowPull, policy: Policy) -> None:
        """Take back a decision to merge, if a webhook shows now that consent had ended before: GitHub would refuse.

        A queue's merge request names the head. What was known when the would-be entry joined has been judged then.
        """
        decision = pull.decision
        if decision is None or decision.outcome is not ShadowOutcome.MERGED or pull.landing is not None:
            return
        known = await self._known(pull.repository, of_pull(pull.number))
        joined = max((place for place, one in enumerate(known) if isinstance(one, Consent)), default=-1)
        for state in known[joined + 1 :]:
            if not isinstance(state, PullRequestState) or state.updated_at + _SECOND > decision.at:
                continue
            if pull.enqueued_at is not None and state.updated_at <= pull.enqueued_at:
                continue
            if (reason := withdrawal(state, pull.head_sha, pull.base_branch, policy)) is not None:
                await self._leave(pull, reason)
                return

    async def _leave(self, pull: ShadowPull, reason: Reason, detail: str | None = None) -> None:
        decision = ShadowAction(ShadowOutcome.DEQUEUED, self._engine.clock.now(), reason, detail)
        await self._store(replace(pull, decision=decision, entry=None, due_at=None), pull.decision)

    async def _closed(self, repository: Repository, number: int, *, by: str | None) -> None:
        """Judge a merge by somebody else, or dequeue the would-be entry of a closed pull request."""
        engine = self._engine
        await engine.write(lambda change: judge_others_later(change, repository, number))
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
        engine.meter.count("shadow_merges", judgement="different" if landing.differences else "same")
        for difference in landing.differences:
            engine.meter.count("shadow_differences", difference=difference.value)

    async def _reviewed(self, webhook: webhooks.ReviewWebhook | webhooks.ConversationWebhook) -> None:
        """Dequeue a would-be entry whose approval was withdrawn; judge one again that waits for a review."""
        engine, pull = self._engine, await self._find(webhook.repository, webhook.number)
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
        await engine.policies.of(entry.repository, entry.base_branch)
        rules = await engine.github.branch_rules(entry.repository, entry.base_branch)
        _, missing = await withdrawn_approval(engine, entry, rules)
        if missing is not None:
            await self._leave(pull, *missing)

    async def _checked(self, webhook: webhooks.CheckWebhook) -> None:
        """Judge again what a report may decide: a failure, or the last of the pending checks."""
        pulls = await self._engine.store.read(lambda tx: tx.shadow.of_commit(webhook.repository_id, webhook.head_sha))
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
        pulls = await self._engine.store.read(lambda tx: tx.shadow.of_branch(webhook.repository_id, webhook.branch))
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
        await self._store(replace(pull, base_branch=entry.base_branch, head_sha=entry.head_sha), before)
        return decision

    async def _follow_base(self, pull: ShadowPull) -> None:
        """Read what checks say of the landed commit, until they have ended."""
        engine, landing = self._engine, pull.landing
        assert landing is not None
        policy = await engine.policies.of(pull.repository, pull.base_branch)
        if landing.base is BaseState.PENDING and landing.sha:
            # The webhook of the push names the former tip, if it came.
            pushed = await self._known(pull.repository, of_branch(pull.base_branch))
            tips = [one.before for one in pushed if isinstance(one, Push) and one.after == landing.sha]
            landing = replace(landing, before=next((each for each in tips if each), landing.before))
            landing = await follow_base(engine, pull.repository, pull.base_branch, landing, policy)
        waits = landing.base is BaseState.PENDING and bool(landing.sha)
        due = engine.clock.now() + policy.check_poll.base if waits else None
        await self._store(replace(pull, landing=landing, due_at=due), pull.decision)

    async def _find(self, repository: Repository, number: int) -> ShadowPull | None:
        return await self._engine.store.read(lambda tx: tx.shadow.find(repository.id, number))

    async def _of(self, repository: Repository, pull: PullRequest) -> ShadowPull:
        """Return what is known of a pull request, with its present title, base and head."""
        known = await self._find(repository, pull.number)
        present = ShadowPull(repository, pull.number, pull.title, pull.base_branch, pull.head_sha)
        if known is None:
            return present
        return replace(known, title=pull.title, base_branch=pull.base_branch, head_sha=pull.head_sha)

    async def _known(self, repository: Repository, subject: str) -> list[Statement]:
        """Return what webhooks stated about a subject lately."""
        now = self._engine.clock.now()
        found = await self._engine.store.read(lambda tx: tx.known.lately(repository.id, subject, now))
        return [one.statement for one in found]

    async def _store(self, pull: ShadowPull, before: ShadowAction | None) -> None:
        """Store a pull request; count its decision, unless that only repeats the one before."""
        decision, landing = pull.decision, pull.landing
        async with self._engine.change() as change:
            await change.tx.shadow.put(pull, change.now)
            if before is not None and before.outcome.is_open and pull.entry is None:
                await judge_others_later(change, pull.repository, pull.number)
        repeats = before and decision and (before.outcome, before.reason) == (decision.outcome, decision.reason)
        if decision is not None and not repeats:
            self._engine.meter.count("shadow_decisions", outcome=decision.outcome.value)
        names = {"repository": pull.repository.full_name, "number": pull.number}
        if landing is not None:
            _log.info("shadow_landing", **names, checks=landing.checks.value, tested=landing.tree_tested)
        elif decision is not None:
            _log.info("shadow_decision", **names, outcome=decision.outcome.value, reason=decision.reason)
