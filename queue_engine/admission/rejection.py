"""Refuse pull requests: store and announce why they are not eligible.

IMQ cannot recognize automation that uses a person's account. So IMQ judges repeated requests for the same head ever
less often, and says so once: a person hardly notices, and a loop costs almost nothing. Automation that sets the label
again on a rejected head starts nothing (docs/api.md). `queue_engine.admission.throttle` counts people without
permission; this module counts the rejections of a head.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.domain.departure import Cause
from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Permission, PullRequest
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import REASONS, SENDER_REASONS, Reason, ReasonActor
from queue_engine.effects import notices
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.record import cause_data
from queue_engine.rules.departure_facts import cause_of_refusal
from queue_engine.rules.eligibility import Reject, may_queue, unread_teams
from queue_engine.store import Transaction


class RejectionError(EngineError):
    """The pull request is not eligible; `detail` and the trigger `label` may hold text from GitHub or users."""

    def __init__(self, reason: Reason, label: str = "", detail: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.label = label
        self.detail = detail


def assert_may_queue(policy: Policy, by: str, permission: Permission) -> None:
    """Raise RejectionError if this person may not queue."""
    if (reason := may_queue(policy, by, permission)) is not None:
        raise RejectionError(reason, policy.trigger_label, unread_teams(policy))


async def refuse(
    change: Change,
    queue: Queue,
    pull: PullRequest,
    why: Reject,
    policy: Policy,
    *,
    by: str | None,
    delivery: str | None,
    cause: Cause | None = None,
) -> None:
    """Reject a pull request: store and announce the rejection, and remove the label.

    `cause`: who made the change for which it is refused, if only GitHub's history names that person.
    """
    tx, now, repository = change.tx, change.now, queue.repository
    reason, detail = why.reason, why.detail
    people = (pull.author, *pull.assignees) if REASONS[reason].next_actor is ReasonActor.AUTHOR else ()
    cause = cause_of_refusal(reason, pull) or cause
    notice = notices.notice_of_pull(
        *(pull.number, pull.base_branch, pull.head_sha, NoticeKind.REFUSED, policy, now),
        people=tuple(dict.fromkeys(people)),
        reason=reason,
        detail=detail,
        queued_by=by,
        cause=cause,
    )
    await notices.announce(change, repository, notice, policy)
    if REASONS[reason].label_off:
        await tx.rejections.put(repository.id, pull.number, pull.head_sha, reason, now)
        await notices.remove_label(change, repository, pull.number, policy)
    data = {"head": pull.head_sha, "by": by, "detail": detail} | cause_data(cause)
    await change.record("refused", queue, number=pull.number, reason=reason, delivery=delivery, data=data)


_PATIENCE = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""The wait after each rejection of one head beyond the free ones."""

_FREE = 4
"""How many tries a person has for one head without any wait, to fix one problem after another."""


@dataclass(frozen=True, slots=True)
class RejectionHistory:
    """The last rejected head, when, and how often the head itself was the cause."""

    head_sha: str
    at: datetime
    times: int
    people: tuple[str, ...] = ()
    """The people who asked for this head without permission, casefolded, once for each time: their rejections do not
    concern the head or other people."""
    base_branch: str = ""
    why: Reason | None = None
    announced: bool = False
    """Whether IMQ has announced that it ignores this head for a while."""

    def allows_retry(self, head_sha: str, *, by: str | None = None, by_machine: bool, now: datetime) -> bool:
        """Return whether this head is judged again for the present requester; `by` is None while unknown."""
        if head_sha != self.head_sha:
            return True
        if by_machine and (self.times or (by or "").casefold() in self.people):
            return False
        return now >= self.judged_from(by)

    def judged_from(self, by: str | None) -> datetime:
        """Return from when on IMQ judges this person's requests for the head again."""
        waits = self.times + self.people.count((by or "").casefold()) - _FREE
        return self.at if waits <= 0 else self.at + wait(_PATIENCE, waits - 1, random=no_jitter)


async def rejection_history(tx: Transaction, repository_id: int, number: int) -> RejectionHistory | None:
    """Load the last rejection or failure of a pull request, if there was one since it last landed."""
    rejection = await tx.rejections.find(repository_id, number)
    if rejection is None:
        return None
    reasoned = [event for event in await tx.timeline.of_pull_request(repository_id, number) if event.reason is not None]
    of_head = [event for event in reasoned if event.data.get("head") == rejection.head_sha]
    people = tuple(str(event.data.get("by") or "").casefold() for event in of_head if event.reason in SENDER_REASONS)
    return RejectionHistory(
        rejection.head_sha,
        rejection.at,
        len(of_head) - len(people) if of_head else 1,
        people,
        base_branch=of_head[-1].base_branch if of_head else "",
        why=rejection.reason,
        announced=bool(reasoned) and reasoned[-1].reason is Reason.ASKED_TOO_OFTEN,
    )


async def announce_ignored(engine: Engine, repository: Repository, number: int, by: str, delivery: str | None) -> None:
    """Announce once that IMQ ignores this head for a while, and until when; the label comes off."""
    before = await engine.store.read(lambda tx: rejection_history(tx, repository.id, number))
    if before is None or before.announced or not before.base_branch:
        return
    policy = await engine.policies.of(repository, before.base_branch)
    async with engine.change() as change:
        tx, now = change.tx, change.now
        queue = await tx.queues.find(repository.id, before.base_branch)
        if queue is None or await rejection_history(tx, repository.id, number) != before:
            return
        notice = notices.notice_of_pull(
            *(number, before.base_branch, before.head_sha, NoticeKind.REFUSED, policy, now),
            people=(by,),
            reason=Reason.ASKED_TOO_OFTEN,
            detail=None if before.why is None else before.why.value.replace("_", " "),
            until=before.judged_from(by),
            queued_by=by,
        )
        await notices.announce(change, repository, notice, policy)
        await notices.remove_label(change, repository, number, policy)
        # No head: the event judges none, and does not count as a rejection of one.
        data = {"by": by}
        await change.record(
            "refused", queue, number=number, reason=Reason.ASKED_TOO_OFTEN, delivery=delivery, data=data
        )
