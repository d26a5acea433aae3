"""Judge a pull request as a queue would: by the rules of admission, then by the decisions and requests of a pass.

The port refuses every write. So the first request that would change GitHub ends the judgement, and names what IMQ would
have done. Each pull request is judged alone, on its base branch as it is: the merges that IMQ would have made meanwhile
do not exist.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from queue_engine.admission.admit import behind_shared_head, judged, with_requirements
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.new_entries import record_consent
from queue_engine.admission.required_facts import readiness_of
from queue_engine.admission.stack_place import followed
from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import OWNER
from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.errors import WriteRefused
from queue_engine.domain.facts import CheckReport, Snapshot
from queue_engine.domain.model import Entry, EntryStatus, Queue, Repository
from queue_engine.domain.port import Comments, Reads, Writes
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowAction, ShadowOutcome
from queue_engine.effects.context import Change, Engine
from queue_engine.executor import requests
from queue_engine.executor.reads import read_fact
from queue_engine.known.own_writes import Forwarding
from queue_engine.planner import actions
from queue_engine.planner.actions import Facts, ReadFact
from queue_engine.planner.decide import decide
from queue_engine.rules.blockers import blockers_of, in_flight
from queue_engine.rules.checks import head_checks, names_of
from queue_engine.rules.checks import judge as judge_checks
from queue_engine.rules.consent import head_branch_of
from queue_engine.rules.eligibility import Answer, NotReady, Reject
from queue_engine.rules.priority import precedence_of
from queue_engine.rules.readiness import wait_ended
from queue_engine.rules.stacks import pull_request_in
from queue_engine.rules.transitions import preempted

SHADOW_JOB = "shadow"
"""Kind of the job that judges a pull request again. It has the same process id as the webhooks of its pull request."""

UNREPORTED = timedelta(days=1)
"""When a would-be entry outside its queue is judged again although no webhook says that its pull request changed."""

_STEPS = 50
"""More steps than any judgement needs."""

_WOULD = {
    "update_branch": ShadowOutcome.UPDATING,
    "merge": ShadowOutcome.MERGED,
    "merge_in_background": ShadowOutcome.MERGED,
    "rerun": ShadowOutcome.RERUNNING,
}
"""What IMQ would have done, by the write that the port refused."""


class ReadOnly(Forwarding):
    """GitHub without the half of its ports that writes: a write raises WriteRefused, and nothing is sent."""


def _refused(what: str) -> Callable[..., Any]:
    async def refuse(*_: object, **__: object) -> NoReturn:
        raise WriteRefused(what)

    return refuse


for _port in (Writes, Comments):
    for _name in vars(_port):
        if not _name.startswith("_") and not hasattr(Reads, _name):
            setattr(ReadOnly, _name, _refused(_name))


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """A decision, the entry after it, and when to decide again unless a webhook comes before."""

    decision: ShadowAction
    entry: Entry
    due_at: datetime | None = None


async def judge_request(
    engine: Engine, request: EnqueueRequest, taken: Snapshot
) -> tuple[EnqueueRequest, Snapshot, Answer]:
    """Judge whether IMQ would queue the pull request, as for a label. Raises GitHubError."""
    request, taken, requirements = await with_requirements(engine, request, taken)
    answer = judged(request, taken, requirements, request.case.policy)
    return request, taken, await _behind_others(engine, taken, request.case, answer)


async def _behind_others(engine: Engine, taken: Snapshot, case: Case, answer: Answer) -> Answer:
    """Let a pull request wait while another one of the same branch would be queued for another base branch."""
    async with engine.store.reading() as tx:
        found = await behind_shared_head(tx.shadow, case.repository, taken.pull, case.policy, answer)
    assert not isinstance(found, Entry)
    return found


def new_entry(request: EnqueueRequest, taken: Snapshot, policy: Policy, now: datetime) -> Entry:
    """Return the entry that the pull request would have now, which no queue has."""
    pull = taken.pull
    return Entry(
        id="shadow",
        queue_id=0,
        repository=request.case.repository,
        base_branch=pull.base_branch,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        queued_by=request.by or "",
        queued_head=pull.head_sha,
        head_sha=pull.head_sha,
        newer_tip=taken.base_tip if taken.behind else None,
        enqueued_at=now,
        status_since=now,
        trusted_labels=tuple(sorted(pull.labels)),
        head_branch=head_branch_of(pull),
        **vars(precedence_of(pull.labels, policy)),
    )


def ledger_of(entry: Entry) -> tuple[HeadConsent, ...]:
    """Return the consents of a would-be entry, which the ledger lacks."""
    consent = HeadConsent(entry.queued_head, entry.base_branch, entry.queued_by, entry.enqueued_at, ConsentKind.LABEL)
    return consent, replace(consent, head_sha=entry.head_sha)


async def next_decision(engine: Engine, entry: Entry, policy: Policy) -> ShadowResult:
    """Take the steps of a pass with a would-be entry, until the pass would write or wait. Raises GitHubError.

    No label of IMQ starts the queue-only checks here, so the decision is made without them.
    """
    now, facts = engine.clock.now(), Facts(ledger=ledger_of(entry))
    policy = replace(policy, checks=replace(policy.checks, queue_only=frozenset()))
    queue = Queue(entry.queue_id, entry.repository, entry.base_branch, None, 0)
    blocker = next((each for each in blockers_of(queue, policy, now) if not each.exempts(entry)), None)
    for _ in range(_STEPS):
        if blocker is not None and not entry.needs_refetch and not in_flight(entry):
            return ShadowResult(_waiting(now, blocker.reason, blocker.detail), entry, blocker.until)
        action = decide(entry, facts, policy, now)
        try:
            match action:
                case ReadFact(fact):
                    facts = await read_fact(engine.github, entry, fact, facts, policy)
                case actions.Save(changed):
                    entry = changed
                case actions.Update(changed):
                    facts = await requests.update(engine.github, changed, now)
                case actions.Merge():
                    await requests.merge(engine.github, action.entry, action, facts.refused_methods, now)
                case actions.Rerun(run, failed):
                    await requests.rerun(engine.github, entry.repository, run, failed, now)
                case _:
                    return _ended(entry, action, policy, now)
        except WriteRefused as refused:
            return await _would_have(engine, refused, entry, action, policy)
    raise AssertionError(f"no decision about pull request {entry.number}")


async def _would_have(
    engine: Engine, refused: WriteRefused, entry: Entry, action: actions.Action, policy: Policy
) -> ShadowResult:
    """Say what the refused write would have done."""
    decision = ShadowAction(_WOULD[refused.what], engine.clock.now())
    match action:
        case actions.Update(changed) if entry.status is not EntryStatus.UPDATING:
            # Later a pass would send the request again; here nobody sent the first.
            entry, decision = changed, replace(decision, predicted_at=await _predicted(engine, entry, policy))
        case actions.Merge(_, method):
            decision = replace(decision, method=method.value)
        case actions.Rerun(_, failed):
            decision = replace(decision, checks=names_of(failed))
    return ShadowResult(decision, entry)


def _ended(entry: Entry, action: actions.Step, policy: Policy, now: datetime) -> ShadowResult:
    """Say why a pass would wait, or why the entry would leave its queue."""
    match action:
        case actions.Dequeue(reason, detail, checks):
            return ShadowResult(ShadowAction(ShadowOutcome.DEQUEUED, now, reason, detail, names_of(checks)), entry)
        case actions.HoldBase(_, check, _):
            return ShadowResult(_waiting(now, Reason.BASE_RED, check.name), entry, now + policy.check_poll.base)
        case actions.RefusedJobs(detail):
            return ShadowResult(_waiting(now, Reason.GITHUB_REFUSES, detail), entry, now + OWNER.base)
        case actions.Block(_, reason, detail):
            return ShadowResult(_waiting(now, reason, detail), entry, now + policy.permission_retry)
        case actions.Unmet(changed, unmet):
            first, outside = unmet[0], replace(preempted(changed, now), queued_head=changed.head_sha, unmet=unmet)
            return ShadowResult(_waiting(now, first.reason, first.detail or ""), outside)
        case actions.Wait(run, until, never=never) if never is not None:
            return ShadowResult(_waiting(now, Reason.CHECK_NEVER_REPORTED, never), replace(entry, run=run), until)
        case actions.Wait(run, until):
            return ShadowResult(replace(_waiting(now), checks=run.pending_checks), replace(entry, run=run), until)
        case _:
            raise AssertionError(f"nobody asked for a merge, and the action is {action}")


async def _predicted(engine: Engine, entry: Entry, policy: Policy) -> datetime | None:
    """Predict when the checks of an update would end: they take as long as those of the present head took."""
    rules = await engine.github.branch_rules(entry.repository, entry.base_branch)
    required = head_checks(rules, policy)
    reports = await engine.github.check_reports(entry.repository, entry.head_sha, required)
    counted = set(judge_checks(required, reports, policy.checks.ignored).completed_names)
    taken = duration_of([report for report in reports if report.name in counted])
    return None if taken is None else engine.clock.now() + taken


def duration_of(reports: Sequence[CheckReport]) -> timedelta | None:
    """Return how long checks took, from the first start to the last end; None if no report has both."""
    started = [each.started_at for each in reports if each.started_at is not None]
    ended = [each.completed_at for each in reports if each.completed_at is not None]
    return max(ended) - min(started) if started and ended and max(ended) >= min(started) else None


def _waiting(now: datetime, reason: Reason | None = None, detail: str | None = None) -> ShadowAction:
    return ShadowAction(ShadowOutcome.WAITING, now, reason, detail)


async def judge_answer(
    engine: Engine, entry: Entry, request: EnqueueRequest, taken: Snapshot, policy: Policy, answer: Answer
) -> ShadowResult:
    """Say what follows a check of eligibility, of an `entry` that is rejected or waits. Raises GitHubError."""
    now = engine.clock.now()
    match answer:
        case Reject(reason, detail):
            return ShadowResult(ShadowAction(ShadowOutcome.REJECTED, now, reason, detail), entry)
        case NotReady(unmet):
            checks = tuple(each.check for each in unmet[0].failing)
            waiting = ShadowAction(ShadowOutcome.WAITING, now, unmet[0].reason, unmet[0].detail, checks)
            return ShadowResult(waiting, replace(entry, unmet=unmet))
    await engine.write(lambda change: record_consent(change, request, taken.pull))
    return await next_decision(engine, new_entry(request, taken, policy, now), policy)


async def judge_waiting(engine: Engine, entry: Entry) -> ShadowResult:
    """Judge again whether the entry would join its queue, and then what IMQ would do. Raises GitHubError.

    An entry that waits for the pull request below it in a stack may have another base branch afterwards.
    """
    repository, number = entry.repository, entry.number
    taken = await engine.github.snapshot(repository, number, login=entry.queued_by, head_sha=entry.head_sha)
    found = await followed(engine, entry, taken)
    request = EnqueueRequest(Case(repository, number), by=entry.queued_by, head_sha=entry.head_sha)
    policy = await engine.policies.of(repository, entry.base_branch)
    if isinstance(found, Reject):
        return await judge_answer(engine, entry, request, taken, policy, found)
    entry, taken = found
    case = await request.case.with_policy(engine, entry.base_branch)
    answer: Answer | None = wait_ended(entry, taken.pull, case.policy, engine.clock.now())
    if answer is None:
        taken, _, answer = await readiness_of(engine, entry, entry, taken, case.policy)
        answer = await _behind_others(engine, taken, case, answer)
    return await judge_answer(engine, entry, request, taken, case.policy, answer)


async def judge_later(change: Change, repository: Repository, number: int) -> None:
    """Enqueue the job that judges a pull request again."""
    await change.tx.jobs.enqueue(
        once=True,
        kind=SHADOW_JOB,
        request={"repository": asdict(repository), "number": number},
        process_id=f"{repository.id}:{number}",
        now=change.now,
    )


async def judge_others_later(change: Change, repository: Repository, number: int) -> None:
    """Have the pull requests judged again that would wait for this one, which landed or would have left its queue."""
    for entry in await change.tx.shadow.would_be_entries(repository.id):
        if any(pull_request_in(each.detail) == number for each in entry.unmet):
            await judge_later(change, repository, entry.number)
