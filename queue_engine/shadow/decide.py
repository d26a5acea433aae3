"""Judge a pull request as a queue would: the eligibility check, then the decisions of a pass, without its effects.

`next_decision` calls `decide` as a pass does, and reads the facts that it asks for. Where a pass would write, it stops
and says what IMQ would have done. Each pull request is judged alone, on its base branch as it is: the merges that IMQ
would have made meanwhile do not exist.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from queue_engine.admission.admit import judged
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.new_entries import record_consent
from queue_engine.admission.required_facts import requirements_of
from queue_engine.admission.stack_place import followed
from queue_engine.config.model import Policy
from queue_engine.domain.facts import CheckReport, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, Queue, Repository, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowAction, ShadowOutcome, ShadowPull
from queue_engine.domain.webhooks import HeadChange
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.reads import read_fact
from queue_engine.planner import actions
from queue_engine.planner.actions import Facts, ReadFact, Step
from queue_engine.planner.decide import decide
from queue_engine.rules.blockers import blockers_of, in_flight
from queue_engine.rules.checks import head_checks
from queue_engine.rules.checks import judge as judge_checks
from queue_engine.rules.consent import (
    HeadConsent,
    HeadFact,
    NewHead,
    UnknownFact,
    behind_others,
    head_branch_of,
    may_bind,
    with_pushed_head,
)
from queue_engine.rules.eligibility import Answer, NotReady, Reject
from queue_engine.rules.priority import precedence_of
from queue_engine.rules.readiness import judge_readiness, wait_ended
from queue_engine.rules.stacks import pull_request_in
from queue_engine.rules.transitions import preempted

_STEPS = 50
"""More steps than any judgement needs."""


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """A decision, the entry after it, and when to decide again unless a webhook comes before."""

    decision: ShadowAction
    entry: Entry
    due_at: datetime | None = None


async def judge_request(
    engine: Engine, request: EnqueueRequest, taken: Snapshot, policy: Policy
) -> tuple[Snapshot, Answer]:
    """Judge whether IMQ would queue the pull request, as for a label. Raises GitHubError."""
    taken, requirements = await requirements_of(engine, request.case.repository, taken, policy)
    answer = judged(request, taken, requirements, policy)
    return taken, await behind_shared_head(engine, request.case.repository, taken, policy, answer)


async def behind_shared_head(
    engine: Engine, repository: Repository, taken: Snapshot, policy: Policy, answer: Answer
) -> Answer:
    """Let a pull request wait while another one of the same branch would be queued for another base branch."""
    branch = head_branch_of(taken.pull)
    async with engine.store.reading() as tx:
        entries = await tx.shadow.would_be_entries(repository.id)
    others = [each for each in entries if each.number != taken.pull.number and each.head_branch == branch]
    return behind_others(others, taken.pull, policy, answer)


def new_entry(
    request: EnqueueRequest,
    taken: Snapshot,
    policy: Policy,
    now: datetime,
    unmet: tuple[UnmetRequirement, ...] = (),
) -> Entry:
    """Return the entry that the pull request would have now, which no queue has."""
    pull, precedence = taken.pull, precedence_of(taken.pull.labels, policy)
    return Entry(
        id="shadow",
        queue_id=0,
        repository=request.case.repository,
        base_branch=pull.base_branch,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        queued_by=request.by or "",
        seq=0,
        position=0,
        status=EntryStatus.PENDING,
        queued_head=pull.head_sha,
        head=pull.head_sha,
        head_proved=True,
        updated_from=None,
        newer_tip=taken.base_tip if taken.behind else None,
        needs_refetch=False,
        enqueued_at=now,
        status_since=now,
        version=1,
        trusted_labels=tuple(sorted(pull.labels)),
        head_branch=head_branch_of(pull),
        unmet=unmet,
        **vars(precedence),
    )


async def next_decision(engine: Engine, entry: Entry, policy: Policy) -> ShadowResult:
    """Decide about a would-be entry until a pass would write or wait. Raises GitHubError.

    No label of IMQ starts the queue-only checks here, so the decision is made without them.
    """
    now, facts, policy = (
        engine.clock.now(),
        Facts(),
        replace(policy, checks=replace(policy.checks, queue_only=frozenset())),
    )
    queue = Queue(entry.queue_id, entry.repository, entry.base_branch, None, 0)
    blocker = next((each for each in blockers_of(queue, policy, now) if not each.exempts(entry)), None)
    if blocker is not None and not entry.needs_refetch and not in_flight(entry):
        return ShadowResult(_waiting(now, blocker.reason, blocker.detail), entry, blocker.until)
    for _ in range(_STEPS):
        action = decide(entry, facts, policy, now)
        if isinstance(action, ReadFact):
            facts = await read_fact(engine.github, entry, action.fact, facts, policy)
        elif isinstance(action, actions.Save):
            entry = action.entry
            if blocker is not None and not in_flight(entry):
                return ShadowResult(_waiting(now, blocker.reason, blocker.detail), entry, blocker.until)
        else:
            return await _stop(engine, entry, action, facts, policy)
    raise AssertionError(f"no decision about pull request {entry.number}")


async def _stop(engine: Engine, entry: Entry, action: Step, facts: Facts, policy: Policy) -> ShadowResult:
    """Say what the action would have done, which ends the judgement."""
    now = engine.clock.now()
    match action:
        case actions.Update(changed):
            if entry.status is EntryStatus.UPDATING:
                # A pass would send the request again; here nobody sent the first.
                return ShadowResult(ShadowAction(ShadowOutcome.UPDATING, now), entry)
            predicted = await _predicted(engine, entry, policy, now)
            return ShadowResult(ShadowAction(ShadowOutcome.UPDATING, now, predicted_at=predicted), changed)
        case actions.Merge(_, method):
            return ShadowResult(ShadowAction(ShadowOutcome.MERGED, now, method=method.value), entry)
        case actions.Dequeue(reason, detail, checks):
            return ShadowResult(ShadowAction(ShadowOutcome.DEQUEUED, now, reason, detail, _names(checks)), entry)
        case actions.Rerun(_, checks):
            return ShadowResult(ShadowAction(ShadowOutcome.RERUNNING, now, checks=_names(checks)), entry)
        case actions.HoldBase(_, check, _):
            return ShadowResult(_waiting(now, Reason.BASE_RED, check.name), entry, now + policy.check_poll.base)
        case actions.Block(_, reason, detail):
            return ShadowResult(_waiting(now, reason, detail), entry, now + policy.permission_retry)
        case actions.Unmet(changed, unmet):
            first, outside = unmet[0], replace(preempted(changed, now), queued_head=changed.head, unmet=unmet)
            return ShadowResult(_waiting(now, first.reason, first.detail or ""), outside)
        case actions.Wait(changed, until, _, _, never) if never is not None:
            return ShadowResult(_waiting(now, Reason.CHECK_NEVER_REPORTED, never), changed, until)
        case actions.Wait(changed, until):
            return ShadowResult(replace(_waiting(now), checks=changed.run.pending_checks), changed, until)
        case _:
            raise AssertionError(f"nobody asked for a merge, and the action is {action}")


async def _predicted(engine: Engine, entry: Entry, policy: Policy, now: datetime) -> datetime | None:
    """Predict when the checks of an update would end: they take as long as those of the present head took."""
    rules = await engine.github.branch_rules(entry.repository, entry.base_branch)
    required = head_checks(rules, policy)
    reports = await engine.github.check_reports(entry.repository, entry.head, required)
    counted = set(judge_checks(required, reports, policy.checks.ignored).completed_names)
    taken = duration_of([report for report in reports if report.name in counted])
    return None if taken is None else now + taken


def duration_of(reports: Sequence[CheckReport]) -> timedelta | None:
    """Return how long checks took, from the first start to the last end; None if no report has both."""
    started = [each.started_at for each in reports if each.started_at is not None]
    ended = [each.completed_at for each in reports if each.completed_at is not None]
    return max(ended) - min(started) if started and ended and max(ended) >= min(started) else None


def _waiting(now: datetime, reason: Reason | None = None, detail: str | None = None) -> ShadowAction:
    return ShadowAction(ShadowOutcome.WAITING, now, reason, detail)


def _names(checks: Sequence[CheckReport]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(check.name for check in checks))


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


async def with_waiting_push(engine: Engine, pull: ShadowPull, webhook: HeadChange, policy: Policy) -> ShadowPull:
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
