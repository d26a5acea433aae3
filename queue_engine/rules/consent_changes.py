"""P4: find consent that somebody has withdrawn, by webhooks. Pure judgements over plain data.

A read shows a pull request as it is now. One that became a draft and is ready again looks unchanged, and so does one
whose label a person took off and another person, who may not queue, has set again. IMQ was told of both. It judges by
a read that is newer than both where reads lag, where webhooks come in a burst, and after a restart.

GitHub's times have whole seconds: within one second the order counts in which IMQ was told.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.known_facts import Consent, PullRequestState
from queue_engine.domain.policy import Policy, has_label
from queue_engine.domain.reasons import Reason


def withdrawn_since_label(
    pull: PullRequest, *, base_branch: str, policy: Policy, labeled_at: datetime, by: str
) -> Reason | None:
    """Why the label that this person set then is no consent any more; None if nothing against it was told since."""
    since = _changes_since(pull, labeled_at, by, place=len(pull.told))
    return _withdrawn(since, base_branch, policy, by=by, trusted_labels=())


def withdrawn_since_queued(
    pull: PullRequest,
    *,
    base_branch: str,
    policy: Policy,
    queued_at: datetime,
    queued_by: str,
    trusted_labels: Iterable[str],
) -> Reason | None:
    """Why a queued pull request has no consent any more; None if nothing against it was told since.

    `queued_at` is when IMQ queued it, which counts once the consent itself was told too long ago. Of its labels those
    `trusted_labels` for count, if they are known.
    """
    consents = [(place, one) for place, one in enumerate(pull.told) if isinstance(one, Consent)]
    if consents:
        place, consent = consents[-1]
        since = _changes_since(pull, consent.at, consent.by, place=place)
    else:
        since = [one for one in pull.told if isinstance(one, PullRequestState) and one.updated_at > queued_at]
    return _withdrawn(since, base_branch, policy, by=queued_by, trusted_labels=tuple(trusted_labels))


def last_change(pull: PullRequest) -> datetime | None:
    """When it changed last, by what was read and what webhooks told: a person who asks now has seen that change."""
    told = [one.updated_at for one in pull.told if isinstance(one, PullRequestState)]
    return max((at for at in (*told, pull.updated_at) if at is not None), default=None)


def _changes_since(pull: PullRequest, at: datetime, by: str | None, *, place: int) -> list[PullRequestState]:
    """What was told since a consent of that time: of the same second, what was told after the label, or after `place`
    if no webhook told of that label."""
    states = [(number, one) for number, one in enumerate(pull.told) if isinstance(one, PullRequestState)]
    labels = [number for number, one in states if one.label_set and (one.updated_at, one.by) == (at, by)]
    place = max(labels, default=place)
    return [one for number, one in states if one.updated_at > at or (one.updated_at == at and number > place)]


def _withdrawn(
    since: Sequence[PullRequestState], base_branch: str, policy: Policy, *, by: str, trusted_labels: tuple[str, ...]
) -> Reason | None:
    # What a configuration that cannot be read says of labels is not known.
    if policy.fault is None and _unlabeled(since, policy, by, trusted_labels):
        return Reason.LABEL_REMOVED
    for state in since:
        if not state.open and not state.merged:
            return Reason.CLOSED
        if state.base != base_branch:
            return Reason.BASE_CHANGED
        if state.draft:
            return Reason.DRAFT
    return None


def _unlabeled(since: Sequence[PullRequestState], policy: Policy, by: str, trusted_labels: tuple[str, ...]) -> bool:
    """Whether a person took the last label off that queues and, if these are known, is trusted_labels for.

    The person who queued the pull request may set it again: that renews the consent, and costs no place.
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
