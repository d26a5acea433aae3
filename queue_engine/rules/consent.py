"""P4: only the queued head lands, or IMQ's own update of it, until consent is withdrawn. Pure, over plain data.

A push by IMQ's own login after IMQ's update request binds the new head at once; its parents prove it before it can
land. Without such a push, a fork's new head counts as another person's.

A read shows a pull request as it is now. A pull request that became a draft and is ready again looks unchanged. So does
one whose label a person removed, and another person without the right set again. Webhooks reported both changes. But
where reads lag, webhooks come in a burst, or IMQ restarts, the read may be newer than both.

GitHub's times have whole seconds: within one second the order of the webhooks' arrival counts.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import Consent, PullRequestState
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import has_label
from queue_engine.domain.reasons import Reason
from queue_engine.rules.eligibility import Reject, blocked_by_config, refused_auto_merge, waits

CHANGED_SINCE_COMMAND: Mapping[Reason, str] = {
    Reason.HEAD_CHANGED: "commits were pushed in the same second as the command, or after it",
    Reason.BASE_CHANGED: "the base branch was changed in the same second as the command, or after it",
}
"""The detail that people read if a later change voids a command."""


def withdrawn_since_label(
    pull: PullRequest, *, base_branch: str, policy: Policy, labeled_at: datetime, by: str
) -> Reason | None:
    """Return why the label that this person set then is no consent any more; None if no webhook reports that."""
    since = _changes_since(pull, labeled_at, by, place=len(pull.reported))
    return _withdrawn(since, base_branch, policy, by=by, trusted_labels=(), drafts=waits(policy))


def withdrawn_since_queued(pull: PullRequest, entry: Entry, policy: Policy) -> Reason | None:
    """Return why a queued pull request has no consent any more; None if webhooks reported no withdrawal.

    The instant at which IMQ queued it counts if the webhook of the consent is no longer stored. If trusted labels are
    known, only these labels count.
    """
    consents = [
        (place, one) for place, one in enumerate(pull.reported) if isinstance(one, Consent) and one.head is None
    ]
    if consents:
        place, consent = consents[-1]
        since = _changes_since(pull, consent.at, consent.by, place=place)
    else:
        since = [
            one for one in pull.reported if isinstance(one, PullRequestState) and one.updated_at > entry.enqueued_at
        ]
    trusted, drafts = entry.trusted_labels, not entry.is_ready
    return _withdrawn(since, entry.base_branch, policy, by=entry.queued_by, trusted_labels=trusted, drafts=drafts)


def changed_since_command(reported: Sequence[PullRequestState | Consent], head: str) -> Reason | None:
    """Return why a command to queue this head is no consent; None if no command queued it, or nothing voids it.

    A push to the head, or a change of the base branch, voids the command if its webhook came after the command. The
    person who commented may not have known of that change.
    """
    places = [place for place, one in enumerate(reported) if isinstance(one, Consent) and one.head == head]
    for state in reported[places[0] :] if places else ():
        if isinstance(state, PullRequestState) and state.base_changed:
            return Reason.BASE_CHANGED
        if isinstance(state, PullRequestState) and state.before is not None and state.head == head:
            return Reason.HEAD_CHANGED
    return None


def withdrawal(state: PullRequestState, head: str, base_branch: str, policy: Policy) -> Reason | None:
    """Return how this change of a pull request ends the consent to this head for this base branch, if it does."""
    if state.before == head:
        return Reason.HEAD_CHANGED
    return _withdrawn([state], base_branch, policy, by="", trusted_labels=(), drafts=False)


def last_change(pull: PullRequest) -> datetime | None:
    """Return the pull request's last change, by the read and by webhooks: a later command is consent to it."""
    changes = [one.updated_at for one in pull.reported if isinstance(one, PullRequestState)]
    return max((at for at in (*changes, pull.updated_at) if at is not None), default=None)


