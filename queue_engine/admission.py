"""Letting pull requests in: the facts for the door are read, its answer is stored with all that follows from it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine import journal, telling
from queue_engine.core import trace
from queue_engine.door import UNSEEN_HEAD, Admit, Answer, Demands, Hold, Ignore, Refuse, knock
from queue_engine.engine import Change, Engine
from queue_engine.facts import Labelling, Permission, PullRequest, Snapshot
from queue_engine.insistence import TurnedAway, tell_unheard, turned_away
from queue_engine.known.facts import Consented, Fact, of_pull
from queue_engine.label_consent import last_dequeue
from queue_engine.model import Entry, Queue, Repository
from queue_engine.notice import NoticeKind
from queue_engine.places import keep_waiting, places_taken
from queue_engine.policy import Policy, carries
from queue_engine.priority import Standing, of_these, standing_of
from queue_engine.reasons import Reason
from queue_engine.refusing import door_notice, refuse
from queue_engine.requirements import demands_on
from queue_engine.store import DuplicateEntry
from queue_engine.store.outbox import LetterKind
from queue_engine.throttled_labels import count_label, count_label_gone
from queue_engine.unseen_labels import await_webhook, may_have_changed
from queue_engine.withdrawals import last_change, withdrawn_since_label

_log = structlog.get_logger("imq.admission")


@dataclass(frozen=True, slots=True)
class Knock:
    """Somebody asks for a pull request to be queued.

    `head_sha` is the head that the label was set on, and `base_branch` the branch to land on; None when only the sweep
    found the label, which then stands for the present ones. `labelled_at` is when it was set. `by_machine` tells
    automation from a person who tries again.
    Who asks vouches for the labels that are there then. Without `anew` nobody does: it is the turn of one that waits
    for a place, or somebody pushed to it, and it stands by what was vouched for until then.
    """

    repository: Repository
    number: int
    by: str | None
    head_sha: str | None
    base_branch: str | None = None
    webhook_is_late: bool = False
    """The label's webhook, which names its head, was waited for in vain; see `queue_engine.unseen_labels`."""
    labelled_at: datetime | None = None
    by_machine: bool = False
    arrived_at: datetime | None = None
    """When it was asked for, if a failure has delayed the answer: it is queued as if it had come then (P3)."""
    delivery: str | None = None
    anew: bool = True


Admission = Entry | Answer
"""What became of a knock: the entry that stands in the queue now, or the door's answer."""


async def _at_once() -> None:
    """Nobody is ahead."""


async def admit(engine: Engine, request: Knock, *, turn: Callable[[], Awaitable[None]] = _at_once) -> None:
    """Judge a pull request at the door and store the answer. Raises GitHubError when the facts cannot be read.

    `turn` waits for those who knocked before: facts are read side by side, places are given in order (P3).
    """
    async with engine.store.reading() as tx:
        if await tx.entries.find(request.repository.id, request.number) is not None:
            return
        before = await turned_away(tx, request.repository.id, request.number)
        dequeued = await last_dequeue(tx, request.repository.id, request.number)
    if before is not None and not _heard(engine, request, before, request.head_sha or ""):
        if request.by is not None and not request.by_machine:
            await tell_unheard(engine, request.repository, request.number, request.by, request.delivery)
        return
    taken = await engine.github.snapshot(
        request.repository, request.number, login=request.by, head_sha=request.head_sha
    )
    pull = taken.pull
    if before is not None and not _heard(engine, request, before, pull.head_sha):
        return
    policy = await engine.policies.of(request.repository, pull.base_branch)
    if not pull.open or not policy.triggered(pull.labels):
        await count_label_gone(engine, request.repository, policy, request.by, taken.permission)
        return
    by, labelled_at, last = request.by, request.labelled_at, None
    if request.head_sha not in {pull.head_sha, None} or by is None:
        last = await _last_labelling(engine, request, pull, policy)
        labelled_at = labelled_at or (last.at if last else None)
        if last is not None and request.labelled_at is not None and last.at > request.labelled_at:
            # Deliveries come in any order: the label was set anew since, and that consent is not this one's to refuse.
            return
        by = by or (last.by if last else None)
    if request.head_sha is None and last is not None and may_have_changed(pull, last):
        # A push after a label that IMQ did not hear of must not land by that label (P4).
        if not request.webhook_is_late:
            await await_webhook(engine, request.repository, request.number)
            return
        request = replace(request, head_sha=UNSEEN_HEAD)
    if dequeued is not None and not dequeued.precedes(labelled_at):
        _log.info("label_without_consent", repository=request.repository.full_name, number=request.number)
        return
    if before is not None and not _heard(engine, replace(request, by=by), before, pull.head_sha):
        return
    if taken.permission is None:
        taken = replace(taken, permission=await engine.github.permission(request.repository, by or ""))
    await let_in(engine, replace(request, labelled_at=labelled_at), taken, by=by or "", turn=turn)


