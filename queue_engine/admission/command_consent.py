"""P4: find the head and base branch that a command consents to. GitHub does not name them.

A command consents to the head that stood there when it was typed. GitHub's times have whole seconds, and deliveries
come in any order: a push of the same second, or one that IMQ was told of after the command, may be newer than it. Then
the command consents to nothing, and what it queued already is dequeued when the push is told. The same holds for a
changed base branch: the author of a pull request may change it without any right on the repository.
"""

from collections.abc import Iterable
from datetime import datetime

import structlog

from queue_engine.admission.case import Case
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.known_facts import KEPT, CommandConsent, Fact, Known, PullRequestState, of_pull
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhook_event import WebhookEvent
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.command_consent")

DETAIL = "commits were pushed in the same second as the command, or after it"


_DETAILS = {
    Reason.HEAD_CHANGED: DETAIL,
    Reason.BASE_CHANGED: "the base branch was changed in the same second as the command, or after it",
}


def changed_since(known: Iterable[Known], head_sha: str, commanded_at: datetime) -> Reason | None:
    """The push to this head, or the change of the base branch, that may be newer than the command; or that the pull
    request was closed, or a draft, after it."""
    for one in known:
        state = one.told
        if not isinstance(state, PullRequestState) or max(state.updated_at, one.at) < commanded_at:
            continue
        if state.base_changed:
            return Reason.BASE_CHANGED
        if state.before is not None and state.head == head_sha:
            return Reason.HEAD_CHANGED
        if state.updated_at > commanded_at and not state.merged and (state.draft or not state.open):
            return Reason.DRAFT if state.open else Reason.CLOSED
    return None


async def consents(engine: Engine, repository: Repository, number: int, head_sha: str, commanded_at: datetime) -> bool:
    """Whether a command of that time consents to this head, by the pushes that are known; if so, that is kept."""
    async with engine.change() as change:
        if changed_since(await _known(change.tx, repository, number, change.now), head_sha, commanded_at) is not None:
            return False
        consent = Fact(subject=of_pull(number), told=CommandConsent(head=head_sha, at=commanded_at))
        await change.tx.known.record(repository.id, [consent], change.now)
    return True


async def overtaken(engine: Engine, case: Case, webhook: WebhookEvent) -> bool:
    """Whether a command has queued a head or base branch although its push or change may be newer.

    Then the pull request is dequeued, and people read why.
    """
    repository, number, entry = case.repository, case.number, case.entry
    if entry is None or entry.run.merge_requested_at is not None:
        return False
    async with engine.store.reading() as tx:
        known = await _known(tx, repository, number, engine.clock.now())
    head = webhook.head_sha or entry.queued_head
    commands = [one.told for one in known if isinstance(one.told, CommandConsent) and one.told.head == head]
    reason = next(filter(None, (changed_since(known, head, command.at) for command in commands)), None)
    if reason is None or head != entry.queued_head:
        return False
    await _dequeue(engine, await case.with_policy(engine, entry.base_branch), entry, reason)
    return True


async def _dequeue(engine: Engine, case: Case, entry: Entry, reason: Reason) -> None:
    async with engine.change() as change:
        why = DequeueReason(reason, _DETAILS.get(reason), people=(entry.author,), delivery=case.delivery)
        await record.dequeue(change, entry, why, case.policy)
    _log.info("left", repository=entry.repository.full_name, number=entry.number, reason=reason.value)


async def _known(tx: Transaction, repository: Repository, number: int, now: datetime) -> list[Known]:
    subject = of_pull(number)
    return (await tx.known.about(repository.id, [subject], since=now - KEPT)).get(subject, [])
