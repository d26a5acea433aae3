"""Handle reviews and conversations: judge a pull request again that waits for them.

A pull request whose approval was withdrawn is dequeued.
"""

from queue_engine.admission.case import Case
from queue_engine.admission.required_facts import withdrawn_approval
from queue_engine.admission.revalidate import left_to_pass, revalidate
from queue_engine.admission.throttle import is_outsider, is_throttled
from queue_engine.config.model import Policy
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.domain.webhooks import ConversationWebhook, ReviewWebhook
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.effects.queue_depth import set_aside
from queue_engine.rules.eligibility import waits
from queue_engine.rules.new_heads import HeadConsent, NewHead, may_bind
from queue_engine.rules.readiness import may_be_renewed


async def reviewed(engine: Engine, webhook: ReviewWebhook | ConversationWebhook) -> None:
    """Handle a new or dismissed review, or a conversation that was resolved or opened again.

    IMQ dequeues the entry if its rules require an approval that is now missing. In the queue it reads conversations
    before the merge. An entry that is not ready may have all that it lacked. Raises StaleRecord if the entry changed
    during the reads.
    """
    repository = webhook.repository
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, webhook.number)
    conversation = isinstance(webhook, ConversationWebhook)
    by = webhook.sender if webhook.action != "dismissed" and not webhook.sender_is_bot else None
    if entry is None or (conversation and entry.is_ready):
        return
    if by is not None and await is_throttled(engine, repository, by):
        return
    # Load the policy first: this also drops cached rules, if another process received a webhook of their change.
    policy = await engine.policies.of(repository, entry.base_branch)
    rules = await engine.github.branch_rules(repository, entry.base_branch)
    if not (rules.conversations if conversation else rules.approvals or rules.code_owners):
        return
    if by is not None and not conversation and await is_outsider(engine, repository, by):
        # GitHub's rules do not count an outsider's review, and the pass judges all reviews again before the merge.
        return
    if not entry.is_ready:
        await revalidate(engine, Case(repository, entry.number, entry, webhook.delivery))
        return
    pull, missing = await withdrawn_approval(engine, entry, rules)
    if missing is None:
        return
    if await left_to_pass(engine, repository, entry.number):
        return
    if webhook.action == "dismissed" and webhook.sender_is_bot and await _set_aside(engine, entry, missing, policy):
        return
    people = tuple(dict.fromkeys((pull.author, *pull.assignees)))
    asked = missing[0] is Reason.CHANGES_REQUESTED
    caused_by = webhook.sender if asked is (webhook.action == "submitted") else None
    why = DequeueReason(*missing, people=people, delivery=webhook.delivery, by=caused_by, by_bot=webhook.sender_is_bot)
    async with engine.change() as change:
        await record.dequeue(change, entry, why, policy)


async def _set_aside(engine: Engine, entry: Entry, missing: tuple[Reason, str], policy: Policy) -> bool:
    """Have the entry wait outside its queue, if automation dismissed the approval after IMQ's own update.

    While GitHub makes that update, the pass decides, which judges all reviews before the merge. Raises GitHubError and
    StaleRecord.
    """
    if entry.status is EntryStatus.UPDATING and waits(policy):
        return True
    if not may_be_renewed(entry, missing[0], policy):
        return False
    if not entry.head_proved:
        compared = await engine.github.comparison(entry.repository, entry.base_branch, entry.head)
        head = NewHead(entry.head, compared=compared)
        if may_bind(head, entry, policy, HeadConsent.OWN_UPDATE) is None:
            return False
    async with engine.change() as change:
        await set_aside(change, entry, UnmetRequirement(*missing), policy)
    return True
