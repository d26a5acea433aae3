"""Admit pull requests: read the facts, check the eligibility, and store the result."""

from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from queue_engine.admission.case import EnqueueRequest
from queue_engine.admission.head_consent import await_webhook, consenting_person, last_departure
from queue_engine.admission.new_entries import record_consent, store_entry
from queue_engine.admission.rejection import RejectionHistory, announce_ignored, refuse, rejection_history
from queue_engine.admission.required_facts import requirements_of
from queue_engine.admission.required_landings import in_landing_order
from queue_engine.admission.stack_place import placed
from queue_engine.admission.throttle import count_label, count_label_gone
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.slots import SlotsBusy
from queue_engine.domain.departure import DequeueReason, is_withdrawn
from queue_engine.domain.facts import LabelEvent, Permission, PullRequest, Snapshot
from queue_engine.domain.known_facts import OwnLabel, PullRequestState, of_pull
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.policy import Mode, has_label
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import LabelStates, label_states
from queue_engine.rules.consent import behind_others, head_branch_of, withdrawn_since_label
from queue_engine.rules.depth import waits_for_room
from queue_engine.rules.eligibility import (
    UNKNOWN_HEAD,
    Admit,
    Answer,
    Consent,
    Ignore,
    NotReady,
    Reject,
    RequiredFacts,
    check_eligibility,
)
from queue_engine.rules.priority import precedence_of, trusted_of
from queue_engine.store.entries import Entries
from queue_engine.store.known import stale_comments
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.shadow_pulls import Shadow

_log = structlog.get_logger("imq.admission")

_COMES_WITHIN = timedelta(seconds=30)
"""How long a webhook may take. Labels count from when their webhooks come; one without counts as if it took so long."""

Admission = Entry | Answer
"""The result of an enqueue request: the queued entry, or the answer of the eligibility check."""


async def handle_enqueue_request(engine: Engine, request: EnqueueRequest) -> None:
    """Check the eligibility of a pull request that is not queued, and store the answer. Raises as `admit` does."""
    repository, number = request.case.repository, request.case.number
    async with engine.store.reading() as tx:
        before = await rejection_history(tx, repository.id, number)
        states = await label_states(tx, repository.id, number)
    if not _allows_retry(engine, request, before, request.head_sha or ""):
        if request.by is not None and not request.by_machine:
            await announce_ignored(engine, repository, number, request.by, request.case.delivery)
        return
    if (asked := await read_request(engine, request, before, states)) is not None:
        await admit(engine, *asked)


async def read_request(
    engine: Engine,
    request: EnqueueRequest,
    before: RejectionHistory | None = None,
    states: LabelStates | None = None,
) -> tuple[EnqueueRequest, Snapshot] | None:
    """Read who asks by a label, and for what; None if no label is consent or may be retried. Raises GitHubError."""
    repository, number = request.case.repository, request.case.number
    if states is None:
        states = await engine.store.read(lambda tx: label_states(tx, repository.id, number))
    taken = await engine.github.snapshot(repository, number, login=request.by, head_sha=request.head_sha)
    pull = taken.pull
    if not _allows_retry(engine, request, before, pull.head_sha):
        return None
    request = replace(request, case=await request.case.with_policy(engine, pull.base_branch))
    policy = request.case.policy
    if pull.open and not policy.has_trigger_label(pull.labels):
        request, pull = await _set_since_landing(engine, request, pull, policy)
    if not pull.open or not policy.has_trigger_label(pull.labels):
        await count_label_gone(engine, repository, policy, request.by, taken.permission)
        return None
    labeled = await _labeled(engine, request, replace(taken, pull=pull), policy, states)
    if labeled is None or not _allows_retry(engine, labeled[0], before, labeled[1].head_sha):
        return None
    request, pull = labeled
    permission = taken.permission or await engine.github.permission(repository, request.by or "")
    return request, replace(taken, pull=pull, permission=permission)


