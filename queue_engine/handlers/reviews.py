"""Handle reviews: dequeue a pull request whose approval was withdrawn."""

from queue_engine.admission.revalidate import left_to_pass
from queue_engine.admission.throttle import is_outsider, is_throttled
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.model import Repository
from queue_engine.domain.webhook_event import WebhookEvent
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.rules.reviews import missing_approval, reviews_of


async def reviewed(engine: Engine, repository: Repository, webhook: WebhookEvent) -> None:
    """Somebody reviewed, or a review was dismissed: where rules ask for reviews a queued one may have to leave.

    Raises StaleRecord when the entry changed while GitHub was asked.
    """
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, webhook.number or 0)
    by = webhook.sender if webhook.action == "submitted" and not webhook.sender_is_bot else None
    if entry is None or (by is not None and await is_throttled(engine, repository, by)):
        return
    # The policy first: asked for it, a process learns that rules changed of which another one has heard.
    policy = await engine.policies.of(repository, entry.base_branch)
    rules = await engine.github.branch_rules(repository, entry.base_branch)
    if not (rules.approvals or rules.code_owners):
        return
    if by is not None and await is_outsider(engine, repository, by):
        # GitHub's rules do not count it, and all reviews are judged once more right before the merge.
        return
    taken = await engine.github.snapshot(repository, entry.number, login=None)
    pull, reviews = taken.pull, await reviews_of(engine.github, repository, taken, rules)
    missing = None if reviews is None else missing_approval(reviews, rules, taken.decision)
    if missing is None:
        return
    if await left_to_pass(engine, repository, entry.number):
        return
    people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
    async with engine.change() as change:
        await record.dequeue(change, entry, DequeueReason(*missing, people=people, delivery=webhook.delivery), policy)
