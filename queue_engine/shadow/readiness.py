"""Judge a would-be entry that is not ready: it would wait outside the queue for what its pull request lacks."""

from dataclasses import asdict, replace
from datetime import datetime, timedelta

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.entries import record_consent
from queue_engine.admission.required_facts import requirements_of
from queue_engine.admission.stacks import followed
from queue_engine.config.model import Policy
from queue_engine.domain.facts import Snapshot
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.shadow import ShadowAction, ShadowOutcome, ShadowPull
from queue_engine.domain.webhooks import HeadPushed
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.eligibility import Answer, NotReady, Reject
from queue_engine.rules.new_heads import HeadConsent, HeadFact, NewHead, UnknownFact, may_bind, with_pushed_head
from queue_engine.rules.readiness import judge_readiness, wait_ended
from queue_engine.rules.stacks import pull_request_in
from queue_engine.shadow.decide import ShadowResult, behind_shared_head, new_entry, next_decision

SHADOW_JOB = "shadow"
"""Kind of the job that judges a pull request again. It has the same process id as the webhooks of its pull request."""

UNREPORTED = timedelta(days=1)
"""When a would-be entry outside its queue is judged again although no webhook says that its pull request changed."""


def outside_queue(entry: Entry, now: datetime) -> ShadowResult:
    """Say what a would-be entry lacks, so that it would wait outside the queue."""
    first = entry.unmet[0]
    checks = tuple(each.check for each in first.failing)
    return ShadowResult(ShadowAction(ShadowOutcome.WAITING, now, first.reason, first.detail, checks), entry)


async def judge_waiting(engine: Engine, entry: Entry) -> ShadowResult:
    """Judge again whether the entry would join its queue, and then what IMQ would do. Raises GitHubError.

    An entry that waits for the pull request below it in a stack may have another base branch afterwards.
    """
    repository, number = entry.repository, entry.number
    taken = await engine.github.snapshot(repository, number, login=entry.queued_by, head_sha=entry.head)
    if taken.permission is None:
        taken = replace(taken, permission=await engine.github.permission(repository, entry.queued_by))
    found, now = await followed(engine, entry, taken), engine.clock.now()
    if isinstance(found, Reject):
        return ShadowResult(ShadowAction(ShadowOutcome.REJECTED, now, found.reason, found.detail), entry)
    entry, taken = found
    policy = await engine.policies.of(repository, entry.base_branch)
    match await _answer(engine, entry, taken, policy):
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
    taken, requirements = await requirements_of(engine, entry.repository, taken, policy, waiting=entry)
    answer = judge_readiness(entry, taken, requirements, policy)
    return await behind_shared_head(engine, entry.repository, taken, policy, answer)


async def with_waiting_push(engine: Engine, pull: ShadowPull, webhook: HeadPushed, policy: Policy) -> ShadowPull:
    """Bind a head that somebody pushed who may queue, while the pull request waits outside the queue."""
    entry, head = pull.entry, NewHead(webhook.head_sha, webhook.sender, webhook.before)
    if entry is None:
        return pull
    found = may_bind(head, entry, policy, HeadConsent.WAITING_PUSH)
    if isinstance(found, UnknownFact) and found.fact is HeadFact.PERMISSION:
        head = replace(head, permissions={found.of: await engine.github.permission(pull.repository, found.of)})
        found = may_bind(head, entry, policy, HeadConsent.WAITING_PUSH)
    return replace(pull, entry=with_pushed_head(entry, head.sha)) if found is HeadConsent.WAITING_PUSH else pull


async def judge_later(change: Change, repository: Repository, number: int) -> None:
    """Enqueue the job that judges a pull request again."""
    await change.tx.jobs.enqueue_once(
        kind=SHADOW_JOB,
        request={"repository": asdict(repository), "number": number},
        process_id=f"{repository.id}:{number}",
        now=change.now,
    )


async def judge_others(engine: Engine, repository: Repository, number: int) -> None:
    """Do `judge_others_later` at once, since a webhook says that the pull request is closed."""
    async with engine.change() as change:
        await judge_others_later(change, repository, number)


async def judge_others_later(change: Change, repository: Repository, number: int) -> None:
    """Have the pull requests judged again that would wait for this one, which landed or would have left its queue."""
    for entry in await change.tx.shadow.would_be_entries(repository.id):
        if any(pull_request_in(each.detail) == number for each in entry.unmet):
            await judge_later(change, repository, entry.number)