def _heard(engine: Engine, request: Knock, before: TurnedAway, head_sha: str) -> bool:
    insistent = request.by_machine or request.head_sha is None
    return before.hears(head_sha, by=request.by, by_machine=insistent, now=engine.clock.now())


async def _last_labelling(engine: Engine, request: Knock, pull: PullRequest, policy: Policy) -> Labelling | None:
    """Who set the last of the trigger labels that the pull request carries."""
    carried = [label for label in policy.trigger_labels if carries(pull.labels, [label])]
    found = [await engine.github.last_labelling(request.repository, request.number, label) for label in carried]
    return max((one for one in found if one is not None), key=lambda one: one.at, default=None)


async def let_in(
    engine: Engine,
    request: Knock,
    taken: Snapshot,
    *,
    by: str,
    answered: bool = False,
    turn: Callable[[], Awaitable[None]] = _at_once,
    leaving: Entry | None = None,
    why: Reason = Reason.HEAD_CHANGED,
) -> Admission:
    """Judge a pull request by facts just read, and store what follows.

    With `answered` the asker gets the answer from the caller: one that is not let in leaves no trace here. `leaving`
    is an entry of it that stands, and leaves in the same transaction for the reason `why`. Raises GitHubError when
    the branch's rules cannot be read, and StaleVersion if that entry changed since it was read.
    """
    pull = taken.pull
    policy = await engine.policies.of(request.repository, pull.base_branch)
    taken, demands = await demands_on(engine, request.repository, taken, policy)
    pull = taken.pull
    request = replace(request, by=by)
    standing: Entry | None = None
    await turn()
    async with engine.change() as change:
        queue = await change.tx.queues.find_or_create(request.repository, pull.base_branch, change.now)
        if pull.comments != 0:
            await change.tx.outbox.look_first(request.repository, pull.number, change.now)
        if leaving is not None:
            await _leave(change, queue, leaving, why, policy, request.delivery)
        depth = await places_taken(change, queue, pull.number)
        waiting = await change.tx.held.find(request.repository.id, pull.number)
        before = waiting or leaving
        if before is None and not request.anew:
            # It was taken out of the line in this moment.
            return Ignore()
        # Whoever asks anew vouches for what is there now.
        vouched = pull.labels if request.anew or before is None else of_these(pull.labels, before.vouched)
        answer = judged(request, taken, demands, policy, depth=depth)
        if not (answered and isinstance(answer, Refuse)):
            await count_label(change, request.repository, by, answer)
        if request.anew and isinstance(answer, Admit | Hold):
            await keep_consent(change, request, pull)
        match answer:
            case Admit():
                priority = None if waiting is None else waiting.priority
                standing = await _admit(change, queue, taken, policy, request, vouched, priority)
            case Hold() if not answered:
                await _hold(engine, change, queue, pull, policy, request, vouched)
            case Refuse(reason, detail) if not answered:
                await refuse(change, queue, pull, reason, policy, by=by, delivery=request.delivery, detail=detail)
    _log.info("knock", repository=request.repository.full_name, number=request.number, answer=type(answer).__name__)
    return answer if standing is None else standing


async def _leave(
    change: Change, queue: Queue, leaving: Entry, why: Reason, policy: Policy, delivery: str | None
) -> None:
    # Others give places and then wake the queue: in this order nobody waits for each other.
    await change.tx.queues.give_places(queue.id)
    change.happenings.append(await journal.dismiss(change.tx, leaving, why, policy, change.now, delivery=delivery))


def judged(request: Knock, taken: Snapshot, demands: Demands, policy: Policy, *, depth: int) -> Answer:
    """The door's answer, with so many places taken."""
    answer = knock(
        taken.pull,
        repository=request.repository,
        labelled_head=request.head_sha or taken.pull.head_sha,
        labelled_base=request.base_branch or taken.pull.base_branch,
        by=request.by or "",
        permission=taken.permission or Permission.NONE,
        demands=demands,
        depth=depth,
        policy=policy,
    )
    withdrawn = _withdrawn(request, taken.pull, policy) if isinstance(answer, Admit | Hold) else None
    if withdrawn is Reason.LABEL_REMOVED:
        # Another person has set the label that is on now: its own webhook asks for that one.
        return Ignore()
    return answer if withdrawn is None else Refuse(withdrawn)


