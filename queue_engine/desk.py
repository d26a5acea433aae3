"""The desk: pull requests are queued and taken out for callers who wait for the answer.

It judges as the door does, and the label on GitHub stays the visible truth: it is set, or taken off, as part of it.
What the label means is stored before it is set, so that whoever dies in between leaves a pull request that joins.
"""

from dataclasses import dataclass, replace

import structlog

from queue_engine import journal
from queue_engine.admission import Knock, demands_on, keep_waiting, let_in, places_taken
from queue_engine.core.slots import QueueFull
from queue_engine.door import Hold, Refuse, knock
from queue_engine.engine import Engine
from queue_engine.errors import EngineError, GitHubError, StaleVersion, Unavailable
from queue_engine.facts import Permission, PullRequest
from queue_engine.model import Entry, Queue, Repository
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from queue_engine.waiting_line import WaitingLine

_log = structlog.get_logger("imq.desk")

_TRIES = 5


class Refused(EngineError):
    """The door's answer is no, for this reason; `label` is the one that queues here, if that was looked up."""

    def __init__(self, reason: Reason, label: str = "") -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.label = label


class NotQueued(EngineError):
    """The pull request neither stands in a queue nor waits for a place in one."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Where a pull request stands, and whether it was this call that queued it."""

    entry: Entry
    new: bool


async def enqueue(engine: Engine, repository: Repository, number: int, *, by: str, head_sha: str | None) -> Queued:
    """Queue the head that the pull request has now, for this person; only if it is `head_sha`, when that is given.

    Raises Refused, QueueFull (nothing is held then, and no label set) and GitHubError. After Unavailable it may join
    all the same, and within the minute.
    """
    permission = await _may_merge(engine, repository, by)
    async with engine.store.reading() as tx:
        standing = await tx.entries.find(repository.id, number)
    if standing is not None:
        if head_sha not in {None, standing.queued_head, standing.head}:
            raise Refused(Reason.HEAD_CHANGED)
        return Queued(standing, new=False)
    pull = await engine.github.pull_request(repository, number)
    if not pull.open:
        raise Refused(Reason.MERGED_ELSEWHERE if pull.merged else Reason.CLOSED)
    request = Knock(repository, number, by, head_sha or pull.head_sha)
    policy = await engine.policies.of(repository, pull.base_branch)
    labelled = replace(pull, labels=pull.labels | {policy.trigger_label})
    waited = await _take_place(engine, request, labelled, permission, policy)
    try:
        if not policy.triggered(pull.labels):
            await engine.github.add_label(repository, number, policy.trigger_label)
    except GitHubError as error:
        if not waited and not isinstance(error, Unavailable):
            await _give_place_up(engine, request)
        raise
    answer = await let_in(engine, request, labelled, by=by, permission=permission, answered=True)
    if isinstance(answer, Entry):
        _log.info("queued", repository=repository.full_name, number=number, by=by, position=answer.position)
        return Queued(answer, new=True)
    # Rules or settings changed in this moment.
    await _give_place_up(engine, request)
    await engine.github.remove_label(repository, number, policy.trigger_label)
    raise _refusal(engine, answer, policy)


async def dequeue(engine: Engine, repository: Repository, number: int, *, by: str) -> bool:
    """Take a pull request out of its queue, or of the line for a place, as if its label had been removed.

    False: its merge is under way, and only GitHub can tell whether it still leaves. Raises Refused, NotQueued and
    GitHubError.
    """
    await _may_merge(engine, repository, by)
    queue, held = await _queue_of(engine, repository, number)
    policy = await engine.policies.of(repository, queue.base_branch)
    # First the label: whoever dies after it is told by its webhook, and by the sweep.
    await engine.github.remove_label(repository, number, policy.trigger_label)
    if held:
        pull = await engine.github.pull_request(repository, number)
        await WaitingLine(engine).judge(repository, replace(pull, labels=frozenset()))
    for attempt in range(1, _TRIES + 1):
        try:
            return await _dismiss(engine, repository, number, policy)
        except StaleVersion:
            if attempt == _TRIES:
                raise
    raise AssertionError("unreachable")


async def _queue_of(engine: Engine, repository: Repository, number: int) -> tuple[Queue, bool]:
    """The queue in which it stands, or for which it is held, and whether it is held. Raises NotQueued."""
    async with engine.store.reading() as tx:
        waiting = await tx.held.find(repository.id, number)
        found = waiting or await tx.entries.find(repository.id, number)
        if found is None:
            raise NotQueued(f"pull request {number} is not queued")
        queue = await tx.queues.get(found.queue_id)
    assert queue is not None
    return queue, waiting is not None


async def _dismiss(engine: Engine, repository: Repository, number: int, policy: Policy) -> bool:
    async with engine.change() as change:
        tx, now = change.tx, change.now
        entry = await tx.entries.find(repository.id, number)
        if entry is None:
            return True
        if entry.merge_requested_at is not None:
            await tx.entries.save(replace(entry, suspect=True))
            await tx.queues.wake(entry.queue_id, now)
            return False
        change.happenings.append(await journal.dismiss(tx, entry, Reason.LABEL_REMOVED, policy, now))
    _log.info("left", repository=repository.full_name, number=number, reason=Reason.LABEL_REMOVED.value)
    return True


async def _may_merge(engine: Engine, repository: Repository, login: str) -> Permission:
    permission = await engine.github.permission(repository, login)
    if not permission.may_merge:
        raise Refused(Reason.LABEL_WITHOUT_RIGHT)
    return permission


async def _take_place(
    engine: Engine, request: Knock, pull: PullRequest, permission: Permission, policy: Policy
) -> bool:
    """Keep a place, before anything is done on GitHub; whether this pull request waited for one already."""
    rules, reviews = await demands_on(engine, request.repository, pull, policy)
    async with engine.change() as change:
        tx, number = change.tx, request.number
        queue = await tx.queues.find_or_create(request.repository, pull.base_branch, change.now)
        answer = knock(
            pull,
            repository=request.repository,
            labelled_head=request.head_sha or pull.head_sha,
            by=request.by or "",
            permission=permission,
            rules=rules,
            depth=await places_taken(change, queue, number),
            policy=policy,
            reviews=reviews,
        )
        if isinstance(answer, Hold | Refuse):
            raise _refusal(engine, answer, policy)
        waited = await tx.held.find(request.repository.id, number) is not None
        await keep_waiting(change, queue, number, pull.head_sha, request.by or "", request.delivery)
        return waited


async def _give_place_up(engine: Engine, request: Knock) -> None:
    async with engine.change() as change:
        waiting = await change.tx.held.find(request.repository.id, request.number)
        if waiting is not None:
            await change.tx.held.remove(request.repository.id, request.number)
            await journal.call_waiting(change.tx, waiting.queue_id, change.now)


def _refusal(engine: Engine, answer: object, policy: Policy) -> Refused | QueueFull:
    if isinstance(answer, Refuse):
        return Refused(answer.reason, policy.trigger_label)
    engine.meter.count("queue_full", where="api")
    return QueueFull("queue full")
