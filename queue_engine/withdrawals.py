"""P4: consent that somebody has withdrawn, as webhooks told it. Pure judgements over plain data.

A read shows a pull request as it is now. One that became a draft and is ready again looks unchanged, and so does one
whose label a person took off and another person, who may not queue, has set again. IMQ was told of both. It judges by
a read that is newer than both where reads lag, where webhooks come in a burst, and after a restart.

GitHub's times have whole seconds: within one second the order counts in which IMQ was told.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from queue_engine.facts import PullRequest
from queue_engine.known.facts import Consented, PullState
from queue_engine.policy import Policy, carries
from queue_engine.reasons import Reason


def withdrawn_since_label(
    pull: PullRequest, *, base_branch: str, policy: Policy, labelled_at: datetime, by: str
) -> Reason | None:
    """Why the label that this person set then is no consent any more; None if nothing against it was told since."""
    since = _told_since(pull, labelled_at, by, place=len(pull.told))
    return _withdrawn(since, base_branch, policy, by=by, vouched=())


def withdrawn_since_queued(
    pull: PullRequest, *, base_branch: str, policy: Policy, queued_at: datetime, queued_by: str, vouched: Iterable[str]
) -> Reason | None:
    """Why a queued pull request has no consent any more; None if nothing against it was told since.

    `queued_at` is when IMQ queued it, which counts once the consent itself was told too long ago. Of its labels those
    `vouched` for count, if they are known.
    """
    consents = [(place, one) for place, one in enumerate(pull.told) if isinstance(one, Consented)]
    if consents:
        place, consent = consents[-1]
        since = _told_since(pull, consent.at, consent.by, place=place)
    else:
        since = [one for one in pull.told if isinstance(one, PullState) and one.updated_at > queued_at]
    return _withdrawn(since, base_branch, policy, by=queued_by, vouched=tuple(vouched))


def last_change(pull: PullRequest) -> datetime | None:
    """When it changed last, by what was read and what webhooks told: a person who asks now has seen that change."""
    told = [one.updated_at for one in pull.told if isinstance(one, PullState)]
    return max((at for at in (*told, pull.updated_at) if at is not None), default=None)


def _told_since(pull: PullRequest, at: datetime, by: str | None, *, place: int) -> list[PullState]:
    """What was told since a consent of that time: of the same second, what was told after the label, or after `place`
    if no webhook told of that label."""
    states = [(number, one) for number, one in enumerate(pull.told) if isinstance(one, PullState)]
    labels = [number for number, one in states if one.label_set and (one.updated_at, one.by) == (at, by)]
    place = max(labels, default=place)
    return [one for number, one in states if one.updated_at > at or (one.updated_at == at and number > place)]


def _withdrawn(
    since: Sequence[PullState], base_branch: str, policy: Policy, *, by: str, vouched: tuple[str, ...]
) -> Reason | None:
    # What a configuration that cannot be read says of labels is not known.
    if policy.fault is None and _unlabelled(since, policy, by, vouched):
        return Reason.LABEL_REMOVED
    for state in since:
        if not state.open and not state.merged:
            return Reason.CLOSED
        if state.base != base_branch:
            return Reason.BASE_CHANGED
        if state.draft:
            return Reason.DRAFT
    return None


def _unlabelled(since: Sequence[PullState], policy: Policy, by: str, vouched: tuple[str, ...]) -> bool:
    """Whether a person took the last label off that queues and, if these are known, is vouched for.

    The person who queued the pull request may set it again: that renews the consent, and costs no place.
    """

    def queues(label: str | None) -> bool:
        return label is not None and policy.triggered([label]) and (not vouched or carries([label], vouched))

    renewals = [number for number, state in enumerate(since) if state.label_set and state.by == by]
    after = max((number for number in renewals if policy.triggered([since[number].label or ""])), default=0)
    return any(queues(state.removed_label) and not any(map(queues, state.labels)) for state in since[after:])
