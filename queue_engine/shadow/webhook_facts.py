"""Read what webhooks state: a former tip, a bot's rebase, and consent that had ended before a decision to merge.

A queue's merge request names the head, so GitHub refuses it after a push of which IMQ does not know yet. Shadow mode
sends no request: it corrects such a decision when the webhook comes.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.known_facts import KEPT, Consent, Known, PullRequestState, Push, of_branch, of_pull
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import has_label
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowOutcome, ShadowPull
from queue_engine.domain.webhooks import HeadChange, LabelRequest
from queue_engine.effects.context import Engine
from queue_engine.rules.consent import HeadConsent, NewHead, may_bind

_REPEATED = timedelta(minutes=10)
"""For how long a rejected label is not judged again, for the same person and head."""

_SECOND = timedelta(seconds=1)
"""GitHub's times have whole seconds: a change of the second of the decision may have come after it."""


async def tip_before(engine: Engine, repository: Repository, base_branch: str, sha: str) -> str | None:
    """Return the branch's tip before the push that made `sha` its tip; None if no such webhook came lately."""
    pushed = [one.statement for one in await _known(engine, repository, of_branch(base_branch))]
    return next((one.before for one in pushed if isinstance(one, Push) and one.after == sha), None)


async def withdrawn_before_merge(engine: Engine, pull: ShadowPull, policy: Policy) -> Reason | None:
    """Return how consent had ended when IMQ decided to merge, by a webhook that came later; None if it had not.

    What was known when the would-be entry joined has been judged then.
    """
    decision = pull.decision
    if decision is None or decision.outcome is not ShadowOutcome.MERGED or pull.landing is not None:
        return None
    known = await _known(engine, pull.repository, of_pull(pull.number))
    joined = max((place for place, one in enumerate(known) if isinstance(one.statement, Consent)), default=-1)
    for one in known[joined + 1 :]:
        state = one.statement
        if isinstance(state, PullRequestState) and state.updated_at + _SECOND <= decision.at:
            is_later = pull.enqueued_at is None or state.updated_at > pull.enqueued_at
            if is_later and (reason := _withdrawal(state, pull, policy)) is not None:
                return reason
    return None


def is_rebase(pull: ShadowPull, webhook: HeadChange, policy: Policy) -> bool:
    """Whether a named bot pushed to its own pull request, and replaced the head with consent."""
    head = NewHead(webhook.head_sha, webhook.sender, webhook.before)
    return pull.entry is not None and may_bind(head, pull.entry, policy, HeadConsent.BOT_PUSH) is HeadConsent.BOT_PUSH


def _withdrawal(state: PullRequestState, pull: ShadowPull, policy: Policy) -> Reason | None:
    """Return which of its changes ends the consent to the head of the decision."""
    removed = state.removed_label
    changes = {
        Reason.HEAD_CHANGED: state.before == pull.head,
        Reason.LABEL_REMOVED: removed is not None and has_label([removed], policy.trigger_labels),
        Reason.CLOSED: not state.open and not state.merged,
        Reason.BASE_CHANGED: state.base != pull.base_branch,
        Reason.DRAFT: state.draft,
    }
    return next((reason for reason, holds in changes.items() if holds), None)


async def _known(engine: Engine, repository: Repository, subject: str) -> Sequence[Known]:
    async with engine.store.reading() as tx:
        found = await tx.known.about(repository.id, {subject}, since=engine.clock.now() - KEPT)
    return found.get(subject, ())


def is_repeated(known: ShadowPull, webhook: LabelRequest, now: datetime) -> bool:
    """Whether the same person's label on the same head was rejected just now: people may set it all day."""
    decision = known.decision
    return (
        decision is not None
        and decision.outcome is ShadowOutcome.REJECTED
        and (known.queued_by, known.head) == (webhook.sender, webhook.head_sha)
        and now < decision.at + _REPEATED
    )