def _changes_since(pull: PullRequest, at: datetime, by: str | None, *, place: int) -> list[PullRequestState]:
    """Return the states that webhooks reported after a consent of that time.

    Of the same second, those that arrived after the label's webhook count, or after `place` if that webhook is missing.
    """
    states = [(number, one) for number, one in enumerate(pull.reported) if isinstance(one, PullRequestState)]
    labels = [number for number, one in states if one.label_set and (one.updated_at, one.by) == (at, by)]
    place = max(labels, default=place)
    return [one for number, one in states if one.updated_at > at or (one.updated_at == at and number > place)]


def _withdrawn(
    since: Sequence[PullRequestState],
    base_branch: str,
    policy: Policy,
    *,
    by: str,
    trusted_labels: tuple[str, ...],
    drafts: bool,
) -> Reason | None:
    """`drafts`: whether a draft is no withdrawal, since the pull request is not in the queue yet."""
    # While the configuration cannot be read, its trigger labels are unknown.
    if policy.fault is None and _unlabeled(since, policy, by, trusted_labels):
        return Reason.LABEL_REMOVED
    for state in since:
        if not state.open and not state.merged:
            return Reason.CLOSED
        if state.base != base_branch:
            return Reason.BASE_CHANGED
        if state.draft and not drafts:
            return Reason.DRAFT
    return None


def _unlabeled(since: Sequence[PullRequestState], policy: Policy, by: str, trusted_labels: tuple[str, ...]) -> bool:
    """Whether a person removed the last trigger label; if `trusted_labels` are known, only those count.

    The person who queued the pull request may set the label again: that renews the consent, and keeps the position.
    """

    def queues(label: str | None) -> bool:
        return (
            label is not None
            and policy.has_trigger_label([label])
            and (not trusted_labels or has_label([label], trusted_labels))
        )

    renewals = [number for number, state in enumerate(since) if state.label_set and state.by == by]
    after = max((number for number in renewals if policy.has_trigger_label([since[number].label or ""])), default=0)
    return any(queues(state.removed_label) and not any(map(queues, state.labels)) for state in since[after:])


def consent_lost(entry: Entry, pull: PullRequest, policy: Policy) -> Reject | None:
    """Return why this entry no longer has consent, or None.

    While IMQ's own update is under way, a different head is no withdrawal: it has to be proved first. A pull request
    that waits until it is ready may be a draft, and have a label or title that the configuration blocks.
    """
    if (reason := _lost_by_state(entry, pull, policy)) is not None:
        return Reject(reason)
    blocked = blocked_by_config(pull, policy) if entry.is_ready or not waits(policy) else None
    if (refused := blocked or refused_auto_merge(pull, policy)) is not None:
        return refused
    if (reason := withdrawn_since_queued(pull, entry, policy)) is not None:
        return Reject(reason)
    if (reason := changed_since_command(pull.reported, entry.queued_head)) is not None:
        return Reject(reason, CHANGED_SINCE_COMMAND[reason])
    changed = entry.status is not EntryStatus.UPDATING and pull.head_sha != entry.head
    return Reject(Reason.HEAD_CHANGED) if changed else None


def _lost_by_state(entry: Entry, pull: PullRequest, policy: Policy) -> Reason | None:
    if pull.merged:
        return Reason.MERGED_ELSEWHERE
    if not pull.open:
        return Reason.CLOSED
    if pull.base_branch != entry.base_branch:
        return Reason.BASE_CHANGED
    # While the configuration cannot be read, its trigger labels are unknown, and its queues hold.
    if policy.fault is None and not policy.has_trigger_label(pull.labels):
        return Reason.LABEL_REMOVED
    if policy.fault is None and not policy.enabled:
        return Reason.BRANCH_NOT_SERVED
    if pull.draft and entry.is_ready:
        return Reason.DRAFT
    return Reason.FORK_DELETED if pull.head_repository is None else None
