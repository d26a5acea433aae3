"""P4: bind the new head of a queued pull request, if one of the sources in `queue_engine.rules.consent` consents.

The webhook of a push names the pusher, and the head that the push replaced. Where that is no known head, the webhook of
an earlier push is lost or late. Then, and without any webhook, GitHub's activity of the branch names all pushers.

While an entry waits, a named bot's webhook alone binds the new head: GitHub signed it, and nothing lands before a pass
reads the pull request and its checks. So a bot that rebases fifty pull requests after each landing costs no request,
and the entries keep their positions. A push to an entry whose run has begun costs that run: it is queued again at the
end.
"""

from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import NotReadyPushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.known.own_writes import updated_by_imq
from queue_engine.rules.consent import (
    HeadFact,
    NewHead,
    UnknownFact,
    consent_lost,
    keeps_position,
    may_bind,
    may_lack_update,
    most_active,
    updated_for,
    with_lost_update,
    with_pushed_head,
    with_shared_update,
)
from queue_engine.rules.eligibility import Reject, may_queue
from queue_engine.rules.readiness import wait_ended

_log = structlog.get_logger("imq.new_heads")

_SETTLED = timedelta(minutes=1)
"""How long GitHub may show a push without naming the pusher."""


async def bind_known_push(engine: Engine, case: Case, head: NewHead) -> bool:
    """Handle by its webhook alone a push of a named bot that rebased, or of IMQ for another pull request."""
    entry = case.entry
    if entry is None:
        return False
    async with engine.change() as change:
        present, ledger = await change.tx.entries.get(entry.id), await change.tx.consents.of(entry)
        head = replace(head, ledger=ledger)
        if (
            present is not None
            and keeps_position(present, head.before, ledger)
            and may_bind(head, present, case.policy, ConsentKind.BOT_PUSH) is ConsentKind.BOT_PUSH
        ):
            saved = await change.tx.entries.save(with_pushed_head(present, head.sha))
            await change.tx.consents.add(saved, ConsentKind.BOT_PUSH, head.by, change.now)
            data = {"by": head.by, "before": head.before, "head": head.sha}
            await change.record("rebased", saved, delivery=case.delivery, data=data)
            await change.tx.queues.wake(entry.queue_id, change.now)
            return True
    if not head.by_imq or head.before != entry.head_sha:
        return False
    return await follow_shared_update(engine, case, head.sha, by_imq=True) is not None


async def follow_shared_update(engine: Engine, case: Case, sha: str, *, by_imq: bool) -> Case | None:
    """Bind a new head that IMQ made for another pull request, or dequeue the entry; returns the case as it is then.

    None if IMQ did not make it, as far as webhook or activity (`by_imq`) and stored entries show. `case` has its
    policy. Raises GitHubError, and StaleRecord if the entry changed meanwhile.
    """
    entry = case.entry
    if entry is None or entry.head_branch is None or entry.run.merge_requested_at is not None:
        return None
    async with engine.store.reading() as tx:
        others = await tx.entries.sharing(entry.repository.id, entry.number, entry.head_branch)
    head = NewHead(sha, by_imq=by_imq, others=others)
    found, head = await find_consent(engine, case, entry, head, None, ConsentKind.SHARED_UPDATE)
    if found is None:
        return None
    async with engine.change() as change:
        if isinstance(found, Reject):
            why = DequeueReason(found.reason, found.detail, delivery=case.delivery)
            await record.dequeue(change, entry, why, case.policy)
            saved = None
        else:
            saved = await change.tx.entries.save(with_shared_update(entry, sha, change.now))
            await change.tx.consents.add(saved, ConsentKind.SHARED_UPDATE, None, change.now)
            other = updated_for(entry, sha, others) or most_active(others)
            data = {"head": sha, "before": entry.head_sha, "for": None if other is None else other.number}
            await change.record("shared_update", saved, delivery=case.delivery, data=data)
            await change.tx.queues.wake(entry.queue_id, change.now)
    event = "dequeued" if saved is None else "shared_update"
    _log.info(event, repository=case.repository.full_name, number=case.number, head_sha=sha)
    return replace(case, entry=saved)


async def bind_lost_update(engine: Engine, case: Case, entry: Entry, sha: str) -> Case | None:
    """Bind IMQ's own update, which a restored database does not know; None if it is none. Raises StaleRecord."""
    if not may_lack_update(entry) or not await updated_by_imq(engine.github, entry, sha):
        return None
    async with engine.change() as change:
        saved = await change.tx.entries.save(with_lost_update(entry, sha, change.now))
        await change.tx.consents.follow(entry, saved, change.now)
        await change.tx.queues.wake(entry.queue_id, change.now)
    return replace(case, entry=saved)