def _withdrawn(request: Knock, pull: PullRequest, policy: Policy) -> Reason | None:
    """Why the label that asks is no consent any more, by what webhooks told since it was set."""
    if request.labelled_at is None:
        return None
    base_branch = request.base_branch or pull.base_branch
    return withdrawn_since_label(
        pull, base_branch=base_branch, policy=policy, labelled_at=request.labelled_at, by=request.by or ""
    )


async def keep_consent(change: Change, request: Knock, pull: PullRequest) -> None:
    """Store when somebody asked for this pull request to be queued: what was told later may withdraw that consent."""
    at = request.labelled_at or last_change(pull) or change.now
    consent = Fact(subject=of_pull(pull.number), told=Consented(at=at, by=request.by))
    await change.tx.known.tell(request.repository.id, [consent], change.now)


async def _admit(
    change: Change,
    queue: Queue,
    taken: Snapshot,
    policy: Policy,
    request: Knock,
    vouched: frozenset[str],
    priority: int | None,
) -> Entry:
    """`priority` is the one that was given to it while it waited; None: that of its labels."""
    tx, now, pull = change.tx, change.now, taken.pull
    given = standing_of(vouched, policy)
    if priority is not None:
        given = replace(given, priority=priority)
    try:
        entry = await _join(change, queue, taken, policy, request, vouched, given)
    except DuplicateEntry:
        standing = await tx.entries.find(queue.repository.id, pull.number)
        assert standing is not None
        return standing
    await tx.held.remove(queue.repository.id, pull.number)
    # A removal still on its way belongs to an earlier stay; the label on the pull request now is new consent.
    await tx.outbox.withdraw(LetterKind.LABEL_OFF, queue.repository.id, pull.number)
    depth = entry.position + 1
    await journal.tell_progress(tx, entry, NoticeKind.QUEUED, policy, now, depth=depth)
    labels = sorted(label for label in vouched if policy.triggered([label]))
    data = {"by": entry.queued_by, "head": pull.head_sha, "position": entry.position, "labels": labels}
    await change.record("queued", entry, delivery=request.delivery, data=data | await journal.delays(tx, entry, now))
    await tx.queues.wake(queue.id, now)
    return entry


async def _join(
    change: Change,
    queue: Queue,
    taken: Snapshot,
    policy: Policy,
    request: Knock,
    vouched: frozenset[str],
    given: Standing,
) -> Entry:
    """Add the entry. Raises DuplicateEntry."""
    pull = taken.pull
    return await change.tx.entries.add(
        queue_id=queue.id,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        queued_by=request.by or "",
        queued_head=pull.head_sha,
        enqueued_at=change.now,
        arrived_at=request.arrived_at,
        ageing=policy.ageing,
        trace=trace.current(),
        delivery=request.delivery,
        vouched=sorted(vouched),
        known_behind=bool(taken.behind),
        base_tip=taken.base_tip if taken.behind else None,
        shared_head=await _shared_head(change, queue.repository, pull),
        **vars(given),
    )


async def _shared_head(change: Change, repository: Repository, pull: PullRequest) -> str | None:
    """The head branch, if it is one that others are merged into: the default branch, or one that has a queue."""
    if pull.head_repository != repository.full_name:
        return None
    shared = (
        pull.head_branch == pull.default_branch
        or await change.tx.queues.find(repository.id, pull.head_branch) is not None
    )
    return pull.head_branch if shared else None


async def _hold(
    engine: Engine,
    change: Change,
    queue: Queue,
    pull: PullRequest,
    policy: Policy,
    request: Knock,
    vouched: frozenset[str],
) -> None:
    tx, now, repository = change.tx, change.now, queue.repository
    by, delivery = request.by or "", request.delivery
    if not await keep_waiting(change, queue, pull, by=by, delivery=delivery, vouched=vouched):
        return
    await tx.outbox.withdraw(LetterKind.LABEL_OFF, repository.id, pull.number)
    engine.meter.count("queue_full", where="label")
    ahead = await tx.held.ahead(queue.id, repository.id, pull.number)
    notice = door_notice(policy, pull, NoticeKind.HELD, Reason.QUEUE_FULL, now, request.by, position=ahead)
    await telling.tell(tx, repository, notice, policy, due=now)
    change.happenings.append(
        await journal.note(
            tx,
            now,
            "held",
            repository,
            queue.base_branch,
            pull.number,
            reason=Reason.QUEUE_FULL,
            delivery=request.delivery,
            data={"labels": sorted(label for label in vouched if policy.triggered([label]))},
        )
    )