async def _set_since_landing(
    engine: Engine, request: EnqueueRequest, pull: PullRequest, policy: Policy
) -> tuple[EnqueueRequest, PullRequest]:
    """Return both with the requested label, if only IMQ has removed it since, after another head had landed.

    A train lands heads by one push. If somebody pushes at that instant, the pull request stays open. A label on the
    newer head is new consent then, and not the label that IMQ was to remove (P4).
    """
    label, repository = request.label, request.case.repository
    if label is None or not policy.has_trigger_label([label]) or request.head_sha != pull.head_sha:
        return request, pull
    async with engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(repository.id, pull.number)
        known = await tx.known.lately(repository.id, of_pull(pull.number), engine.clock.now())
    landed = {each.data.get("head") for each in events if each.event == EntryStatus.LANDED.value}
    removal = OwnLabel(label=label, label_set=False)
    if not landed or pull.head_sha in landed or removal not in [each.statement for each in known]:
        return request, pull
    own = await engine.github.own_login()
    others = tuple(each for each in pull.reported if not (isinstance(each, PullRequestState) and each.by == own))
    return replace(request, sets_label=label), replace(pull, labels=pull.labels | {label}, reported=others)


async def _labeled(
    engine: Engine, request: EnqueueRequest, taken: Snapshot, policy: Policy, states: LabelStates
) -> tuple[EnqueueRequest, PullRequest] | None:
    """Find who set the label and when, and keep the trigger labels that are consent (P4).

    None if no label is consent, or if another webhook decides: that of a newer label, or one that has not come yet.
    """
    pull, last, set_at = taken.pull, None, dict[str, datetime | None]()
    if request.head_sha not in {pull.head_sha, None} or request.by is None:
        label_events = await _last_label_events(engine, request, pull, policy)
        set_at |= {label: each.at for label, each in label_events.items()}
        last = max(label_events.values(), key=lambda each: each.at, default=None)
        if last is not None and request.labeled_at is not None and last.at > request.labeled_at:
            # Deliveries come in any order: the label was set again since, and its own webhook decides about that.
            return None
    if last is None and request.by is None:
        # GitHub's history has no such label: another one was renamed to it, so no one asked for anything.
        request = replace(request, head_sha=UNKNOWN_HEAD)
    if request.label is not None:
        set_at[request.label.casefold()] = request.labeled_at
    if last is not None:
        repository, found = request.case.repository, request.head_sha is None
        person = await consenting_person(engine, repository, taken, last, policy) if found else None
        by = request.by or (person.by if person is not None else None) or last.by
        request = replace(request, by=by, labeled_at=request.labeled_at or last.at)
        if found and person is None:
            # A push after the label, whose webhook was lost too, must not land by that label (P4).
            if not request.webhook_is_late:
                await await_webhook(engine, request.case.repository, request.case.number)
                return None
            request = replace(request, head_sha=UNKNOWN_HEAD)
        elif person is not None:
            order = person.order(pull.labels, policy)
            request = replace(request, arrived_at=last.at + _COMES_WITHIN, source=person.source, order=order)
    if request.head_sha == UNKNOWN_HEAD and not states.wanted and await _end_withdrawn(engine, request, policy):
        return None
    void = [
        label
        for label in pull.labels
        if policy.has_trigger_label([label]) and not states.consents(label, set_at.get(label.casefold()))
    ]
    consented = replace(pull, labels=pull.labels.difference(void))
    if not policy.has_trigger_label(consented.labels):
        _log.info("label_without_consent", repository=request.case.repository.full_name, number=pull.number)
        return None
    return request, consented