async def bind_waiting_push(
    engine: Engine, case: Case, entry: Entry, pull: PullRequest, head: NewHead | None
) -> Entry | Reject | Case | None:
    """Return the entry with the new head that `pull` shows, or why its wait ends; None: another event decides that.

    The case, if IMQ alone pushed: its update for another pull request of the branch was bound, or has ended the wait.

    `head` is that of a webhook. `case` has its policy. Raises GitHubError and StaleRecord.
    """
    policy, now = case.policy, engine.clock.now()
    if policy.on_push.waiting is not NotReadyPushPolicy.BIND:
        return Reject(Reason.HEAD_CHANGED)
    if (ended := wait_ended(with_pushed_head(entry, pull.head_sha), pull, policy, now)) is not None:
        return ended
    if head is None or head.before != entry.head_sha:
        head = NewHead(pull.head_sha, pushes=await engine.github.head_pushes(case.repository, pull))
    pushers = head.pushers({entry.head_sha})
    if not isinstance(pushers, tuple):
        is_new = not head.pushes or head.pushes[0].after != head.sha
        is_settled = pull.updated_at is None or now >= pull.updated_at + _SETTLED
        return Reject(Reason.HEAD_CHANGED) if is_settled or not is_new else None
    if pushers == (await engine.github.own_login(),):
        return await follow_shared_update(engine, case, pull.head_sha, by_imq=True)
    found, head = await find_consent(engine, case, entry, head, pull, ConsentKind.WAITING_PUSH)
    if found is not ConsentKind.WAITING_PUSH:
        return found if isinstance(found, Reject) else Reject(Reason.HEAD_CHANGED)
    async with engine.change() as change:
        saved = await change.tx.entries.save(with_pushed_head(entry, head.sha))
        await change.tx.consents.add(saved, ConsentKind.WAITING_PUSH, pushers[0], change.now)
        data = {"by": pushers[0], "before": entry.head_sha, "head": head.sha}
        await change.record("new_head", saved, delivery=case.delivery, data=data)
    return saved if head.sha == pull.head_sha else None


async def requeue_new_head(engine: Engine, case: Case, entry: Entry, pull: PullRequest, head: NewHead) -> Case | None:
    """Queue the pull request again with this new head; None if more is lost, or a newer head decides."""
    policy = case.policy
    sources: tuple[ConsentKind, ...] = (ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH)
    if entry.run.merge_requested_at is not None or may_bind(head, entry, policy, *sources) is None:
        return None
    # Compare the queued head with the pushed one, also while an update is under way.
    if consent_lost(replace(entry, run=entry.run.ended()), pull, policy) != Reject(Reason.HEAD_CHANGED):
        return None
    if pull.head_sha != head.sha:
        return case
    if entry.status is EntryStatus.UPDATING:
        sources = (ConsentKind.OWN_UPDATE, *sources)
    found, head = await find_consent(engine, case, entry, head, pull, *sources)
    if found not in (ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH):
        return None
    # The consent to a bot's pull request remains that of the person who gave it.
    by = entry.queued_by if found is ConsentKind.BOT_PUSH else head.by or ""
    permission = head.permissions.get(by) or await engine.github.permission(case.repository, by)
    if may_queue(policy, by, permission) is not None:
        return None
    request = EnqueueRequest(case, by, pull.head_sha, source=found, leaves_for=Reason.HEAD_CHANGED)
    answer = await admit(engine, request, Snapshot(pull, permission))
    return replace(case, entry=answer if isinstance(answer, Entry) else None)


async def find_consent(
    engine: Engine, case: Case, entry: Entry, head: NewHead, pull: PullRequest | None, *sources: ConsentKind
) -> tuple[ConsentKind | Reject | None, NewHead]:
    """Ask whether one of these sources consents, and read what the answer needs. Raises GitHubError."""
    github, repository, base = engine.github, case.repository, entry.base_branch
    while isinstance(found := may_bind(head, entry, case.policy, *sources), UnknownFact):
        match found.fact:
            case HeadFact.COMPARISON:
                head = replace(head, compared=await github.comparison(repository, base, head.sha))
            case HeadFact.LEDGER:
                async with engine.store.reading() as tx:
                    head = replace(head, ledger=await tx.consents.of(entry))
            case HeadFact.TIP:
                head = replace(head, tip_landed=(await github.comparison(repository, base, found.of)).head_landed)
            case HeadFact.PERMISSION:
                permission = await github.permission(repository, found.of)
                head = replace(head, permissions={**head.permissions, found.of: permission})
            case HeadFact.PUSHES:
                assert pull is not None
                head = replace(head, pushes=await github.head_pushes(repository, pull))
    return found, head
