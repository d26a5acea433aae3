"""Judge a would-be entry that is not ready: it would wait outside the queue for what its pull request lacks."""

from dataclasses import replace
from datetime import datetime

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.entries import record_consent
from queue_engine.admission.required_facts import requirements_of
from queue_engine.domain.facts import Snapshot
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.shadow import ShadowAction, ShadowOutcome
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import Answer, NotReady, Reject
from queue_engine.rules.readiness import judge_readiness, wait_ended
from queue_engine.shadow.decide import ShadowResult, new_entry, next_decision


def outside_queue(entry: Entry, now: datetime) -> ShadowResult:
    """Say what a would-be entry lacks, so that it would wait outside the queue."""
    first = entry.unmet[0]
    return ShadowResult(ShadowAction(ShadowOutcome.WAITING, now, first.reason, first.detail), entry)


async def judge_waiting(engine: Engine, entry: Entry, policy: Policy) -> ShadowResult:
    """Judge again whether the entry would join its queue, and then what IMQ would do. Raises GitHubError."""
    repository, number = entry.repository, entry.number
    taken = await engine.github.snapshot(repository, number, login=entry.queued_by, head_sha=entry.head)
    if taken.permission is None:
        taken = replace(taken, permission=await engine.github.permission(repository, entry.queued_by))
    answer, now = await _answer(engine, entry, taken, policy), engine.clock.now()
    match answer:
        case NotReady(unmet):
            return outside_queue(replace(entry, unmet=unmet), now)
        case Reject(reason, detail):
            return ShadowResult(ShadowAction(ShadowOutcome.REJECTED, now, reason, detail), entry)
    request = EnqueueRequest(Case(repository, number), by=entry.queued_by, head_sha=entry.head)
    async with engine.change() as change:
        await record_consent(change, request, taken.pull)
    return await next_decision(engine, new_entry(request, taken, policy, now), policy)


async def _answer(engine: Engine, entry: Entry, taken: Snapshot, policy: Policy) -> Answer:
    if (ended := wait_ended(entry, taken.pull, policy, engine.clock.now())) is not None:
        return ended
    taken, requirements = await requirements_of(engine, entry.repository, taken, policy, is_waiting=True)
    return judge_readiness(entry, taken, requirements, policy)
