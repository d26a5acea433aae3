"""Find who caused a departure, by what webhooks reported since IMQ queued the pull request. Pure, over plain data.

Only the webhook of that very change names its sender: without it IMQ names no one.
"""

from collections.abc import Callable, Mapping, Sequence

from queue_engine.domain.dequeue_reason import Cause, DequeueReason
from queue_engine.domain.known_facts import Consent, Known, PullRequestState, ReviewChange
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason

_MADE_BY: Mapping[Reason, Callable[[PullRequestState, Entry, str | None], bool]] = {
    Reason.LABEL_REMOVED: lambda state, _, detail: state.removed_label is not None,
    Reason.HEAD_CHANGED: lambda state, entry, _: state.before is not None and state.head != entry.head,
    Reason.BASE_CHANGED: lambda state, entry, _: state.base_changed and state.base != entry.base_branch,
    Reason.CLOSED: lambda state, *_: state.action == "closed",
    Reason.MERGED_ELSEWHERE: lambda state, *_: state.merged and state.action == "closed",
    Reason.DRAFT: lambda state, *_: state.action == "converted_to_draft",
    Reason.BLOCKED_BY_LABEL: lambda state, _, detail: state.label_set and _same(state.label, detail),
    Reason.BLOCKED_BY_TITLE: lambda state, *_: state.action == "edited" and not state.base_changed,
    Reason.AUTO_MERGE_ENABLED: lambda state, *_: state.action == "auto_merge_enabled",
}
"""The changes that cause a departure for a reason; `detail` is that of the reason."""


_BY_DISMISSAL = frozenset({Reason.APPROVAL_MISSING, Reason.CODE_OWNER_MISSING})


def dismissal_of(entry: Entry, known: Sequence[Known]) -> Cause | None:
    """Return who dismissed an approval last, and how long after IMQ's update; None if no webhook says so.

    An approval that was given again, or dismissed before the pull request was queued, causes nothing. No payload has
    the time of a dismissal, so the arrivals of both webhooks count.
    """
    newest = {each.statement.author: each for each in known if isinstance(each.statement, ReviewChange)}
    found = [each for each in newest.values() if each.at >= entry.enqueued_at]
    last = max((each for each in found if _is_dismissal(each.statement)), key=lambda each: each.at, default=None)
    if last is None or not isinstance(last.statement, ReviewChange) or last.statement.by is None:
        return None
    updates = [each.at for each in known if _is_update(each.statement, entry)]
    after = (last.at - updates[-1]).total_seconds() if updates and last.at >= updates[-1] else None
    return Cause(last.statement.by, last.statement.by_bot, after)


def cause_of(
    why: DequeueReason, entry: Entry, known: Sequence[Known], is_trigger: Callable[[str], bool]
) -> Cause | None:
    """Return who caused this departure; None if no webhook says so. `known` are facts in their order.

    `is_trigger` returns whether a label queues.
    """
    reported = [each.statement for each in known]
    # What came before the consent, such as IMQ's own removal of an earlier label, withdraws nothing.
    since = max((one.at for one in reported if isinstance(one, Consent)), default=None)
    states = [
        state
        for state in reported
        if isinstance(state, PullRequestState) and (since is None or state.updated_at >= since)
    ]
    makes = _MADE_BY.get(why.reason)
    made = None
    for state in states if makes is not None else ():
        assert makes is not None
        if not makes(state, entry, why.detail):
            continue
        if why.reason is not Reason.LABEL_REMOVED or is_trigger(state.removed_label or ""):
            made = state
    if why.reason in _BY_DISMISSAL and (dismissal := dismissal_of(entry, known)) is not None:
        return dismissal
    if why.by is not None:
        return Cause(why.by, why.by_bot)
    if made is None or made.by is None:
        return None
    return Cause(made.by, made.by_bot, _after_update(made, entry, states))


def _after_update(made: PullRequestState, entry: Entry, states: Sequence[PullRequestState]) -> float | None:
    """Return the seconds between IMQ's update and this change, which came later."""
    updates = [each.updated_at for each in states if _is_update(each, entry)]
    if not updates or made.updated_at < updates[-1]:
        return None
    return (made.updated_at - updates[-1]).total_seconds()


def _is_dismissal(statement: object) -> bool:
    return isinstance(statement, ReviewChange) and statement.state == "dismissed"


def _is_update(statement: object, entry: Entry) -> bool:
    """Whether a webhook reported IMQ's own update of the branch by this fact."""
    if not isinstance(statement, PullRequestState) or entry.head == entry.queued_head:
        return False
    return statement.before is not None and statement.head == entry.head


def _same(label: str | None, other: str | None) -> bool:
    return label is not None and other is not None and label.casefold() == other.casefold()