async def _end_withdrawn(engine: Engine, request: EnqueueRequest, policy: Policy) -> bool:
    """Remove a label whose consent ended in shadow mode, and announce who ended it (P6); whether it is such a label."""
    repository, number = request.case.repository, request.case.number
    async with engine.change() as change:
        left = last_departure(await change.tx.timeline.of_pull_request(repository.id, number))
        if not is_withdrawn(left) or (request.labeled_at is not None and request.labeled_at > left.at):
            return False
        if await change.tx.shadow.mode(repository.id) is not Mode.SHADOW:
            await notices.announce_withdrawn(change, repository, left, policy)
            await notices.remove_label(change, repository, number, policy)
    return True


def _allows_retry(engine: Engine, request: EnqueueRequest, before: RejectionHistory | None, head_sha: str) -> bool:
    insistent = request.by_machine or request.head_sha is None
    now = engine.clock.now()
    return before is None or before.allows_retry(head_sha, by=request.by, by_machine=insistent, now=now)


async def _last_label_events(
    engine: Engine, request: EnqueueRequest, pull: PullRequest, policy: Policy
) -> dict[str, LabelEvent]:
    """Find who last set each trigger label of the pull request, by the casefolded label."""
    found = dict[str, LabelEvent]()
    for label in policy.trigger_labels:
        if has_label(pull.labels, [label]):
            last = await engine.github.last_labeled_event(request.case.repository, request.case.number, label)
            if last is not None:
                found[label.casefold()] = last
    return found


async def admit(
    engine: Engine,
    request: EnqueueRequest,
    taken: Snapshot,
    *,
    answered: bool = False,
) -> Admission:
    """Judge a pull request by facts just read, and store the result.

    With `answered` the caller answers the requester: a rejected request stores nothing. Raises GitHubError when the
    branch's rules cannot be read, and StaleRecord if the replaced entry changed since it was read. Unless the request
    `may_wait` for room, raises SlotsBusy when the queue is full: then nothing is stored. Raises RequestOrderError while
    an earlier request has no answer: facts are read concurrently, entries are stored in order (P3).
    """
    request, taken, requirements = await with_requirements(engine, request, taken)
    case, pull = request.case, taken.pull
    repository, policy = case.repository, case.policy
    left = case.entry if request.leaves_for is not None else None
    trusted = pull.labels
    if left is not None and not request.trusts_labels:
        trusted = trusted_of(pull.labels, left.trusted_labels)
    if case.in_order is not None:
        await case.in_order(pull.base_branch, policy, request.order or precedence_of(trusted, policy))
    refused, cause = None if answered else judged(request, taken, requirements, policy), None
    if isinstance(refused, Reject):
        cause = await record.author_of_refusal(engine, repository, pull, refused.reason)
    async with engine.change() as change:
        queue = await change.tx.queues.find_or_create(repository, pull.base_branch, change.now)
        await change.tx.queues.lock_order(queue.id)
        await _search_first(change, request, pull)
        if left is not None and request.leaves_for is not None:
            await record.dequeue(change, left, DequeueReason(request.leaves_for, delivery=case.delivery), policy)
        # If somebody else has queued the pull request since the case was loaded, it is judged as an entry then.
        present = await change.tx.entries.find(repository.id, pull.number)
        answer: Admission = present or judged(request, taken, requirements, policy)
        answer = await behind_shared_head(change.tx.entries, repository, pull, policy, answer)
        answer = await in_landing_order(change, repository, queue.id, policy, answer)
        if await change.tx.shadow.mode(repository.id) is Mode.SHADOW:
            # The repository switched during the reads, or a command or API call asks for what IMQ may not do.
            answer = Reject(Reason.SHADOW_MODE) if answered else Ignore()
        if not isinstance(answer, Entry) and not (answered and isinstance(answer, Reject)):
            await count_label(change, repository, request.by, answer)
        match answer:
            case Admit() | NotReady():
                if request.trusts_labels:
                    await record_consent(change, request, pull)
                unmet = answer.unmet if isinstance(answer, NotReady) else ()
                answer = await store_entry(change, queue, taken, requirements.rules, policy, request, trusted, unmet)
                await record.note_set_ready(change, answer, requirements.landings)
                if left is not None and not request.trusts_labels:
                    await change.tx.consents.keep_alone(left, answer)
                _check_room(engine, answer, policy, may_wait=request.may_wait)
            case Reject() if not answered:
                by, delivery = request.by, case.delivery
                await refuse(change, queue, pull, answer, policy, by=by, delivery=delivery, cause=cause)
    _log_answer(request, pull, answer)
    return answer


