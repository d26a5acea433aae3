"""Judge repeated requests for a refused head: a person's counts, automation's does not (P6).

Automation that acts under an account of a person's kind cannot be told by its account. So repeated requests for the
same head are judged ever less often, and IMQ says so once: a person hardly notices, a loop comes to almost
nothing. Automation that sets the label again on a refused head starts nothing (docs/api.md).
`queue_engine.admission.throttle` counts people without the right; this counts what becomes of a head.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import SENDER_REASONS, Reason
from queue_engine.effects import notices
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

_PATIENCE = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""What has to pass after each refusal of one head that comes after the free ones."""

_FREE = 4
"""Tries that a person has for one head without any wait: to mend one thing after the other takes some."""


@dataclass(frozen=True, slots=True)
class RejectionHistory:
    """The head that was rejected last, when, and how often the head itself was the cause."""

    head_sha: str
    at: datetime
    times: int
    people: tuple[str, ...] = ()
    """Who was rejected with this head for lack of permission, casefolded, once for each time: that is no fault of the
    head, and does not hold for other people."""
    base_branch: str = ""
    why: Reason | None = None
    announced: bool = False
    """Whether people have been told that it is not looked at for a while."""

    def allows_retry(self, head_sha: str, *, by: str | None = None, by_machine: bool, now: datetime) -> bool:
        """Return whether this head is judged again for the present requester; `by` is None while unknown."""
        if head_sha != self.head_sha:
            return True
        if by_machine and (self.times or (by or "").casefold() in self.people):
            return False
        return now >= self.heard_from(by)

    def heard_from(self, by: str | None) -> datetime:
        """When a person who asks for this head is heard again."""
        waits = self.times + self.people.count((by or "").casefold()) - _FREE
        return self.at if waits <= 0 else self.at + wait(_PATIENCE, waits - 1, random=no_jitter)


async def rejection_history(tx: Transaction, repository_id: int, number: int) -> RejectionHistory | None:
    """What is known of this pull request's last refusal or failure, if there was one since it last landed."""
    refusal = await tx.refusals.find(repository_id, number)
    if refusal is None:
        return None
    reasoned = [event for event in await tx.timeline.of_pull_request(repository_id, number) if event.reason is not None]
    of_head = [event for event in reasoned if event.data.get("head") == refusal.head_sha]
    people = tuple(str(event.data.get("by") or "").casefold() for event in of_head if event.reason in SENDER_REASONS)
    return RejectionHistory(
        refusal.head_sha,
        refusal.at,
        len(of_head) - len(people) if of_head else 1,
        people,
        base_branch=of_head[-1].base_branch if of_head else "",
        why=refusal.reason,
        announced=bool(reasoned) and reasoned[-1].reason is Reason.ASKED_TOO_OFTEN,
    )


async def announce_ignored(engine: Engine, repository: Repository, number: int, by: str, delivery: str | None) -> None:
    """Tell a person once that this head is not looked at for a while, and until when; the label comes off for that."""
    async with engine.store.reading() as tx:
        before = await rejection_history(tx, repository.id, number)
    if before is None or before.announced or not before.base_branch:
        return
    policy = await engine.policies.of(repository, before.base_branch)
    async with engine.change() as change:
        tx, now = change.tx, change.now
        queue = await tx.queues.find(repository.id, before.base_branch)
        if queue is None or await rejection_history(tx, repository.id, number) != before:
            return
        notice = Notice(
            kind=NoticeKind.REFUSED,
            number=number,
            base_branch=before.base_branch,
            head_sha=before.head_sha,
            at=now,
            people=(by,),
            reason=Reason.ASKED_TOO_OFTEN,
            detail=None if before.why is None else before.why.value.replace("_", " "),
            until=before.heard_from(by),
            queued_by=by,
            trigger_label=policy.trigger_label,
        )
        await notices.announce(tx, repository, notice, policy, due=now)
        await notices.remove_label(tx, repository, number, policy, now)
        # No head: the event is no judgement of one, and does not count as one.
        data = {"by": by}
        await change.record(
            "refused", queue, number=number, reason=Reason.ASKED_TOO_OFTEN, delivery=delivery, data=data
        )