async def _search_first(change: Change, request: EnqueueRequest, pull: PullRequest) -> None:
    """Have the comment and check run searched for that another database may have made for this pull request."""
    repository, outbox = request.case.repository, change.tx.outbox
    if pull.comments != 0:
        await outbox.search_first(repository, pull.number, change.now)
    if request.arrived_at is not None and await change.tx.sweeps.last(stale_comments(repository.id)) is None:
        # A sweep found the label.
        await outbox.search_first(repository, pull.number, change.now, kind=OutboxKind.CHECK_RUN)


def _log_answer(request: EnqueueRequest, pull: PullRequest, answer: Admission) -> None:
    names = {"repository": request.case.repository.full_name, "number": pull.number, "by": request.by}
    if isinstance(answer, Entry) and answer.is_ready:
        _log.info("queued", **names, base_branch=answer.base_branch, position=answer.position, head_sha=answer.head_sha)
    else:
        result = "NotReady" if isinstance(answer, Entry) else type(answer).__name__
        _log.info("eligibility", **names, answer=result)


def _check_room(engine: Engine, entry: Entry, policy: Policy, *, may_wait: bool) -> None:
    """Count a new entry that waits for room. Raises SlotsBusy unless it may wait, so that it is not stored."""
    if not may_wait and entry.is_ready and waits_for_room(entry.position, policy):
        engine.meter.count("queue_full", where="api")
        raise SlotsBusy("queue full")
    if entry.held_since is not None:
        engine.meter.count("queue_full", where="label")


async def with_requirements(
    engine: Engine, request: EnqueueRequest, taken: Snapshot
) -> tuple[EnqueueRequest, Snapshot, RequiredFacts]:
    """Return request and facts for the base branch on which the pull request lands, with all that decides about it."""
    request, taken = await placed(engine, request, taken)
    request = replace(request, case=await request.case.with_policy(engine, taken.pull.base_branch))
    return request, *await requirements_of(engine, request.case.repository, taken, request.case.policy, by=request.by)


def judged(request: EnqueueRequest, taken: Snapshot, requirements: RequiredFacts, policy: Policy) -> Answer:
    """Check the eligibility, and whether the label is still consent."""
    pull = taken.pull
    consent = Consent(
        by=request.by or "",
        permission=taken.permission or Permission.NONE,
        head_sha=request.head_sha or pull.head_sha,
        base_branch=request.base_branch or pull.base_branch,
    )
    answer = check_eligibility(pull, consent, requirements, repository=request.case.repository, policy=policy)
    if isinstance(answer, Admit | NotReady) and request.labeled_at is not None:
        # By the webhooks since the label was set.
        withdrawn = withdrawn_since_label(
            pull, base_branch=consent.base_branch, policy=policy, labeled_at=request.labeled_at, by=consent.by
        )
        if withdrawn is not None:
            # Another person has set the present label: its own webhook decides about that.
            answer = Ignore() if withdrawn is Reason.LABEL_REMOVED else Reject(withdrawn)
    return answer


async def behind_shared_head(
    among: Entries | Shadow, repository: Repository, pull: PullRequest, policy: Policy, answer: Entry | Answer
) -> Entry | Answer:
    """Let a pull request wait, if it may, while another one of its branch is queued, which IMQ may update."""
    branch = head_branch_of(pull)
    if branch is None or not isinstance(answer, Admit | NotReady):
        return answer
    others = await among.sharing(repository.id, pull.number, branch)
    return behind_others(others, pull, policy, answer)
